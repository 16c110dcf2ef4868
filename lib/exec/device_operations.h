#pragma once

#include <optional>
#include <vector>

#include "plan.h"

namespace dgx::exec {

/// The operation by which a device makes a value alone that is no map, product or column sum: TiledDotTask,
/// TeamFoldTask or KeyedChainTask if it has their form and they pay, else GenericTask, a thread per element.
/// `accesses`: strip_accesses(primitive).
[[nodiscard]] Work recognise_on_device(kernels::ValueIndex value, const kernels::CompiledPrimitive& primitive,
                                       const std::optional<std::vector<StripAccess>>& accesses);

}  // namespace dgx::exec
