#pragma once

#include <vector>

#include "plan.h"

namespace dgx::exec {

/// Fuses neighbouring tasks (fused maps, sums and maxima) over the same rows into one RowsTask. Of each other
/// they may read a row's number at the column where it is made, or one number of the row. Softmax, layer norm
/// and cross entropy are such, forward and backward. Intermediates that stay in a row need no memory. For
/// plans of devices.
void join_rows(const program::Program& program, const std::vector<kernels::ValueIndex>& keep, Plan& plan);

/// The number of the primitive's leading dimensions that number rows; those after them number columns.
/// Nullopt if its elements (a fold's outputs × positions) are neither rows × columns, nor, of a map, just
/// rows.
[[nodiscard]] std::optional<std::size_t> row_dimensions(const kernels::CompiledPrimitive& primitive,
                                                        std::int64_t rows, std::int64_t columns);

}  // namespace dgx::exec
