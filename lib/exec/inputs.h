#pragma once

#include "dgx/core/tensor.h"
#include "dgx/kernels/primitive.h"
#include "thread_team.h"

namespace dgx::exec {

/// The numbers of a `constant` input, which the program's reader has checked.
[[nodiscard]] Tensor constant_tensor(const kernels::Primitive& input);

/// kInternal if some member of the team flushes subnormals or rounds otherwise than to nearest.
[[nodiscard]] Status check_float_mode(ThreadTeam& team);

}  // namespace dgx::exec
