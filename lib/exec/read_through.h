#pragma once

#include "dgx/program/program.h"

namespace dgx::exec {

/// The program with products that read a value which only copies another (heads of attention taken apart, say) reading that other value
/// instead: same numbers, one pass over memory less. Their dimensions are split where the copy's are (`i` and `f`), so that every access
/// stays linear. A copy is passed by only if all that reads it are products and stay products; nothing needs it then.
[[nodiscard]] program::Program read_through_copies(const program::Program& program);

}  // namespace dgx::exec
