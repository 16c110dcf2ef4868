#pragma once

#include <span>
#include <vector>

#include "dgx/kernels/compiled.h"
#include "dgx/protocol/fold_levels.h"

namespace dgx::protocol {

/// The entries of `list` for one element of a fold, from the values that its line reads (indexed by value;
/// others may be empty). Cost: the fold up to the end of the list.
[[nodiscard]] Result<std::vector<kernels::Running>> fold_numbers(const kernels::CompiledPrimitive& line,
                                                                 std::span<const TensorView> values,
                                                                 std::int64_t element, const FoldList& list);

/// True if the list ends with the whole fold's result, which must agree with the element that the defender
/// claims.
[[nodiscard]] bool ends_fold(const kernels::CompiledPrimitive& line, const FoldList& list);

}  // namespace dgx::protocol
