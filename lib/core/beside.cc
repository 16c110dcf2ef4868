#include "dgx/core/beside.h"

#include <cstdlib>
#include <filesystem>

namespace dgx {

std::string beside_program(const char* variable, const std::string& file) {
  if (const char* given = std::getenv(variable); given != nullptr && *given != '\0') return given;
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  return (program.parent_path().parent_path() / file).string();
}

}  // namespace dgx
