// A training in several processes: what they agree on before they begin, and how they end together.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "dgx/crypto/sha256.h"
#include "dgx/exchange/delayed.h"
#include "dgx/exchange/ranks.h"
#include "dgx/jobs/placement.h"
#include "placement/read_machines.h"
#include "task/ready_ranks.h"
#include "train/training_setup.h"

namespace dgx::jobs {
namespace {

using exchange::Exchange;
using exchange::name_of;

/// The plan of the ranks, and the network that is emulated between them, if there are such.
struct Placed {
  std::optional<placement::Plan> plan;
  std::optional<exchange::Network> network;
};

Result<Placed> read_placed(const TrainOptions& options, const Exchange& ranks) {
  Placed out;
  if (options.placement) {
    DGX_TRY(out.plan, read_placement(*options.placement));
    DGX_CHECK(check_ranks(*out.plan, ranks.ranks()));
    if (options.experts && out.plan->pipeline)
      return usage_error("--experts: the plan has stages, which have all of their lines' weights",
                         "take a plan without --stages, or leave --experts out");
  }
  if (!options.emulate) return out;
  DGX_TRY(out.network, read_network(*options.emulate, out.plan, ranks.ranks()));
  if (ranks.ranks_here() == ranks.ranks()) return out;
  return usage_error("--emulate: the ranks are on several machines", "start all on one, or leave it out");
}

/// The first error of what a rank has read.
Status check_read(const Result<TrainingSetup>& setup, const Result<Placed>& placed) {
  DGX_CHECK(status_of(setup));
  DGX_CHECK(status_of(placed));
  return placed->plan ? check_placement(*placed->plan, setup->files) : Status();
}

/// The share of a step that each rank has.
Sharing sharing_of_ranks(const TrainOptions& options, const Placed& placed) {
  Sharing out = placed.plan ? sharing_of(*placed.plan) : Sharing();
  if (options.experts) out.experts = exec::ExpertsAt::kHome;
  return out;
}

Greeting greeting_of(const Result<TrainingSetup>& setup, const Result<Placed>& placed,
                     const TrainOptions& options) {
  Greeting out = Greeting::of_this_version();
  std::string plan = placed.ok() && placed->plan ? placement::print_plan(*placed->plan) : "";
  if (placed.ok() && placed->network) {
    for (const exchange::Link& link : placed->network->links)
      plan += fmt::format("{} {}\n", link.microseconds, link.bits_per_second);
  }
  plan += options.drill.value_or("");
  if (placed.ok() && sharing_of_ranks(options, *placed).experts == exec::ExpertsAt::kHome)
    plan += "experts\n";
  out.plan = crypto::sha256(as_bytes(plan));
  if (setup.ok()) out.task = setup->files.task.id;
  return out;
}

/// Tells the executor of the lie in which the drill consists. The drill becomes the fault that follows from
/// it, and so the options note it: a run says nothing of ranks.
Status take_lie(exec::PartsExecutor& executor, Drill& drill, TrainOptions& options) {
  auto fault = executor.set_lie(*drill.lie);
  if (!fault.ok()) return within("drill", std::move(fault).error());
  drill.fault = *fault;
  options.drill = print_drill(drill);
  return {};
}

/// The training of rank 0, which has the run.
Result<TrainResult> lead(Exchange& ranks, std::unique_ptr<exec::PartsExecutor> executor,
                         const TrainingSetup& setup, const TrainOptions& options, const JobContext& context,
                         bool& is_broken) {
  StopFlag stop(&context.stop);
  exec::LeadingExecutor leading(
      ranks, std::move(executor),
      {.asked = [&stop] { stop.request(); },
       .slow = [&context](const std::string& words) { context.progress.warning(words); }});
  JobContext with_stop{context.threads, context.clobber,  context.trust, context.progress, stop,
                       context.save,    context.lock_wait};
  Result<TrainResult> result = train_with(setup, leading, options, with_stop);
  is_broken = leading.is_broken();
  if (!result.ok()) return result;
  is_broken = true;
  DGX_TRY(result->ranks, leading.finish());
  is_broken = false;
  return result;
}

/// Trains, as rank 0 or as one that follows. `is_broken` says whether an error is this rank's alone, so that
/// the others would wait for it.
Result<TrainResult> train_on(std::unique_ptr<Exchange>& exchange, const TrainOptions& options,
                             const JobContext& context, bool& is_broken) {
  TrainResult follower;
  follower.follows = true;
  Progress silent;
  const bool leads = exchange->rank() == 0;
  const JobContext own{context.threads, context.clobber, context.trust, leads ? context.progress : silent,
                       context.stop};
  Result<TrainingSetup> setup = read_setup(options, own);
  const Result<Placed> placed = read_placed(options, *exchange);
  DGX_TRY(const bool all_read, all_are_ready(*exchange, check_read(setup, placed),
                                             greeting_of(setup, placed, options), is_broken));
  if (!all_read) return follower;
  if (leads && placed->plan) {
    const std::string misplaced = misplaced_rank(*placed->plan, *exchange);
    if (!misplaced.empty()) context.progress.warning(misplaced);
  }
  if (placed->network) {
    DGX_TRY(exchange, exchange::make_delayed(std::move(exchange), *placed->network));
  }
  Exchange& ranks = *exchange;
  const Sharing sharing = sharing_of_ranks(options, *placed);
  Result<std::unique_ptr<exec::PartsExecutor>> executor =
      make_executor_among(ranks, sharing, setup->files, setup->data.rows(), own, setup->logged.all());
  Status made = status_of(executor);
  TrainOptions noted = options;
  if (made.ok() && setup->drill && setup->drill->lie) made = take_lie(**executor, *setup->drill, noted);
  DGX_TRY(const bool all_made, all_are_ready(ranks, made, {}, is_broken));
  if (!all_made) return follower;
  if (leads) return lead(ranks, std::move(executor).value(), *setup, noted, context, is_broken);
  const Status followed = exec::follow(ranks, **executor, context.stop);
  if (followed.ok()) return follower;
  is_broken = true;
  return within(name_of(ranks, ranks.rank()), followed.error());
}

}  // namespace

Result<TrainResult> train_on_ranks(const TrainOptions& options, const JobContext& context) {
  return on_ranks<TrainResult>([&](std::unique_ptr<Exchange>& ranks, bool& is_broken) {
    return train_on(ranks, options, context, is_broken);
  });
}

}  // namespace dgx::jobs
