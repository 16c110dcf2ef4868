#pragma once

#include <optional>

#include "dgx/kernels/compiled.h"
#include "dgx/kernels/cuda/device.h"
#include "dgx/kernels/cuda/forms.h"
#include "plan.h"

namespace dgx::exec {

/// A dot as a device makes it in tiles: `dot` without the addresses of its values, and without a form.
struct DeviceDot {
  kernels::ValueIndex a = 0, b = 0;
  kernels::cuda::Dot dot;
};

/// A dot each of whose iteration indices moves one side alone, or both without a coordinate that may lie outside; such coordinates, at most three,
/// on one side, divided exactly or not at all, with at most 31 taps, and 0 outside; everything in the ranges of Walk. Nullopt: it has another form,
/// or so few outputs for its depth that tiles are not worth their while.
[[nodiscard]] std::optional<DeviceDot> recognise_device_dot(const kernels::CompiledPrimitive& primitive);

/// What choose_form() asks.
[[nodiscard]] kernels::cuda::TileWanted wanted_of(const MatmulTask& task);
[[nodiscard]] kernels::cuda::TileWanted wanted_of(const kernels::cuda::Dot& dot);

}  // namespace dgx::exec
