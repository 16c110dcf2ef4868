#pragma once

#include <cstdint>

#include "dgx/core/result.h"
#include "dgx/core/tensor.h"
#include "dgx/program/program.h"
#include "dgx/program/specs.h"

namespace dgx::program {

/// The state from which step 0 of a built-in model starts (dgx-numerics(7), "Initial weights"): a function of
/// program, seed and kind of model. `model/` entries follow the rule of their kind, with the entry's rank
/// among them by name as the random stream's ordinal; averages (averages.h) start as their parameters; all
/// else is zero. kUsage for a model entry of another
/// name or form.
[[nodiscard]] Result<State> initial_state(const Program& program, std::uint64_t seed,
                                          ModelKind kind = ModelKind::kMlp);

/// The program's state entries, all zero.
[[nodiscard]] State zero_state(const Program& program);

/// Checks that `state` has exactly the program's state entries, with their types and shapes; else kMalformed,
/// naming the entry.
[[nodiscard]] Status check_state(const Program& program, const State& state);

}  // namespace dgx::program
