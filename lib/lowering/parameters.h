#pragma once

#include <optional>
#include <vector>

#include "dgx/core/result.h"
#include "dgx/lowering/aten.h"
#include "dgx/program/update_spec.h"

namespace dgx::lowering {

/// The treatment of each source of a graph, by its index: whether it is trained, and in which group.
struct Treatment {
  std::vector<std::optional<TensorId>>
      gradients;                    ///< nullopt: it keeps its value, or is replaced by the pass
  std::vector<std::size_t> groups;  ///< from 1; 0: none
};

/// Divides a training graph's parameters among frozen ones and the task's groups. kUsage for a pattern that
/// means no parameter, a group that takes none, and if nothing is left to train.
[[nodiscard]] Result<Treatment> treat_parameters(const CapturedGraph& graph,
                                                 const program::UpdateSpec& update);

}  // namespace dgx::lowering
