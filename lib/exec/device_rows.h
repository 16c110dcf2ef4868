#pragma once

#include <vector>

#include "plan.h"

namespace dgx::exec {

/// Makes one RowsTask of neighbouring tasks, fused maps and sums and maxima, that are about the same rows: of each other they read a row's numbers
/// where they are made, or what a row came to. So are softmax, layer norm and cross entropy, forth and back: what stays in the row needs no memory.
/// For plans whose kernels are generated.
void join_rows(const program::Program& program, const std::vector<kernels::ValueIndex>& keep, Plan& plan);

/// The primitive's dimensions that are of rows, those behind them being of columns; nullopt if it has not so many elements, or positions, of rows
/// × columns, nor of rows alone.
[[nodiscard]] std::optional<std::size_t> row_dimensions(const kernels::CompiledPrimitive& primitive, std::int64_t rows, std::int64_t columns);

}  // namespace dgx::exec
