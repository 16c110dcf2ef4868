#pragma once

#include <optional>
#include <string_view>

#include "cpu/thread_team.h"
#include "dgx/core/rows.h"
#include "dgx/core/tensor.h"
#include "dgx/exec/executor.h"
#include "dgx/kernels/primitive.h"
#include "dgx/program/program.h"

namespace dgx::exec {

/// The first element of an f32 tensor that is infinite or NaN, or nullopt.
[[nodiscard]] std::optional<std::size_t> first_not_finite(const TensorView& tensor);

/// The samples in `inputs`; 0 if they have no field x.
[[nodiscard]] std::int64_t samples_of(const StepInputs& inputs);
/// The rows that the program's batch input reads: a field, or the samples' numbers. kMalformed if there are
/// none, or a batch of them has not the input's type and shape.
[[nodiscard]] Result<RowView> batch_field(const kernels::Primitive& input, const StepInputs& inputs);

/// Returns the state's step. kMalformed unless the state is the program's (program::check_state), has a step
/// from 0 to 2^40, which no task exceeds, and is finite.
[[nodiscard]] Result<std::int64_t> check_loadable(const program::Program& program, const State& state);

/// The error, kMalformed, of a step that would make an entry not finite.
[[nodiscard]] Error not_finite(std::int64_t step, std::string_view entry, std::size_t element);

/// The numbers of a `constant` input, which the program's reader has checked.
[[nodiscard]] Tensor constant_tensor(const kernels::Primitive& input);

/// kInternal if a member of the team flushes subnormals or does not round to nearest.
[[nodiscard]] Status check_float_mode(ThreadTeam& team);

}  // namespace dgx::exec
