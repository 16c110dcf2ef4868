#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "dgx/crypto/sha256.h"
#include "dgx/exchange/ranks.h"
#include "dgx/exec/leading_executor.h"
#include "dgx/jobs/placement.h"
#include "placement/read_machines.h"
#include "task/ready_ranks.h"

namespace dgx::jobs {
namespace {

using Clock = std::chrono::steady_clock;
using exchange::Exchange;

constexpr int kComputedSteps = 4;  // before those that are slept
constexpr std::size_t kFewestSteps = 3;

/// A rehearsal's files, and what they foretell.
struct Setup {
  TaskFiles files;
  bundle::OpenedDataset data;
  placement::Plan plan;
  exchange::Network network;
  std::vector<std::int64_t> rates;  ///< of the ranks' machines
  placement::Forecast forecast;
  State state;
};

Result<std::unique_ptr<Setup>> read_setup(const RehearseOptions& options, const Exchange& ranks,
                                          const JobContext& context) {
  DGX_TRY(TaskFiles files, open_task(options.task, options.program, context.trust));
  DGX_TRY(placement::Plan plan, read_placement(options.placement));
  DGX_CHECK(check_ranks(plan, ranks.ranks()));
  DGX_CHECK(check_placement(plan, files));
  DGX_TRY(const placement::Machines machines, read_machines(options.machines));
  DGX_TRY(exchange::Network network, read_network(options.machines, plan, ranks.ranks()));
  if (ranks.ranks_here() != ranks.ranks())
    return usage_error("the ranks of a rehearsal are on several machines", "start all on one");
  std::vector<std::int64_t> rates;
  for (const placement::Seat& seat : plan.ranks)
    rates.push_back(
        std::ranges::find(machines.machines, seat.machine, &placement::Machine::name)->operations_per_second);
  DGX_TRY(placement::Forecast forecast, forecast_of(plan, files, rates, network));
  DGX_TRY(State state, initial_state(files, options.init));
  DGX_TRY(bundle::OpenedDataset data, open_task_dataset(options.data, files.body(), context));
  return std::make_unique<Setup>(Setup{std::move(files), std::move(data), std::move(plan), std::move(network),
                                       std::move(rates), std::move(forecast), std::move(state)});
}

Greeting greeting_of(const Result<std::unique_ptr<Setup>>& setup) {
  Greeting out = Greeting::of_this_version();
  if (!setup.ok()) return out;
  out.task = (*setup)->files.task.id;
  std::string plan = placement::print_plan((*setup)->plan);
  for (const std::int64_t rate : (*setup)->rates) plan += std::to_string(rate) + "\n";
  for (const exchange::Link& link : (*setup)->network.links)
    plan += std::to_string(link.microseconds) + " " + std::to_string(link.bits_per_second) + "\n";
  out.plan = crypto::sha256(as_bytes(plan));
  return out;
}

double median_of(std::vector<double> numbers) {
  std::ranges::sort(numbers);
  const std::size_t middle = numbers.size() / 2;
  return numbers.size() % 2 == 1 ? numbers[middle] : (numbers[middle - 1] + numbers[middle]) / 2;
}

/// Makes steps, as rank 0, then sleeps them.
Status lead(exec::LeadingExecutor& leading, const Setup& setup, const RehearseOptions& options,
            RehearseResult& out) {
  const std::int64_t steps = setup.files.body().steps;
  DGX_CHECK(leading.load(setup.state));
  for (int n = 0; n < kComputedSteps && leading.position() < steps; ++n) DGX_CHECK(leading.step());
  DGX_TRY(const exec::Rehearsal rehearsal, leading.rehearse());
  DGX_CHECK(leading.load(setup.state));  // at the first step again
  std::vector<double> seconds;
  const Clock::time_point begin = Clock::now();
  const auto since = [](Clock::time_point time) {
    return std::chrono::duration<double>(Clock::now() - time).count();
  };
  while (leading.position() < steps && (seconds.size() < kFewestSteps || since(begin) < options.seconds)) {
    const Clock::time_point step = Clock::now();
    DGX_CHECK(leading.step());
    seconds.push_back(since(step));
  }
  out.steps = static_cast<std::int64_t>(seconds.size());
  out.measured = median_of(std::move(seconds));
  out.operations_per_second = rehearsal.operations_per_second;
  out.sleeps = rehearsal.sleeps;
  const auto finished = leading.finish();
  return status_of(finished);
}

Result<RehearseResult> rehearse_on(std::unique_ptr<Exchange>& exchange, const RehearseOptions& options,
                                   const JobContext& context, bool& is_broken) {
  RehearseResult follower;
  follower.follows = true;
  Progress silent;
  const bool leads = exchange->rank() == 0;
  const JobContext own{context.threads, context.clobber, context.trust, leads ? context.progress : silent,
                       context.stop};
  auto setup = read_setup(options, *exchange, own);
  DGX_TRY(const bool all_read, all_are_ready(*exchange, status_of(setup), greeting_of(setup), is_broken));
  if (!all_read) return follower;
  const Setup& all = **setup;
  DGX_TRY(exchange, exchange::make_delayed(std::move(exchange), all.network));
  Exchange& ranks = *exchange;
  auto executor = make_executor_among(ranks, sharing_of(all.plan), all.files, all.data.rows(), own);
  const auto rank = static_cast<std::size_t>(ranks.rank());
  Status made = status_of(executor);
  if (made.ok()) {
    const auto rate = static_cast<double>(all.rates[rank]);
    made = (*executor)->prepare_rehearsal({all.forecast.ranks[rank].computes * rate, rate});
  }
  DGX_TRY(const bool all_made, all_are_ready(ranks, made, {}, is_broken));
  if (!all_made) return follower;
  is_broken = true;
  RehearseResult out;
  if (leads) {
    exec::LeadingExecutor leading(ranks, std::move(executor).value(), {});
    DGX_CHECK(lead(leading, all, options, out));
  } else {
    const Status followed = exec::follow(ranks, **executor, context.stop);
    if (!followed.ok()) return within(exchange::name_of(ranks, ranks.rank()), followed.error());
  }
  is_broken = false;
  if (!leads) return follower;
  out.plan = all.plan;
  out.forecast = all.forecast;
  return out;
}

}  // namespace

Result<RehearseResult> rehearse_placement(const RehearseOptions& options, const JobContext& context) {
  if (!(options.seconds > 0 && options.seconds <= 3600))
    return usage_error("--seconds must be above 0, at most 3600");
  return on_ranks<RehearseResult>([&](std::unique_ptr<Exchange>& ranks, bool& is_broken) {
    return rehearse_on(ranks, options, context, is_broken);
  });
}

}  // namespace dgx::jobs
