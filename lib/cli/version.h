#pragma once

#include <string>

#include "dgx/cli/out.h"

namespace dgx::cli {

/// The libraries that the program links, "libsodium 1.0.18\nzstd 1.5.4"; defined in a source file that
/// dgx_program() generates for each program.
extern const char* const kLinkedLibraries;

/// Prints `version`, `formats` and `libraries`.
void print_version(Out& out);

}  // namespace dgx::cli
