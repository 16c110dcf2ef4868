#pragma once

#include <optional>

#include "dgx/kernels/compiled.h"
#include "dgx/kernels/cuda/device.h"
#include "dgx/kernels/cuda/forms.h"
#include "plan.h"

namespace dgx::exec {

/// A dot that a device computes in tiles: `dot` without its values' addresses and without a form.
struct DeviceDot {
  kernels::ValueIndex a = 0, b = 0;
  kernels::cuda::Dot dot;
};

/// Recognises a dot that a device can compute in tiles. Each iteration index moves one side only, or both but
/// no coordinate that may lie outside. Such coordinates are on one side, at most three, divided exactly or
/// not at all, with at most 31 taps together, and give 0 outside. All numbers are in the ranges of Walk.
/// Nullopt for a dot of another form, and for one with so few outputs for its depth that tiles do not pay.
[[nodiscard]] std::optional<DeviceDot> recognise_device_dot(const kernels::CompiledPrimitive& primitive);

/// The size of a product or a dot, for choose_form().
[[nodiscard]] kernels::cuda::TileWanted wanted_of(const MatmulTask& task);
[[nodiscard]] kernels::cuda::TileWanted wanted_of(const kernels::cuda::Dot& dot);

}  // namespace dgx::exec
