#pragma once

#include <cstdint>

#include "dgx/core/result.h"
#include "dgx/core/tensor.h"
#include "dgx/program/aten.h"
#include "dgx/program/program.h"
#include "dgx/program/specs.h"

namespace dgx::program {

/// The state that step 0 of a built-in model starts from (dgx-numerics(7), "Initial weights"): a function of
/// program, seed and kind of model. `model/` entries follow the rule of their kind, the random stream's ordinal
/// being the entry's rank among them by name; all else is zero. kUsage for a model entry of another name or
/// form.
[[nodiscard]] Result<State> initial_state(const Program& program, std::uint64_t seed,
                                          ModelKind kind = ModelKind::kMlp);

/// The same with the graph's own numbers (a TorchScript file): every `model/NAME` is the source NAME's value.
/// kMalformed if one is missing or of another type or shape.
[[nodiscard]] Result<State> initial_state(const Program& program, const CapturedGraph& graph);

/// kMalformed, naming the entry, unless `state` has exactly the program's state entries, with their types and
/// shapes.
[[nodiscard]] Status check_state(const Program& program, const State& state);

}  // namespace dgx::program
