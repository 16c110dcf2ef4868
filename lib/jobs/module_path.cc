#include "module_path.h"

#include <cstdlib>
#include <filesystem>

namespace dgx::jobs {

std::string module_path(const char* variable, const char* file) {
  if (const char* given = std::getenv(variable); given != nullptr && *given != '\0') return given;
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  return (program.parent_path().parent_path() / "lib" / file).string();
}

}  // namespace dgx::jobs
