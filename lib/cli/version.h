#pragma once

#include <string>

#include "dgx/cli/out.h"

namespace dgx::cli {

/// "libsodium 1.0.18\nzstd 1.5.4": defined in a source that dgx_program() writes for every program, from what it links.
extern const char* const kLinkedLibraries;

/// `version`, `formats`, `libraries`.
void print_version(Out& out);

}  // namespace dgx::cli
