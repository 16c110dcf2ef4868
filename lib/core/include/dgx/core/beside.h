#pragma once

#include <string>

namespace dgx {

/// The path of a file that belongs to the program: the value of environment variable `variable` if that is
/// set, else `file` ("lib/dgx/x.so") under the folder that holds the program's bin folder.
[[nodiscard]] std::string beside_program(const char* variable, const std::string& file);

}  // namespace dgx
