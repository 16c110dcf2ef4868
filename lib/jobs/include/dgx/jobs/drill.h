#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "dgx/core/result.h"
#include "dgx/core/tensor.h"
#include "dgx/exec/executor.h"

namespace dgx::jobs {

/// A deliberate fault in a run, for drills and forced errors (dgx-train(1), "Drills").
struct Drill {
  std::int64_t step = -1;  ///< one bit of one element of one value at this step
  exec::Fault fault;
  std::optional<std::int64_t> segment;  ///< instead of a step: a lazy segment
  [[nodiscard]] bool lazy() const { return segment.has_value(); }
};

/// `step=S,op=O,element=E,bit=B` or `segment=N,lazy`; kUsage otherwise.
[[nodiscard]] Result<Drill> parse_drill(std::string_view text);

/// The state that a lazy solver hands in after `steps` steps they did not do: the old one again, its step
/// counter advanced, every parameter moved by one part in 2^20 so that it looks worked on.
[[nodiscard]] State lazy_state(const State& start, std::int64_t steps);

}  // namespace dgx::jobs
