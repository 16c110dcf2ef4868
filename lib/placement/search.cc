#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <optional>
#include <utility>

#include "dgx/placement/plan.h"
#include "orders.h"

namespace dgx::placement {
namespace {

constexpr std::size_t kMostCarries = 16;  // of coarse work
constexpr int kRandomStarts = 64;
constexpr int kMostMoves = 4000;      // of a search
constexpr int kMovesOfAll = 260'000;  // of a search of many machines: so many, divided by them
constexpr std::size_t kFinalists = 8;

/// Scores orders of machines, each with the slices that its speed gives it.
class Scores {
 public:
  /// Borrows all of it. `network` is that of `all`.
  Scores(const Machines& machines, const StepWork& work, const Order& all, const exchange::Network& network)
      : machines_(machines), work_(work), all_(all), network_(network) {
    std::vector<std::int64_t> rates;
    for (const std::size_t m : all_) rates.push_back(machines_.machines[m].operations_per_second);
    shares_ = share_slices(work.slices, rates);
  }

  /// `order` has places in `all`.
  [[nodiscard]] Forecast of(const Order& order) const {
    std::vector<std::int64_t> bounds = {0}, rates;
    for (const std::size_t a : order) {
      bounds.push_back(bounds.back() + shares_[a]);
      rates.push_back(machines_.machines[all_[a]].operations_per_second);
    }
    return forecast(work_, bounds, rates, network_in(order, network_));
  }
  [[nodiscard]] double seconds(const Order& order) const { return of(order).seconds; }
  [[nodiscard]] const std::vector<std::int64_t>& shares() const { return shares_; }

 private:
  const Machines& machines_;
  const StepWork& work_;
  const Order& all_;
  const exchange::Network& network_;  // by places in `all_`
  std::vector<std::int64_t> shares_;
};

void add(std::vector<double>& sums, const std::vector<double>& more) {
  if (sums.size() < more.size()) sums.resize(more.size());
  for (std::size_t n = 0; n < more.size(); ++n) sums[n] += more[n];
}

/// The same work in one phase, with at most 16 carries and one broadcast, to compare orders by: without
/// gathers, whose times no order changes, and without what goes to homes and back, for which the orders that
/// are found are played in full. What is carried counts all its words.
StepWork coarse(const StepWork& work) {
  StepWork out;
  out.slices = work.slices;
  out.phases.resize(1);
  out.tail = work.tail;
  std::vector<Stretch> all;
  for (const StepWork::Phase& phase : work.phases)
    all.insert(all.end(), phase.stretches.begin(), phase.stretches.end());
  const auto carries = static_cast<std::size_t>(
      std::ranges::count_if(all, [](const Stretch& stretch) { return stretch.carry.has_value(); }));
  std::vector<Stretch>& stretches = out.phases.front().stretches;
  std::size_t seen = 0;
  for (const Stretch& stretch : all) {
    const std::size_t chunk = seen * kMostCarries / std::max(carries, kMostCarries);
    const bool opens =
        stretch.carry && (seen == 0 || chunk != (seen - 1) * kMostCarries / std::max(carries, kMostCarries));
    if (opens || stretches.empty()) stretches.emplace_back();
    Stretch& sum = stretches.back();
    sum.of_slices += stretch.of_slices;
    sum.whole += stretch.whole;
    add(sum.at_home, stretch.at_home);
    if (!stretch.carry) continue;
    ++seen;
    if (!sum.carry) sum.carry = Stretch::Carry{};
    sum.carry->bytes +=
        carried_bytes(*stretch.carry, std::max<std::int64_t>(work.slices / 2, 1), work.slices);
  }
  const std::int64_t shared = std::reduce(work.broadcast.begin(), work.broadcast.end(), std::int64_t{0});
  if (shared > 0) out.broadcast = {shared};
  return out;
}

/// Scores orders of many machines fast, by the chain of carries and the broadcast behind it alone.
class ChainScores {
 public:
  ChainScores(const Machines& machines, const StepWork& work, const Order& all,
              const exchange::Network& network, const std::vector<std::int64_t>& shares)
      : work_(coarse(work)), network_(network), arrives_(work_.phases.front().stretches.size()) {
    for (std::size_t place = 0; place < all.size(); ++place) {
      rates_.push_back(static_cast<double>(machines.machines[all[place]].operations_per_second));
      shares_.push_back(static_cast<double>(shares[place]) / static_cast<double>(work.slices));
    }
  }

  [[nodiscard]] double seconds(const Order& order) {
    double last = 0;
    for (std::size_t r = 0; r < order.size(); ++r) last = run_rank(order, r);
    return give_to_all(order, last);
  }

 private:
  [[nodiscard]] double time_on(std::size_t from, std::size_t to, std::int64_t bytes) const {
    return 8 * static_cast<double>(bytes) / static_cast<double>(link(from, to).bits_per_second);
  }
  [[nodiscard]] double latency(std::size_t from, std::size_t to) const {
    return static_cast<double>(link(from, to).microseconds) * 1e-6;
  }
  [[nodiscard]] const exchange::Link& link(std::size_t from, std::size_t to) const {
    return network_.link(static_cast<int>(from), static_cast<int>(to));
  }

  /// The time at which rank r has made its slices; arrives_ has those of what is carried to it, then from it.
  double run_rank(const Order& order, std::size_t r) {
    const std::size_t here = order[r];
    const auto& stretches = work_.phases.front().stretches;
    double now = 0, free = 0;
    for (std::size_t n = 0; n < stretches.size(); ++n) {
      const Stretch& stretch = stretches[n];
      if (stretch.carry && r > 0) now = std::max(now, arrives_[n]);
      now += stretch.operations(r, shares_[here]) / rates_[here];
      if (!stretch.carry || r + 1 == order.size()) continue;
      const std::size_t next = order[r + 1];
      free = std::max(now, free) + time_on(here, next, stretch.carry->bytes);
      arrives_[n] = free + latency(here, next);
    }
    return now;
  }

  /// The end of the step, whose last rank gives all values of class C away at `begin`, along a binomial tree.
  double give_to_all(const Order& order, double begin) {
    const std::int64_t bytes = work_.broadcast.empty() ? 0 : work_.broadcast.front();
    const std::size_t ranks = order.size();
    idle_.assign(ranks, begin);
    const auto rank = [&](std::size_t number) { return (ranks - 1 + number) % ranks; };
    const auto place = [&](std::size_t number) { return order[rank(number)]; };
    const auto tail = [&](std::size_t number) {
      return work_.tail.operations(rank(number), 0) / rates_[place(number)];
    };
    double end = begin + tail(0);
    for (std::size_t width = 1; width < ranks; width *= 2) {
      for (std::size_t number = 0; number < width && number + width < ranks; ++number) {
        const std::size_t from = place(number), to = place(number + width);
        idle_[number] += time_on(from, to, bytes);
        idle_[number + width] = idle_[number] + latency(from, to);
        end = std::max(end, idle_[number + width] + tail(number + width));
      }
    }
    return end;
  }

  StepWork work_;
  const exchange::Network& network_;
  std::vector<double> rates_, shares_;  // by place
  std::vector<double> arrives_, idle_;
};

/// The best, by `exact` scores, of the best that searches from the order of regions and from random ones find
/// by `rough` scores.
Best search(ChainScores& rough, const Scores& exact, const Order& regions, Random& random) {
  const int moves = std::min(kMostMoves, kMovesOfAll / static_cast<int>(regions.size()));
  std::vector<Best> found;
  for (int start = 0; start <= kRandomStarts; ++start)
    found.push_back(improve([&](const Order& order) { return rough.seconds(order); },
                            start == 0 ? regions : shuffled(regions, random), moves, random));
  std::ranges::stable_sort(found, {}, &Best::seconds);
  Best best;
  best.take(exact.seconds(regions), regions);
  for (std::size_t n = 0; n < std::min(kFinalists, found.size()); ++n)
    best.take(exact.seconds(found[n].order), found[n].order);
  return best;
}

std::size_t most_ranks(const Machines& machines, std::int64_t slices) {
  return std::min({machines.machines.size(), static_cast<std::size_t>(slices), kMaxRanks});
}

/// The next smaller number of ranks to try: all up to eight, then powers of two.
std::size_t fewer(std::size_t ranks) {
  return ranks <= kMostExact + 1 ? ranks - 1 : std::bit_floor(ranks - 1);
}

/// The fastest machines, so many, in the order of the file.
Result<Order> take_machines(const Machines& machines, std::int64_t slices, std::size_t count) {
  if (count > machines.machines.size())
    return usage_error(fmt::format("{} ranks, of {} machines", count, machines.machines.size()));
  const std::size_t most = most_ranks(machines, slices);
  if (count > most) return usage_error(fmt::format("{} ranks, a batch has {} slices for them", count, most));
  return fastest_machines(machines, count);
}

/// The seconds of a step on the fastest machine alone.
double seconds_alone(const Machines& machines, const StepWork& work) {
  const auto fastest = std::ranges::max_element(machines.machines, {}, &Machine::operations_per_second);
  const std::int64_t rates[] = {fastest->operations_per_second};
  const std::int64_t bounds[] = {0, work.slices};
  return forecast(work, bounds, rates, {1, {exchange::Link{}}}).seconds;
}

/// The best plan for these machines, but for what the step takes alone.
Result<Choice> plan_for(const Machines& machines, const StepWork& work, const Order& all,
                        std::uint64_t seed) {
  DGX_TRY(const exchange::Network network, network_of(machines, all));
  const Scores exact(machines, work, all, network);
  ChainScores rough(machines, work, all, network, exact.shares());
  const Order regions = by_region(machines, all);
  Random random(seed);
  const Best best = all.size() <= kMostExact
                        ? try_all([&](const Order& order) { return exact.seconds(order); }, all.size())
                        : search(rough, exact, regions, random);
  Choice out;
  out.forecast = exact.of(best.order);
  out.plan.slices = work.slices;
  for (const std::size_t place : best.order)
    out.plan.ranks.push_back({machines.machines[all[place]].name, exact.shares()[place]});
  double total = 0;
  for (int n = 0; n < kRandomOrders; ++n) total += exact.seconds(shuffled(regions, random));
  out.plan.predicted = {nanoseconds(out.forecast.seconds), nanoseconds(exact.seconds(regions)),
                        nanoseconds(total / kRandomOrders)};
  return out;
}

}  // namespace

std::vector<std::int64_t> share_slices(std::int64_t slices,
                                       std::span<const std::int64_t> operations_per_second) {
  const std::size_t count = operations_per_second.size();
  double all = 0;
  for (const std::int64_t each : operations_per_second) all += static_cast<double>(each);
  std::vector<std::int64_t> out;
  for (const std::int64_t each : operations_per_second) {
    const double exact = static_cast<double>(slices) * static_cast<double>(each) / all;
    out.push_back(std::max<std::int64_t>(1, static_cast<std::int64_t>(exact)));
  }
  // One by one, what is left goes to who would be done first with one more, and what is too much from who is
  // done last.
  const auto time = [&](std::size_t n, std::int64_t more) {
    return static_cast<double>(out[n] + more) / static_cast<double>(operations_per_second[n]);
  };
  std::int64_t left = slices - std::reduce(out.begin(), out.end(), std::int64_t{0});
  for (; left != 0; left -= left > 0 ? 1 : -1) {
    std::optional<std::size_t> chosen;
    for (std::size_t n = 0; n < count; ++n) {
      if (left < 0 && out[n] == 1) continue;
      const bool is_better =
          chosen && (left > 0 ? time(n, 1) < time(*chosen, 1) : time(n, 0) > time(*chosen, 0));
      if (!chosen || is_better) chosen = n;
    }
    out[*chosen] += left > 0 ? 1 : -1;
  }
  return out;
}

Result<Choice> choose_plan(const Machines& machines, const WorkOn& work_on, const PlanOptions& options) {
  DGX_TRY(const StepWork alone, work_on(1));
  const auto plan_on = [&](std::size_t count) -> Result<Choice> {
    DGX_TRY(const Order machines_taken, take_machines(machines, alone.slices, count));
    DGX_TRY(const StepWork work, work_on(count));
    DGX_TRY(Choice choice, plan_for(machines, work, machines_taken, options.seed));
    choice.plan.predicted.alone = nanoseconds(seconds_alone(machines, alone));
    return choice;
  };
  if (options.ranks > 0) return plan_on(options.ranks);
  std::optional<Choice> best;
  // All first, so that machines that are not connected are always told.
  for (std::size_t count = most_ranks(machines, alone.slices); count > 0; count = fewer(count)) {
    DGX_TRY(Choice choice, plan_on(count));
    if (!best || choice.forecast.seconds < best->forecast.seconds) best = std::move(choice);
  }
  return *std::move(best);
}

}  // namespace dgx::placement
