#pragma once

#include <memory>

#include "dgx/program/program.h"

namespace dgx::exec {

/// Rewrites products and concatenations that read a mere copy of another value (attention heads taken apart,
/// say) to read that value itself: the same numbers, with one pass over memory less. Their dimensions are
/// split where the copy's are (`i` and `f`), so that every access stays linear. Applies to a copy only if all
/// its readers can be rewritten and keep their form; nothing needs the copy then.
[[nodiscard]] std::shared_ptr<const program::Program> read_through_copies(
    const std::shared_ptr<const program::Program>& program);

}  // namespace dgx::exec
