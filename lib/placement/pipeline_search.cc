// The search for pipelines: their cuts, the parts of their slices, and the machine of each stage.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "dgx/placement/pipeline.h"
#include "dgx/program/pieces.h"
#include "orders.h"

namespace dgx::placement {
namespace {

using kernels::Kind;
using kernels::ValueIndex;
using program::PipelineCut;
using program::SampleClass;
using program::Stages;

constexpr std::size_t kMostPlaces = program::kMaxStages - 1;  // at which a pipeline may be cut
constexpr int kMostPlays = 20'000;              // of a search of many machines, by all its starts
constexpr std::size_t kMostCells = 40'000'000;  // of all those plays: some ten seconds
constexpr int kStarts = 8;
constexpr int kCutRounds = 4;  // in which each cut is moved once

/// The places at which a step may be cut, and what that would leave between them and take across.
struct Places {
  std::vector<ValueIndex> lines;
  std::vector<double> operations;   ///< before the first, between two, behind the last
  std::vector<std::int64_t> bytes;  ///< that go to the stage behind each, and back
};

/// Bytes of the forward values that lines at or behind `v` read of those before, and as many back.
std::vector<std::int64_t> bytes_at(const program::Program& program, const program::Classes& classes,
                                   const std::vector<ValueIndex>& forward) {
  kernels::ByValue<std::size_t> last(program.values.size(), 0);  // place in `forward` of the last reader
  const auto reads = program::crossing_reads(program, classes);
  for (std::size_t n = 0; n < forward.size(); ++n) {
    for (const ValueIndex read : reads[forward[n]]) last[read] = n;
  }
  std::vector<std::int64_t> out(forward.size(), 0);
  for (std::size_t n = 0; n < forward.size(); ++n) {
    const std::int64_t bytes = program::crossing_bytes(program, classes, forward[n]);
    for (std::size_t place = n + 1; place <= last[forward[n]]; ++place) out[place] += 2 * bytes;
  }
  return out;
}

/// All forward lines but the first; of many, in equal ranges those which the fewest bytes cross.
std::vector<std::size_t> choose_places(const std::vector<std::int64_t>& bytes) {
  const std::size_t count = bytes.size() - 1;  // without the first
  const std::size_t ranges = std::min(count, kMostPlaces);
  std::vector<std::size_t> out;
  for (std::size_t n = 0; n < ranges; ++n) {
    const auto begin = bytes.begin() + 1 + static_cast<std::ptrdiff_t>(count * n / ranges);
    const auto end = bytes.begin() + 1 + static_cast<std::ptrdiff_t>(count * (n + 1) / ranges);
    out.push_back(static_cast<std::size_t>(std::min_element(begin, end) - bytes.begin()));
  }
  return out;
}

double operations_of(const PipelineWork::Stage& stage) {
  double sum = stage.last.of_slices + stage.last.whole;
  for (const auto* pieces : {&stage.pieces, &stage.early}) {
    for (const PipelineWork::Piece& piece : *pieces) sum += piece.of_slices + piece.whole;
  }
  return sum;
}

Result<Places> places_of(const program::Program& program, const program::Classes& classes) {
  const std::vector<ValueIndex> forward = program::forward_lines(program, classes);
  Places out;
  if (forward.empty()) return out;
  const std::vector<std::int64_t> bytes = bytes_at(program, classes, forward);
  for (const std::size_t n : choose_places(bytes)) {
    out.lines.push_back(forward[n]);
    out.bytes.push_back(bytes[n]);
  }
  // Cut at all places, each stage has the lines, forward and backward, that belong between two.
  DGX_TRY(const Stages stages, program::stages_of(program, classes, {out.lines, 1}));
  DGX_TRY(const PipelineWork work, work_of_stages(program, classes, stages, {out.lines, 1}));
  for (const PipelineWork::Stage& stage : work.stages) out.operations.push_back(operations_of(stage));
  return out;
}

/// Cuts at so many places, less one than stages, that the slowest stage is the fastest, counting the time of
/// what crosses its cuts. Exact: by the number of stages and the place, the least that the slowest takes.
std::vector<std::size_t> even_cuts(const Places& places, std::span<const double> rates,
                                   double bits_per_second) {
  const std::size_t stages = rates.size(), count = places.lines.size();
  std::vector<double> before = {0};  // operations before each place, and all
  for (const double operations : places.operations) before.push_back(before.back() + operations);
  const auto crossing = [&](std::size_t place) {
    return place == 0 || place > count ? 0.0
                                       : 8 * static_cast<double>(places.bytes[place - 1]) / bits_per_second;
  };
  // Place 0 is the beginning, n > 0 the (n-1)th line, count + 1 the end.
  const auto operations_before = [&](std::size_t place) { return before[place]; };
  const auto time = [&](std::size_t stage, std::size_t begin, std::size_t end) {
    return (operations_before(end) - operations_before(begin)) / rates[stage] + crossing(begin) +
           crossing(end);
  };
  const double never = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> least(stages + 1, std::vector<double>(count + 2, never));
  std::vector<std::vector<std::size_t>> from(stages + 1, std::vector<std::size_t>(count + 2, 0));
  least[0][0] = 0;
  for (std::size_t s = 1; s <= stages; ++s) {
    for (std::size_t end = s; end < count + 2; ++end) {
      for (std::size_t begin = s - 1; begin < end; ++begin) {
        const double slowest = std::max(least[s - 1][begin], time(s - 1, begin, end));
        if (slowest >= least[s][end]) continue;
        least[s][end] = slowest;
        from[s][end] = begin;
      }
    }
  }
  std::vector<std::size_t> out;
  for (std::size_t s = stages, end = count + 1; s > 1; --s) {
    end = from[s][end];
    out.insert(out.begin(), end - 1);
  }
  return out;
}

/// The moves of one start of a search of many machines; fewer if a play has many cells.
int most_moves(std::size_t ranks, std::int64_t parts) {
  const std::size_t cells = 2 * ranks * static_cast<std::size_t>(parts);
  return std::min(kMostPlays, static_cast<int>(kMostCells / cells)) / kStarts;
}

/// Pipelines while they are searched for. An order has the machines of rank after rank, which are those of
/// pipeline after pipeline.
class Search {
 public:
  Search(const program::Program& program, const program::Classes& classes, const Machines& machines,
         const Order& all, const exchange::Network& network, const Places& places, std::size_t pipelines)
      : program_(program),
        classes_(classes),
        network_(network),
        places_(places),
        pipelines_(pipelines),
        order_(all.size()) {
    for (const std::size_t m : all) rates_.push_back(machines.machines[m].operations_per_second);
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    double seconds_of_bit = 0, links = 0;
    for (int a = 0; a < network.ranks; ++a) {
      for (int b = 0; b < network.ranks; ++b) {
        if (a == b || network.link(a, b).bits_per_second == 0) continue;
        seconds_of_bit += 1 / static_cast<double>(network.link(a, b).bits_per_second);
        ++links;
      }
    }
    bits_per_second_ = links > 0 ? links / seconds_of_bit : std::numeric_limits<double>::infinity();
  }

  /// Finds cuts, a number of parts and an order, from which it begins.
  Status find(const Order& regions, const std::vector<std::int64_t>& parts, Random& random) {
    if (plays_of_all(parts.size()) <= kMostPlays) return try_all_of(parts);
    DGX_CHECK(begin(parts.front()));
    order_machines(regions, random);
    for (std::size_t n = 1; n < parts.size(); ++n) DGX_CHECK(try_parts(parts[n]));
    DGX_CHECK(even_out());
    DGX_CHECK(move_cuts());
    try_order(regions);
    return {};
  }

  [[nodiscard]] const Order& order() const { return order_; }
  [[nodiscard]] double seconds() const { return seconds_; }
  [[nodiscard]] const PipelineWork& work() const { return work_; }
  [[nodiscard]] std::int64_t parts() const { return work_.parts; }
  [[nodiscard]] std::vector<ValueIndex> cuts() const {
    std::vector<ValueIndex> out;
    for (const std::size_t place : cuts_) out.push_back(places_.lines[place]);
    return out;
  }

  [[nodiscard]] Result<Forecast> forecast_of(const Order& order) const {
    std::vector<std::int64_t> rates, bounds = {0};
    for (const std::size_t place : order) rates.push_back(rates_[place]);
    for (const std::int64_t slices : shares(order)) bounds.push_back(bounds.back() + slices);
    return forecast(work_, rates, network_in(order, network_), bounds);
  }
  /// The slices of each pipeline: one for each part, and of the others as many as its slowest machine allows.
  [[nodiscard]] std::vector<std::int64_t> shares(const Order& order) const {
    std::vector<std::int64_t> slowest;
    for (std::size_t d = 0; d < pipelines_; ++d) {
      std::int64_t rate = std::numeric_limits<std::int64_t>::max();
      for (std::size_t s = 0; s < stages(); ++s) rate = std::min(rate, rates_[order[d * stages() + s]]);
      slowest.push_back(rate);
    }
    const std::int64_t more = work_.parts - 1;
    auto out = share_slices(classes_.slices - more * static_cast<std::int64_t>(pipelines_), slowest);
    for (std::int64_t& slices : out) slices += more;
    return out;
  }
  [[nodiscard]] double seconds_of(const Order& order) const {
    const auto played = forecast_of(order);
    return played.ok() ? played->seconds : std::numeric_limits<double>::infinity();
  }

  /// The plays that it would take to try everything: all cuts, orders and these numbers of parts.
  [[nodiscard]] double plays_of_all(std::size_t numbers_of_parts) const {
    auto plays = static_cast<double>(numbers_of_parts);
    for (std::size_t n = 2; n <= order_.size(); ++n) plays *= static_cast<double>(n);
    for (std::size_t n = 0; n + 1 < stages(); ++n)
      plays *= static_cast<double>(places_.lines.size() - n) / static_cast<double>(n + 1);
    return plays;
  }
  /// Tries everything.
  Status try_all_of(const std::vector<std::int64_t>& parts) {
    std::vector<std::size_t> cuts(stages() - 1), best_cuts;
    Best best;
    std::int64_t best_parts = parts.front();
    for (const std::int64_t number : parts) {
      std::iota(cuts.begin(), cuts.end(), std::size_t{0});
      do {
        DGX_CHECK(set(cuts, number));
        const Best found = try_all([this](const Order& order) { return seconds_of(order); }, order_.size());
        if (!best.order.empty() && found.seconds >= best.seconds) continue;
        best = found;
        best_cuts = cuts;
        best_parts = number;
      } while (next_cuts(cuts));
    }
    order_ = best.order;
    return set(best_cuts, best_parts);
  }
  /// Evens the stages out for machines of one speed, cut into so many parts.
  Status begin(std::int64_t parts) {
    double mean = 0;
    for (const std::int64_t rate : rates_)
      mean += static_cast<double>(rate) / static_cast<double>(rates_.size());
    const std::vector<double> alike(stages(), mean);
    return set(even_cuts(places_, alike, bits_per_second_), parts);
  }
  void order_machines(const Order& regions, Random& random) {
    const auto score = [this](const Order& order) { return seconds_of(order); };
    if (order_.size() <= kMostExact) {
      order_ = try_all(score, order_.size()).order;
    } else {
      const int moves = most_moves(order_.size(), parts());
      Best best;
      for (int start = 0; start < kStarts; ++start) {
        const Best found = improve(score, start == 0 ? regions : shuffled(regions, random), moves, random);
        best.take(found.seconds, found.order);
      }
      order_ = best.order;
    }
    seconds_ = seconds_of(order_);
  }
  /// Takes another order if it is faster.
  void try_order(const Order& order) {
    const double found = seconds_of(order);
    if (found >= seconds_) return;
    seconds_ = found;
    order_ = order;
  }
  /// Evens the stages out for the machines in their order, of each stage the slowest.
  Status even_out() {
    std::vector<double> rates(stages(), std::numeric_limits<double>::infinity());
    for (std::size_t r = 0; r < order_.size(); ++r)
      rates[r % stages()] = std::min(rates[r % stages()], static_cast<double>(rates_[order_[r]]));
    return try_other(even_cuts(places_, rates, bits_per_second_), parts());
  }
  Status try_parts(std::int64_t parts) { return try_other(cuts_, parts); }
  /// Moves cuts while that is faster.
  Status move_cuts() {
    for (int round = 0; round < kCutRounds; ++round) {
      const double before = seconds_;
      for (std::size_t n = 0; n < cuts_.size(); ++n) {
        for (const std::ptrdiff_t by : {-1, 1, -2, 2, -4, 4}) {
          std::vector<std::size_t> cuts = cuts_;
          const std::ptrdiff_t to = static_cast<std::ptrdiff_t>(cuts[n]) + by;
          const std::ptrdiff_t low = n == 0 ? -1 : static_cast<std::ptrdiff_t>(cuts[n - 1]);
          const std::ptrdiff_t high =
              static_cast<std::ptrdiff_t>(n + 1 == cuts.size() ? places_.lines.size() : cuts[n + 1]);
          if (to <= low || to >= high) continue;
          cuts[n] = static_cast<std::size_t>(to);
          DGX_CHECK(try_other(cuts, parts()));
        }
      }
      if (seconds_ >= before) break;
    }
    return {};
  }

 private:
  [[nodiscard]] std::size_t stages() const { return order_.size() / pipelines_; }
  /// The next choice of places in lexical order, or false.
  [[nodiscard]] bool next_cuts(std::vector<std::size_t>& cuts) const {
    std::size_t n = cuts.size();
    while (n > 0 && cuts[n - 1] + cuts.size() - (n - 1) == places_.lines.size()) --n;
    if (n == 0) return false;
    ++cuts[n - 1];
    for (; n < cuts.size(); ++n) cuts[n] = cuts[n - 1] + 1;
    return true;
  }
  Status set(std::vector<std::size_t> cuts, std::int64_t parts) {
    cuts_ = std::move(cuts);
    const PipelineCut cut{this->cuts(), parts, {}, static_cast<std::int64_t>(pipelines_)};
    DGX_TRY(const Stages stages, program::stages_of(program_, classes_, cut));
    DGX_TRY(work_, work_of_stages(program_, classes_, stages, cut));
    seconds_ = seconds_of(order_);
    return {};
  }
  /// Keeps the faster one.
  Status try_other(std::vector<std::size_t> cuts, std::int64_t parts) {
    const double before = seconds_;
    std::vector<std::size_t> cuts_before = cuts_;
    PipelineWork work_before = work_;
    DGX_CHECK(set(std::move(cuts), parts));
    if (seconds_ < before) return {};
    seconds_ = before;
    cuts_ = std::move(cuts_before);
    work_ = std::move(work_before);
    return {};
  }

  const program::Program& program_;
  const program::Classes& classes_;
  const exchange::Network& network_;
  const Places& places_;
  std::size_t pipelines_;
  std::vector<std::int64_t> rates_;  // by place
  double bits_per_second_ = 0;       // of a link, the harmonic mean
  Order order_;
  std::vector<std::size_t> cuts_;  // places
  PipelineWork work_;
  double seconds_ = 0;
};

/// The numbers of parts to try.
std::vector<std::int64_t> parts_to_try(const program::Program& program, const program::Classes& classes,
                                       const PipelineOptions& options) {
  if (options.parts) return {*options.parts};
  std::vector<std::int64_t> out;
  const auto stages = static_cast<std::int64_t>(options.stages);
  if (!program::first_obstacle(program, classes)) {
    for (const std::int64_t factor : {2, 1, 4})
      out.push_back(std::min({factor * stages, classes.slices / static_cast<std::int64_t>(options.pipelines),
                              program::kMaxPipelineParts}));
  }
  out.push_back(1);
  return out;
}

Status check_counts(const Machines& machines, const program::Classes& classes,
                    const PipelineOptions& options) {
  const std::size_t count = machines.machines.size(), pipelines = options.pipelines;
  if (options.stages > std::min(count, program::kMaxStages))
    return usage_error(fmt::format("{} stages, of {} machines", options.stages, count));
  if (pipelines < 1 || pipelines > static_cast<std::size_t>(classes.slices))
    return usage_error(
        fmt::format("{} pipelines, a batch has {} slices for them", pipelines, classes.slices));
  if (pipelines > std::min(count, kMaxRanks) / std::max<std::size_t>(options.stages, 1))
    return usage_error(fmt::format("{} pipelines of {} stages, of {} machines, and {} ranks at most",
                                   pipelines, options.stages, count, kMaxRanks));
  return {};
}

}  // namespace

Result<Choice> choose_pipeline(const Machines& machines, const program::Program& program,
                               const program::Classes& classes, const StepWork& work,
                               const PipelineOptions& options) {
  DGX_CHECK(check_counts(machines, classes, options));
  DGX_TRY(const Places places, places_of(program, classes));
  if (options.stages < 1 || options.stages > places.lines.size() + 1)
    return usage_error(fmt::format("{} stages, the task's program can be cut into 1 to {}", options.stages,
                                   places.lines.size() + 1));
  const Order all = fastest_machines(machines, options.stages * options.pipelines);
  DGX_TRY(const exchange::Network network, network_of(machines, all));
  const Order regions = by_region(machines, all);
  Random random(options.seed);
  Search search(program, classes, machines, all, network, places, options.pipelines);
  const std::vector<std::int64_t> parts = parts_to_try(program, classes, options);
  DGX_CHECK(search.find(regions, parts, random));
  Choice out;
  DGX_TRY(out.forecast, search.forecast_of(search.order()));
  out.plan.slices = classes.slices;
  out.plan.pipeline = Plan::Pipeline{search.cuts(), search.parts()};
  const std::vector<std::int64_t> shares = search.shares(search.order());
  for (const std::size_t place : search.order())
    out.plan.ranks.push_back(
        {machines.machines[all[place]].name, shares[out.plan.ranks.size() / options.stages]});
  double total = 0;
  for (int n = 0; n < kRandomOrders; ++n) total += search.seconds_of(shuffled(regions, random));
  const auto fastest = std::ranges::max_element(machines.machines, {}, &Machine::operations_per_second);
  const std::int64_t alone[] = {fastest->operations_per_second};
  const std::int64_t whole[] = {0, work.slices};
  out.plan.predicted = {nanoseconds(out.forecast.seconds), nanoseconds(search.seconds_of(regions)),
                        nanoseconds(total / kRandomOrders),
                        nanoseconds(forecast(work, whole, alone, {1, {exchange::Link{}}}).seconds)};
  return out;
}

}  // namespace dgx::placement
