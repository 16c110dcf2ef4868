#pragma once

#include "dgx/program/program.h"

namespace dgx::exec {

/// The program with maps that read another map element by element walking the same iteration, where their own only has dimensions split or
/// joined otherwise: same numbers, and both can be fused, which asks for one loop nest.
[[nodiscard]] program::Program share_iterations(program::Program program);

}  // namespace dgx::exec
