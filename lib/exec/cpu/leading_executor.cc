#include "dgx/exec/leading_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "dgx/exchange/ranks.h"
#include "dgx/merkle/digests.h"

namespace dgx::exec {
namespace {

using exchange::Exchange;
using Order = LeadingExecutor::Order;

/// A rank's report of a step.
struct Report {
  std::uint8_t is_finite, asked_to_stop;
  double seconds;  ///< without what it waited
};

std::span<std::uint8_t> bytes_of(Order& item) {
  return {reinterpret_cast<std::uint8_t*>(&item), sizeof item};
}

/// Gives all ranks an order.
Status give(Exchange& ranks, Order order) { return ranks.wait(ranks.broadcast(0, bytes_of(order))); }

Result<Order> take_order(Exchange& ranks) {
  auto order = Order::kEnd;
  DGX_CHECK(ranks.wait(ranks.broadcast(0, bytes_of(order))));
  if (order <= Order::kCompare) return order;
  return internal_error("rank 0 gave an order that there is not");
}

/// Gives all ranks rank 0's numbers of a state whose names, types and shapes they know. Rank 0's own are only
/// read.
Status share_state(Exchange& ranks, const State& state) {
  for (const Entry& entry : state) {
    const ByteView bytes = entry.tensor.bytes();
    DGX_CHECK(ranks.wait(ranks.broadcast(0, {const_cast<std::uint8_t*>(bytes.data()), bytes.size()})));
  }
  return {};
}

Status take_state(Exchange& ranks, PartsExecutor& executor) {
  DGX_TRY(State state, executor.state());
  DGX_CHECK(share_state(ranks, state));
  return executor.load(state);
}

Result<std::vector<RankWork>> work_of_all(Exchange& ranks, const PartsExecutor& executor, double seconds) {
  const RankWork own{seconds, executor.waited_seconds(), ranks.traffic()};
  return exchange::gather_items(ranks, std::span(&own, 1));
}

/// A step that all ranks have taken.
struct Taken {
  Status status;  ///< kMalformed if it is not finite, on all ranks
  double seconds = 0;
  bool asked = false;              ///< a rank was asked to stop
  std::vector<double> of_ranks{};  ///< seconds of each, without what it waited
  Status finding{};                ///< of all ranks alike: one of them has failed
};

/// Takes a step, and hears how it went elsewhere.
Status step_together(Exchange& ranks, PartsExecutor& executor, bool asked_here, Taken& taken) {
  const auto begin = std::chrono::steady_clock::now();
  const double waited = executor.waited_seconds();
  taken.status = executor.step();
  taken.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const bool is_finite = taken.status.ok();
  if (!is_finite && taken.status.error().code != ErrorCode::kMalformed) return taken.status;
  const Report own{is_finite, asked_here, taken.seconds - (executor.waited_seconds() - waited)};
  DGX_TRY(const auto reports, exchange::gather_items(ranks, std::span(&own, 1)));
  const auto finite =
      std::ranges::count_if(reports, [](const Report& report) { return report.is_finite != 0; });
  const bool most_are = 2 * finite >= std::ssize(reports);
  for (std::size_t r = 0; r < reports.size(); ++r) {
    taken.asked = taken.asked || reports[r].asked_to_stop != 0;
    taken.of_ranks.push_back(reports[r].seconds);
    if ((reports[r].is_finite != 0) == most_are || !taken.finding.ok()) continue;
    taken.finding = internal_error(fmt::format("{}: the step after step {} is {} there, unlike on most ranks",
                                               exchange::name_of(ranks, static_cast<int>(r)),
                                               executor.position(), most_are ? "not finite" : "finite"),
                                   "its memory or processor may have failed");
  }
  return {};
}

/// Compares all copies of the state. Returns what all ranks find alike: an error that names the first that
/// differs from rank 0.
Result<Status> compare(Exchange& ranks, const PartsExecutor& executor) {
  DGX_TRY(const merkle::StateDigests own, executor.digests(executor.threads()));
  DGX_TRY(const auto all, exchange::gather_items(ranks, std::span<const Digest>(own.tensors)));
  for (std::size_t n = 0; n < all.size(); ++n) {
    const std::size_t entry = n % own.tensors.size(), rank = n / own.tensors.size();
    if (all[n] == all[entry]) continue;
    DGX_TRY(const State state, executor.state());
    return Status(internal_error(
        fmt::format("{}: holds another state after step {} than rank 0, first in {}",
                    exchange::name_of(ranks, static_cast<int>(rank)), executor.position(), state[entry].name),
        "its memory or processor may have failed"));
  }
  return Status();
}

double median_of(std::span<const double> numbers) {
  std::vector<double> sorted(numbers.begin(), numbers.end());
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>((sorted.size() - 1) / 2);
  std::ranges::nth_element(sorted, middle);
  return *middle;
}

}  // namespace

LeadingExecutor::LeadingExecutor(Exchange& ranks, std::unique_ptr<PartsExecutor> executor, Listener listener)
    : ranks_(ranks),
      executor_(std::move(executor)),
      listener_(std::move(listener)),
      slow_steps_(static_cast<std::size_t>(ranks.ranks())) {}

LeadingExecutor::~LeadingExecutor() {
  if (standing_ == Standing::kLeads) (void)finish();
}

Result<std::vector<RankWork>> LeadingExecutor::finish() {
  standing_ = Standing::kEnded;
  DGX_CHECK(give(ranks_, Order::kEnd));
  return work_of_all(ranks_, *executor_, seconds_);
}

/// Gives an order and does its part; the ranks can go on together if all of it succeeds.
Status LeadingExecutor::together(Order order, const std::function<Status()>& part) {
  standing_ = Standing::kBroken;
  DGX_CHECK(give(ranks_, order));
  DGX_CHECK(part());
  standing_ = Standing::kLeads;
  return {};
}

Status LeadingExecutor::load(const State& state) {
  DGX_CHECK(executor_->load(state));
  return together(Order::kLoad, [&] { return share_state(ranks_, state); });
}

Status LeadingExecutor::step() {
  Taken taken;
  DGX_CHECK(together(Order::kStep, [&]() -> Status {
    DGX_CHECK(step_together(ranks_, *executor_, false, taken));
    return taken.finding;
  }));
  seconds_ += taken.seconds;
  note_times(taken.of_ranks);
  if (taken.asked && listener_.asked) listener_.asked();
  return taken.status;
}

void LeadingExecutor::note_times(std::span<const double> seconds) {
  const std::vector<std::int64_t> samples = executor_->samples_of_parts();
  std::vector<double> of_sample;
  for (std::size_t r = 0; r < seconds.size(); ++r)
    of_sample.push_back(seconds[r] / static_cast<double>(samples[r]));
  const double most = median_of(seconds), most_of_sample = median_of(of_sample);
  for (std::size_t r = 0; r < seconds.size(); ++r) {
    if (slow_steps_[r] < 0) continue;
    // A larger part takes longer, and a smaller one has the same tail.
    const bool is_slow = seconds[r] > kSlowFactor * most && of_sample[r] > kSlowFactor * most_of_sample;
    slow_steps_[r] = is_slow ? slow_steps_[r] + 1 : 0;
    if (slow_steps_[r] < kSlowSteps) continue;
    slow_steps_[r] = -1;
    if (listener_.slow)
      listener_.slow(fmt::format("{}: takes {:.1f} times as long as most for a step, and all wait for it",
                                 exchange::name_of(ranks_, static_cast<int>(r)), seconds[r] / most));
  }
}

Status LeadingExecutor::trace_alone(const std::function<Status(PartsExecutor&)>& take_step) {
  DGX_CHECK(take_step(*executor_));
  DGX_TRY(const State state, executor_->state());
  return load(state);
}

Status LeadingExecutor::trace(const program::ValueVisitor& visit) {
  return trace_alone([&](PartsExecutor& executor) { return executor.trace(visit); });
}

Status LeadingExecutor::trace(const Fault& fault, const program::ValueVisitor& visit) {
  return trace_alone([&](PartsExecutor& executor) { return executor.trace(fault, visit); });
}

Result<PendingState> LeadingExecutor::snapshot(const LeaveOut& leave_out) {
  DGX_CHECK(together(Order::kCompare, [&]() -> Status {
    DGX_TRY(const Status found, compare(ranks_, *executor_));
    return found;
  }));
  return executor_->snapshot(leave_out);
}

Status follow(Exchange& ranks, PartsExecutor& executor, const StopFlag& stop) {
  double seconds = 0;
  while (true) {
    DGX_TRY(const Order order, take_order(ranks));
    if (order == Order::kEnd) {
      const auto work = work_of_all(ranks, executor, seconds);
      return work.ok() ? Status() : Status(work.error());
    }
    if (order == Order::kLoad) DGX_CHECK(take_state(ranks, executor));
    if (order == Order::kCompare) {
      DGX_TRY(const Status found, compare(ranks, executor));
      if (!found.ok()) return {};  // rank 0 says so
    }
    if (order != Order::kStep) continue;
    Taken taken;
    DGX_CHECK(step_together(ranks, executor, stop.requested(), taken));
    if (!taken.finding.ok()) return {};
    seconds += taken.seconds;
  }
}

}  // namespace dgx::exec
