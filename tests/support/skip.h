#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

namespace dgx::test {

/// Ends the process as skipped for ctest (SKIP_RETURN_CODE 77): something it needs is missing. Only for cases
/// that are a ctest entry of their own, since the results of earlier cases would be lost.
[[noreturn]] inline void skip(const std::string& reason) {
  std::printf("skipped: %s\n", reason.c_str());
  std::fflush(stdout);
  std::_Exit(77);
}

}  // namespace dgx::test
