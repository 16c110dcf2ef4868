#include "dgx/protocol/segments.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

namespace dgx::protocol {

Result<Segments> Segments::of(std::int64_t steps, std::int64_t checkpoint_every) {
  if (steps < 2) return malformed(fmt::format("steps: is {}, must be at least 2", steps));
  if (checkpoint_every < 2)
    return malformed(fmt::format("checkpoint_every: is {}, must be at least 2", checkpoint_every));
  const std::int64_t whole = steps / checkpoint_every;
  const std::int64_t rest = steps % checkpoint_every;
  return Segments(steps, checkpoint_every, std::max<std::int64_t>(1, whole + (rest >= 2 ? 1 : 0)));
}

std::int64_t Segments::boundary(std::int64_t state) const {
  assert(state >= 0 && state <= count_);
  return state == count_ ? steps_ : state * every_;
}

Segment Segments::operator[](std::int64_t index) const {
  assert(index >= 0 && index < count_);
  return {index, boundary(index), boundary(index + 1)};
}

std::int64_t Segments::state_at(std::int64_t step) const {
  if (step == steps_) return count_;
  const bool multiple = step >= 0 && step % every_ == 0 && step / every_ < count_;
  return multiple ? step / every_ : -1;
}

std::int64_t Segments::longest() const {
  const std::int64_t last = (*this)[count_ - 1].length();
  return count_ == 1 ? last : std::max(every_, last);
}

}  // namespace dgx::protocol
