#pragma once

#include <cstdint>
#include <optional>

#include "dgx/kernels/compiled.h"

namespace dgx::exec {

/// The number of the primitive's leading dimensions that number rows; those after them number columns.
/// Nullopt if its elements (a fold's outputs × positions) are neither rows × columns, nor, of a map, just
/// rows.
[[nodiscard]] std::optional<std::size_t> row_dimensions(const kernels::CompiledPrimitive& primitive,
                                                        std::int64_t rows, std::int64_t columns);

}  // namespace dgx::exec
