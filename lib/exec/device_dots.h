#pragma once

#include <optional>

#include "operation.h"

namespace dgx::exec {

/// Recognises a dot that a device can compute in tiles. Each iteration index moves one side only, or both but
/// no coordinate that may lie outside. Such coordinates are on one side, at most three, divided exactly or
/// not at all, with at most 31 taps together, and give 0 outside. All numbers are in the ranges of Walk.
/// Nullopt for a dot of another form, and for one with so few outputs for its depth that tiles do not pay.
[[nodiscard]] std::optional<TiledDot> recognise_tiled_dot(kernels::ValueIndex value,
                                                          const kernels::CompiledPrimitive& primitive);

/// A product in the tiles that suit it.
[[nodiscard]] TiledProduct in_tiles(const Matmul& product);

/// The size of a product or a dot, for its form.
[[nodiscard]] kernels::cuda::TileWanted wanted_of(const Matmul& product);
[[nodiscard]] kernels::cuda::TileWanted wanted_of(const kernels::cuda::Dot& dot);

}  // namespace dgx::exec
