#include "dgx/exec/leading_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
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
  if (order <= Order::kRehearse) return order;
  return internal_error("rank 0 gave an order that there is not");
}

Result<std::vector<RankWork>> work_of_all(Exchange& ranks, const PartsExecutor& executor, double seconds) {
  const RankWork own{seconds, executor.waited_seconds(), ranks.traffic(), executor.saved_bytes()};
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

/// Gives all ranks the error of the first whose share of the state would not be finite.
Status share_error(Exchange& ranks, std::span<const Report> reports, const Status& own) {
  const auto first = std::ranges::find(reports, 0, &Report::is_finite);
  const auto root = static_cast<int>(first - reports.begin());
  std::array<char, 512> words{};
  if (ranks.rank() == root) own.error().message.copy(words.data(), words.size() - 1);
  DGX_CHECK(ranks.wait(ranks.broadcast(root, {reinterpret_cast<std::uint8_t*>(words.data()), words.size()})));
  return malformed(std::string(words.data(), std::ranges::find(words, '\0')));
}

/// Makes a step, in which a rank may lie, hears how it went elsewhere, and takes it if it is finite there
/// too.
Status step_together(Exchange& ranks, PartsExecutor& executor, Order order, bool asked_here, Taken& taken) {
  const auto begin = std::chrono::steady_clock::now();
  const double waited = executor.waited_seconds();
  taken.status = order == Order::kStepWithLie ? executor.make_step_with_lie() : executor.make_step();
  taken.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const bool is_finite = taken.status.ok();
  if (!is_finite && taken.status.error().code != ErrorCode::kMalformed) return taken.status;
  const Report own{is_finite, asked_here, taken.seconds - (executor.waited_seconds() - waited)};
  DGX_TRY(const auto reports, exchange::gather_items(ranks, std::span(&own, 1)));
  const bool all_are =
      std::ranges::all_of(reports, [](const Report& report) { return report.is_finite != 0; });
  if (all_are) executor.end_step();
  if (!all_are && !executor.has_whole_state()) {
    taken.status = share_error(ranks, reports, taken.status);
    if (taken.status.error().code != ErrorCode::kMalformed) return taken.status;
  }
  const auto finite =
      std::ranges::count_if(reports, [](const Report& report) { return report.is_finite != 0; });
  const bool most_are = 2 * finite >= std::ssize(reports);
  for (std::size_t r = 0; r < reports.size(); ++r) {
    taken.asked = taken.asked || reports[r].asked_to_stop != 0;
    taken.of_ranks.push_back(reports[r].seconds);
    // Stages differ, copies of one do not; slices of divided entries do.
    const std::size_t first = r % static_cast<std::size_t>(executor.stages());
    const bool expected = executor.is_pipeline() ? reports[first].is_finite != 0 : most_are;
    const bool has_copies = executor.is_pipeline() || executor.has_whole_state();
    if (!has_copies || (reports[r].is_finite != 0) == expected || !taken.finding.ok()) continue;
    const std::string others = executor.is_pipeline() ? fmt::format("rank {}", first) : "most ranks";
    taken.finding =
        internal_error(fmt::format("{}: the step after step {} is {} there, unlike on {}",
                                   exchange::name_of(ranks, static_cast<int>(r)), executor.position(),
                                   expected ? "not finite" : "finite", others),
                       "its memory or processor may have failed");
  }
  return {};
}

/// Compares all copies of the state, or of a stage's entries. Returns what all ranks find alike: an error
/// that names the first that differs from the first with the same entries.
Result<Status> compare(Exchange& ranks, const PartsExecutor& executor) {
  DGX_TRY(const std::vector<Digest> own, executor.digests_of_entries(executor.threads()));
  DGX_TRY(const auto all, exchange::gather_items(ranks, std::span<const Digest>(own)));
  const auto stages = static_cast<std::size_t>(executor.stages());
  for (std::size_t n = 0; n < all.size(); ++n) {
    const std::size_t entry = n % own.size(), rank = n / own.size(), first = rank % stages;
    const Digest& of_first = all[first * own.size() + entry];
    if (all[n] == of_first) continue;
    if (all[n] == Digest() || of_first == Digest()) continue;  // an expert's entry, on one rank alone
    return Status(
        internal_error(fmt::format("{}: holds another state after step {} than rank {}, first in {}",
                                   exchange::name_of(ranks, static_cast<int>(rank)), executor.position(),
                                   first, executor.name_of_entry(entry)),
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
Status LeadingExecutor::together(Order order, const std::function<Status()>& part) const {
  standing_ = Standing::kBroken;
  DGX_CHECK(give(ranks_, order));
  DGX_CHECK(part());
  standing_ = Standing::kLeads;
  return {};
}

Result<Rehearsal> LeadingExecutor::rehearse() {
  Rehearsal out;
  DGX_CHECK(together(Order::kRehearse, [&]() -> Status {
    DGX_TRY(out, executor_->rehearse());
    return {};
  }));
  return out;
}

Status LeadingExecutor::load(const State& state) {
  DGX_CHECK(executor_->load(state));
  return together(Order::kLoad, [&] { return executor_->give(state); });
}

Status LeadingExecutor::step() { return take_step(Order::kStep); }

Status LeadingExecutor::take_step(Order order) {
  Taken taken;
  DGX_CHECK(together(order, [&]() -> Status {
    DGX_CHECK(step_together(ranks_, *executor_, order, false, taken));
    return taken.finding;
  }));
  seconds_ += taken.seconds;
  note_times(taken.of_ranks);
  if (taken.asked && listener_.asked) listener_.asked();
  return taken.status;
}

void LeadingExecutor::note_times(std::span<const double> seconds) {
  if (executor_->is_pipeline() || executor_->has_experts_at_home()) return;  // ranks differ
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

Result<State> LeadingExecutor::collect() const {
  State state;
  DGX_CHECK(together(Order::kCollect, [&]() -> Status {
    DGX_TRY(state, executor_->collect());
    return {};
  }));
  return state;
}

Result<State> LeadingExecutor::state() const {
  return executor_->has_whole_state() ? executor_->state() : collect();
}

Result<merkle::StateDigests> LeadingExecutor::digests(int threads) const {
  if (executor_->has_whole_state()) return executor_->digests(threads);
  DGX_TRY(const State now, collect());
  return merkle::state_digests(now, threads);
}

Status LeadingExecutor::trace_alone(const std::function<Status(StepExecutor&)>& take_step) {
  DGX_TRY(const State now, state());
  DGX_TRY(const State behind, executor_->traced(now, take_step));
  return load(behind);
}

Status LeadingExecutor::trace(const program::ValueVisitor& visit) {
  return trace_alone([&](StepExecutor& executor) { return executor.trace(visit); });
}

Status LeadingExecutor::trace(const Fault& fault, const program::ValueVisitor& visit) {
  if (!visit && executor_->has_lie()) return take_step(Order::kStepWithLie);
  return trace_alone([&](StepExecutor& executor) { return executor.trace(fault, visit); });
}

Result<PendingState> LeadingExecutor::snapshot(const LeaveOut& leave_out) {
  const bool has_copies = !executor_->is_pipeline() || executor_->stages() < ranks_.ranks();
  if (has_copies) {
    DGX_CHECK(together(Order::kCompare, [&]() -> Status {
      DGX_TRY(const Status found, compare(ranks_, *executor_));
      return found;
    }));
  }
  return executor_->has_whole_state() ? executor_->snapshot(leave_out) : StepExecutor::snapshot(leave_out);
}

Status follow(Exchange& ranks, PartsExecutor& executor, const StopFlag& stop) {
  double seconds = 0;
  while (true) {
    DGX_TRY(const Order order, take_order(ranks));
    if (order == Order::kEnd) {
      const auto work = work_of_all(ranks, executor, seconds);
      return work.ok() ? Status() : Status(work.error());
    }
    if (order == Order::kLoad) DGX_CHECK(executor.take());
    if (order == Order::kRehearse) {
      const auto rehearsed = executor.rehearse();
      if (!rehearsed.ok()) return rehearsed.error();
    }
    if (order == Order::kCollect) {
      const auto given = executor.collect();
      if (!given.ok()) return given.error();
    }
    if (order == Order::kCompare) {
      DGX_TRY(const Status found, compare(ranks, executor));
      if (!found.ok()) return {};  // rank 0 says so
    }
    if (order != Order::kStep && order != Order::kStepWithLie) continue;
    Taken taken;
    DGX_CHECK(step_together(ranks, executor, order, stop.requested(), taken));
    if (!taken.finding.ok()) return {};
    seconds += taken.seconds;
  }
}

}  // namespace dgx::exec
