#pragma once

#include <string>
#include <string_view>

#include "dgx/cli/tool.h"

namespace dgx::cli {

/// A completion script for "bash", "zsh" or "fish": commands, options, choices, and file names where a value
/// is a file.
[[nodiscard]] std::string completion_script(const Tool& tool, std::string_view shell);

}  // namespace dgx::cli
