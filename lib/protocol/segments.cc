#include "dgx/protocol/segments.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

namespace dgx::protocol {
namespace {

Status check_interval(std::int64_t checkpoint_every) {
  if (checkpoint_every >= 2) return {};
  return malformed(fmt::format("checkpoint_every: is {}, must be at least 2", checkpoint_every));
}

}  // namespace

Result<Segments> Segments::of(std::int64_t steps, std::int64_t checkpoint_every) {
  if (steps < 2) return malformed(fmt::format("steps: is {}, must be at least 2", steps));
  DGX_CHECK(check_interval(checkpoint_every));
  const std::int64_t whole = steps / checkpoint_every;
  const std::int64_t rest = steps % checkpoint_every;
  return Segments(steps, checkpoint_every, std::max<std::int64_t>(1, whole + (rest >= 2 ? 1 : 0)), false);
}

Result<Segments> Segments::of_diverged(std::int64_t steps, std::int64_t checkpoint_every) {
  if (steps < 0) return malformed(fmt::format("steps: is {}, must be at least 0", steps));
  DGX_CHECK(check_interval(checkpoint_every));
  const bool partial = steps % checkpoint_every != 0;
  return Segments(steps, checkpoint_every, steps / checkpoint_every + (partial ? 1 : 0), true);
}

std::int64_t Segments::boundary(std::int64_t state) const {
  assert(state >= 0 && state <= between_);
  return state == between_ ? steps_ : state * every_;
}

Segment Segments::operator[](std::int64_t index) const {
  assert(index >= 0 && index < count());
  const std::int64_t first = boundary(index);
  return {index, first, diverges(index) ? first + 1 : boundary(index + 1)};
}

std::int64_t Segments::state_at(std::int64_t step) const {
  if (step == steps_) return between_;
  const bool multiple = step >= 0 && step % every_ == 0 && step / every_ < between_;
  return multiple ? step / every_ : -1;
}

std::int64_t Segments::longest() const {
  if (between_ == 0) return 0;
  const std::int64_t last = (*this)[between_ - 1].length();
  return between_ == 1 ? last : std::max(every_, last);
}

}  // namespace dgx::protocol
