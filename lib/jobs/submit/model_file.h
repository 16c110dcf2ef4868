#pragma once

#include <string>

#include "dgx/core/result.h"

namespace dgx::jobs {

/// Refuses a file that is no archive of torch.export and no TorchScript file, as its first bytes tell:
/// kMalformed, saying what it is and how to make what is wanted. A file that is not there is not looked at.
/// `model` is as an option names it (program::model_file()).
[[nodiscard]] Status check_model_file(const std::string& model);

/// The name of a model's file for a task: without its folder, with the program's name behind it if the option
/// gives that.
[[nodiscard]] std::string name_of_model_file(const std::string& model);

}  // namespace dgx::jobs
