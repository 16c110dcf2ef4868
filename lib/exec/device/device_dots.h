#pragma once

#include <optional>

#include "plan/operation.h"

namespace dgx::exec {

/// Recognises a dot that a device can compute in tiles. Each iteration index moves one side only, or both
/// sides but no coordinate that may be outside. Coordinates that may be are all on one side: at most three,
/// divided exactly or not at all, with at most 31 taps together, and 0 outside. All numbers are in the ranges
/// of Walk. Nullopt for a dot of another form, and for one with so few outputs for its depth that tiles do
/// not pay.
[[nodiscard]] std::optional<TiledDot> recognise_tiled_dot(kernels::ValueIndex value,
                                                          const kernels::CompiledPrimitive& primitive);

/// The product with the form of tiles that is fastest for its size.
[[nodiscard]] TiledProduct in_tiles(const Matmul& product);

/// The size of a product or a dot, as cuda::choose_form() asks for it.
[[nodiscard]] kernels::cuda::TileWanted wanted_of(const Matmul& product);
[[nodiscard]] kernels::cuda::TileWanted wanted_of(const kernels::cuda::Dot& dot);

}  // namespace dgx::exec
