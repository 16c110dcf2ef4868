#pragma once

#include <optional>
#include <vector>

#include "plan/operation.h"

namespace dgx::exec {

/// Chooses how a device makes a value by itself that is no map, product or column sum: TiledDot, TeamFold or
/// KeyedChain if it has their form and they pay, else Generic, a thread per element.
/// `accesses`: strip_accesses(primitive).
[[nodiscard]] DeviceOperation recognise_on_device(kernels::ValueIndex value,
                                                  const kernels::CompiledPrimitive& primitive,
                                                  const std::optional<std::vector<StripAccess>>& accesses);

}  // namespace dgx::exec
