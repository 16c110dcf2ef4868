#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

#include "cpu/machine.h"
#include "dgx/core/checked.h"
#include "dgx/core/range.h"

namespace dgx::exec {

/// The scratch memory and status of one member of the team.
struct Machine::Thread {
  kernels::cpu::Scratch matmul;
  StripScratch strips;
  Tensor fold;                     // a fold's sums, and the operands of a strip or a row
  Tensor block;                    // one block of a product that maps follow
  Tensor right;                    // that product's right side, packed
  Tensor window;                   // a window product's grids and sums
  kernels::cpu::GroupSums sums;    // of this member's groups of a window gradient; they lie in `window`
  kernels::ByValue<void*> values;  // memory_, but for the product in `block` or the values in `slice`
  const kernels::ByValue<void*>* memory = nullptr;  // each value's memory: memory_, or `values`
  Tensor slice;
  std::vector<std::int64_t> offsets;    // by map of a strip program, added to its base
  std::vector<std::int64_t> starts;     // of a keyed chain: where each key begins in `positions`
  std::vector<std::int64_t> positions;  // of a keyed chain: positions, sorted by key
  Status status;

  template <class T>
  [[nodiscard]] T* at(kernels::ValueIndex value) const {
    return static_cast<T*>((*memory)[value]);
  }
};

/// Adds the time since the last charge to an operation's seconds. Does nothing if `seconds` is null or empty.
class OperationClock {
 public:
  explicit OperationClock(std::vector<double>* seconds)
      : seconds_(seconds == nullptr || seconds->empty() ? nullptr : seconds) {
    if (seconds_ != nullptr) last_ = Clock::now();
  }
  void charge(std::size_t operation) {
    if (seconds_ == nullptr) return;
    const auto now = Clock::now();
    (*seconds_)[operation] += std::chrono::duration<double>(now - last_).count();
    last_ = now;
  }

 private:
  using Clock = std::chrono::steady_clock;
  std::vector<double>* seconds_;
  Clock::time_point last_;
};

/// Member `member`'s share of [0, count), in multiples of `grain`.
inline Range share(std::int64_t count, std::int64_t grain, int member, int members) {
  const std::int64_t grains = ceil_div(count, grain);
  const auto bound = [&](int m) { return std::min(count, grains * m / members * grain); };
  return {bound(member), bound(member + 1)};
}

}  // namespace dgx::exec
