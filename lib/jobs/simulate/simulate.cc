#include "dgx/jobs/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <mutex>

#include "dgx/core/parallel.h"
#include "dgx/protocol/bounds.h"
#include "simulate/plan.h"
#include "simulate/run.h"
#include "simulate/simulate_svg.h"
#include "simulate/tally.h"

namespace dgx::jobs {
namespace {

constexpr std::int64_t kTasksOfMarket = 10'000;

/// The stream of the keys of market `number`.
Stream keys_of(const Plan& plan, std::int64_t number) {
  return {plan.seed, static_cast<std::uint64_t>(number), ~std::uint64_t{2}};
}

/// The sums over all markets, in which the order of the markets does not show: all of them are exact.
class Sums {
 public:
  void add(const Tally& tally) {
    total_.add(tally);
    for (const PoolLine& line : tally.pool) {
      Part& part = parts_[line.part];
      part.least = part.markets == 0 ? line.least : std::min(part.least, line.least);
      part.sum += line.balance;
      ++part.markets;
    }
  }
  [[nodiscard]] const Tally& total() const { return total_; }
  [[nodiscard]] std::vector<PoolPoint> pool() const {
    std::vector<PoolPoint> out;
    for (const auto& [percent, part] : parts_)
      out.push_back({percent, static_cast<double>(part.sum) / static_cast<double>(part.markets), part.least});
    return out;
  }

 private:
  struct Part {
    __int128 sum = 0;
    std::int64_t markets = 0;
    std::int64_t least = 0;
  };
  Tally total_;
  std::map<std::int64_t, Part> parts_;
};

Result<Sums> play_all(const Plan& plan, std::int64_t tasks, std::int64_t markets, const JobContext& context) {
  Sums sums;
  std::int64_t done = 0;
  std::mutex mutex;
  context.progress.start("simulating tasks", tasks);
  DGX_CHECK(for_each_index(static_cast<std::size_t>(markets), context.threads, [&](std::size_t n) -> Status {
    const auto number = static_cast<std::int64_t>(n);
    const std::int64_t own = tasks / markets + (number < tasks % markets ? 1 : 0);
    DGX_TRY(const Tally tally, play_market(plan, number, own, context.stop));
    const std::lock_guard lock(mutex);
    sums.add(tally);
    done += own;
    context.progress.update(done);
    return {};
  }));
  context.progress.finish();
  return sums;
}

/// Prices with so many finders on average that the share is re-checked, the number of finders of a task being
/// Poisson's, and the jackpot halved for each further one. A maker who claims is one more, which costs two.
std::vector<RecheckPrice> recheck_prices() {
  constexpr std::array<double, 3> kShares{0.05, 0.5, 0.9};
  constexpr double kMakers = 2;
  std::vector<RecheckPrice> out;
  for (const double share : kShares) {
    const double finders = -std::log(1 - share);
    out.push_back({share, share, finders, finders + kMakers});
  }
  return out;
}

/// Closed form 4, for a task like those that are played.
Result<std::string> volunteers_paid_for(const Plan& plan) {
  DGX_TRY(const auto rows, protocol::bounds(plan.policy, &plan.task, {0, plan.open}));
  const auto row = std::find_if(rows.begin(), rows.end(),
                                [](const protocol::Bound& one) { return one.name == "volunteers"; });
  return row->value;
}

double percent_of(__int128 amount, __int128 whole) {
  return whole == 0 ? 0 : 100 * static_cast<double>(amount) / static_cast<double>(whole);
}

Simulation summed_up(const Plan& plan, const People& people, const Sums& sums) {
  const Tally& total = sums.total();
  Simulation out;
  out.policy = plan.policy;
  out.cost = plan.cost;
  out.reward = plan.task.estimate.reward;
  out.recheck = plan.recheck;
  out.statements = total.statements;
  out.reasons = total.reasons;
  for (const auto& [reason, count] : total.reasons) out.tasks += count;
  out.earnings = earnings_of(total);
  out.rates = rates_of(plan, people, total);
  out.pool = sums.pool();
  if (total.pool_least >= 0) out.pool_least = total.pool_least;
  const __int128 trained = static_cast<__int128>(plan.cost) * total.paid;
  out.overhead_percent = percent_of(total.paid_by_submitters - trained, trained);
  const __int128 all = static_cast<__int128>(plan.cost) * out.tasks;
  out.audits_percent = percent_of(total.paid_to_auditors, all);
  out.jackpots_percent = percent_of(total.paid_to_claimants, all);
  out.rechecking = recheck_prices();
  return out;
}

}  // namespace

Result<Tally> play_market(const Plan& plan, std::int64_t market, std::int64_t tasks, const StopFlag& stop) {
  Stream keys = keys_of(plan, market);
  DGX_TRY(People people, make_people(plan, keys));
  return MarketRun(plan, std::move(people), market, stop).play(tasks);
}

Result<Simulation> simulate(const manifest::Policy& policy, const Agents& agents,
                            const SimulateOptions& options, const JobContext& context) {
  DGX_TRY(const Plan plan, make_plan(policy, agents, options));
  const std::int64_t markets =
      options.markets.value_or((options.tasks + kTasksOfMarket - 1) / kTasksOfMarket);
  const std::int64_t most = std::min(kMostSimulatedMarkets, options.tasks);
  if (markets < 1 || markets > most)
    return usage_error(fmt::format("--markets: is {}, must be 1 to {}", markets, most));
  Stream keys = keys_of(plan, 0);
  DGX_TRY(const People people, make_people(plan, keys));
  DGX_TRY(const Sums sums, play_all(plan, options.tasks, markets, context));
  Simulation out = summed_up(plan, people, sums);
  DGX_TRY(out.volunteers_paid_for, volunteers_paid_for(plan));
  out.markets = markets;
  if (options.picture) out.svg = simulation_svg(out);
  return out;
}

}  // namespace dgx::jobs
