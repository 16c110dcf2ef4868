#pragma once

#include <string>

namespace dgx::jobs {

/// Where a module that is opened by name lies: what the environment's `variable` says, else lib/`file` of where the program's bin is.
[[nodiscard]] std::string module_path(const char* variable, const char* file);

}  // namespace dgx::jobs
