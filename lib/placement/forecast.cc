#include "dgx/placement/forecast.h"

#include <cassert>

#include "clocks.h"

namespace dgx::placement {
namespace {

/// The play of a step.
class Play {
 public:
  Play(const StepWork& work, std::span<const std::int64_t> bounds, std::span<const std::int64_t> rates,
       const exchange::Network& network)
      : work_(work), bounds_(bounds), clocks_(rates, network) {}

  Forecast run() {
    clocks_.broadcast(0, Clocks::kOrderBytes);
    for (const StepWork::Phase& phase : work_.phases) {
      const std::span<const Stretch> stretches(phase.stretches);
      run_stretches(stretches.first(stretches.size() - phase.behind));
      for (const std::int64_t bytes : phase.gathered) begin_gather(bytes);
      for (const HomeRows& rows : phase.moved) begin_move(rows);
      run_stretches(stretches.last(phase.behind));
      clocks_.wait_for_all();
    }
    for (const std::int64_t bytes : work_.broadcast) clocks_.begin_broadcast(ranks() - 1, bytes);
    for (const StepWork::Given& given : work_.given)
      clocks_.begin_broadcast(static_cast<std::size_t>(given.home), given.bytes);
    clocks_.wait_for_all();
    for (const std::int64_t bytes : work_.tail_gathered) begin_gather(bytes);
    clocks_.wait_for_all();
    for (std::size_t r = 0; r < ranks(); ++r) clocks_.compute(r, work_.tail.operations(r, 0));
    clocks_.gather_equal(Clocks::kReportBytes);
    return clocks_.result();
  }

 private:
  [[nodiscard]] std::size_t ranks() const { return clocks_.ranks(); }
  [[nodiscard]] std::int64_t slices_of(std::size_t r) const { return bounds_[r + 1] - bounds_[r]; }

  /// A rank waits for nobody but the one before it, so one after another goes through all stretches.
  void run_stretches(std::span<const Stretch> stretches) {
    std::vector<exchange::Nanoseconds> arrives(
        stretches.size());  // at the rank, what the one before it carries
    for (std::size_t r = 0; r < ranks(); ++r) {
      const double share = static_cast<double>(slices_of(r)) / static_cast<double>(work_.slices);
      for (std::size_t n = 0; n < stretches.size(); ++n) {
        const Stretch& stretch = stretches[n];
        if (stretch.carry && r > 0) clocks_.wait(r, arrives[n]);
        clocks_.compute(r, stretch.operations(r, share));
        if (!stretch.carry || r + 1 == ranks()) continue;
        const std::int64_t bytes = carried_bytes(*stretch.carry, bounds_[r + 1], work_.slices);
        arrives[n] = clocks_.send(r, r + 1, bytes);
      }
    }
  }

  void begin_gather(std::int64_t bytes) {
    for (std::size_t r = 0; r < ranks(); ++r) clocks_.give_to_all(r, bytes / work_.slices * slices_of(r));
  }

  /// Lengths and rows go one behind the other.
  void begin_move(const HomeRows& rows) {
    const auto home = static_cast<std::size_t>(rows.home);
    assert(home < ranks());
    const bool is_back = rows.way == HomeRows::Way::kBack;
    for (std::size_t r = 0; r < ranks(); ++r) {
      if (r == home) continue;
      clocks_.begin_message(is_back ? home : r, is_back ? r : home,
                            rows.messages * kLengthBytes + rows.bytes / work_.slices * slices_of(r));
    }
  }

  const StepWork& work_;
  std::span<const std::int64_t> bounds_;
  Clocks clocks_;
};

}  // namespace

Forecast forecast(const StepWork& work, std::span<const std::int64_t> bounds,
                  std::span<const std::int64_t> operations_per_second, const exchange::Network& network) {
  assert(bounds.size() == operations_per_second.size() + 1 && !operations_per_second.empty());
  assert(network.ranks == static_cast<int>(operations_per_second.size()));
  return Play(work, bounds, operations_per_second, network).run();
}

}  // namespace dgx::placement
