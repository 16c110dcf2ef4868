#pragma once

#include <string>

#include "dgx/core/result.h"

namespace dgx::jobs {

/// Refuses a file that is no archive of torch.export and no TorchScript file, as its first bytes tell:
/// kMalformed, saying what it is and how to make what is wanted. A file that is not there is not looked at.
[[nodiscard]] Status check_model_file(const std::string& path);

}  // namespace dgx::jobs
