#pragma once

#include <string>

namespace dgx {

/// Where a file that belongs to the program lies: what the environment's `variable` says, else `file`, "lib/x.so", under the folder
/// that the program's own bin is in.
[[nodiscard]] std::string beside_program(const char* variable, const std::string& file);

}  // namespace dgx
