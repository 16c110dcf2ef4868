// dgx-plan: plan which machine makes what of a task's steps. dgx-plan(1).
#include <fmt/format.h>

#include <optional>

#include "dgx/cli/tool.h"
#include "dgx/jobs/key.h"
#include "dgx/jobs/placement.h"
#include "rounded.h"

namespace {

using namespace dgx;

double seconds(std::int64_t nanoseconds) { return tools::rounded(static_cast<double>(nanoseconds) * 1e-9); }

void print_predicted(const placement::Plan::Predicted& predicted, cli::Out& out) {
  out.field("step_seconds", seconds(predicted.plan));
  out.field("by_region", seconds(predicted.by_region));
  out.field("by_chance", seconds(predicted.random));
  out.field("alone", seconds(predicted.alone));
}

/// Prints how ranks share a step, but for their slices.
void print_sharing(const placement::Plan& plan, cli::Out& out) {
  if (plan.experts) out.field("experts", true);
  if (!plan.pipeline) return;
  out.field("pipelines", plan.pipelines());
  out.field("parts", plan.pipeline->parts);
}

/// The line at which the stage of a rank begins; 0 for the first.
std::int64_t first_line(const placement::Plan::Pipeline& pipeline, std::size_t rank) {
  const std::size_t stage = rank % pipeline.stages();
  return stage == 0 ? 0 : to_number(pipeline.cuts[stage - 1]);
}

struct Make {
  jobs::PlacementOptions options;
  std::optional<std::int64_t> ranks, stages, pipelines;

  void declare(cli::Command& command) {
    command.positional("TASK.json|DIR", options.task,
                       "the signed task, with its step program next to it, or a folder that has it");
    command.required("--machines", "MACHINES.json", options.machines, "machines, and what connects them");
    command.required("--output,-o", "PLAN.json", options.output, "the plan, for dgx-train --mpi --placement");
    command.option("--ranks", "N", ranks,
                   "take the N fastest machines (default: as many as make a step soonest)");
    command.flag("--experts", options.experts,
                 "have each expert of a mixture on one rank, which alone has its weights");
    command.option("--stages", "S", stages,
                   "cut the step's lines into the S stages of a pipeline, on the fastest machines");
    command.option("--pipelines", "D", pipelines,
                   "with --stages: D of them side by side, each for some of the batch (default: 1)");
    command.option(
        "--parts", "M", options.parts,
        "with --stages: let each one's slices go through in M parts (default: the fastest of a few numbers)");
    command.only_with({"--parts", "--pipelines"}, {"--stages"});
    command.not_with({"--ranks", "--experts"}, {"--stages"});
    command.option("--against", "MACHINES.json", options.against,
                   "also say how long a step takes on as many of these machines");
    command.option("--seed", "N", options.seed, "of the search, where there are more than eight machines");
    command.option("--program", "FILE", options.program, "the step program, if it is not next to the task");
    command.writes({"--output"});
  }

  Result<cli::Verdict> run(cli::Out& out) const {
    if (ranks.value_or(1) < 1) return usage_error("--ranks must be at least 1");
    jobs::PlacementOptions all = options;
    if (stages.value_or(1) < 1) return usage_error("--stages must be at least 1");
    if (pipelines.value_or(1) < 1) return usage_error("--pipelines must be at least 1");
    all.ranks = static_cast<std::size_t>(ranks.value_or(0));
    all.stages = static_cast<std::size_t>(stages.value_or(0));
    all.pipelines = static_cast<std::size_t>(pipelines.value_or(1));
    DGX_TRY(const jobs::PlacementResult result, jobs::plan_placement(all, out.job()));
    const placement::Choice& choice = result.choice;
    out.field("task", choice.plan.task);
    print_predicted(choice.plan.predicted, out);
    if (result.seconds_against) {
      out.field("against", tools::rounded(*result.seconds_against));
      out.field("slowdown", tools::rounded(choice.forecast.seconds / *result.seconds_against));
    }
    std::int64_t bytes = 0;
    double waits = 0;
    for (const placement::RankForecast& rank : choice.forecast.ranks) {
      bytes += rank.sent + rank.broadcast + rank.gathered;
      waits += rank.waits;
    }
    print_sharing(choice.plan, out);
    const double ranks_seconds = choice.forecast.seconds * static_cast<double>(choice.plan.ranks.size());
    out.field("waiting_percent", tools::rounded(waits / ranks_seconds * 100));
    if (bytes > 0)
      out.field("operations_per_byte", tools::rounded(result.operations / static_cast<double>(bytes)));
    out.field("ranks", table_of(result));
    const std::size_t count = choice.plan.ranks.size();
    if (count > 1 && choice.plan.predicted.plan >= choice.plan.predicted.alone)
      out.warning(
          "the fastest machine alone would be as fast: the network is too slow for this task, or its "
          "batch too small");
    if (!ranks && !stages && count < result.all_machines)
      out.note(
          fmt::format("{} of {} machines are taken: with more a step would take longer, or the batch has no "
                      "slices for them",
                      count, result.all_machines));
    if (result.seconds_with_experts.value_or(choice.forecast.seconds) < choice.forecast.seconds)
      out.note(fmt::format("with --experts a step would take {:.4g} seconds", *result.seconds_with_experts));
    return cli::Verdict::kDone;
  }

 private:
  static cli::Table table_of(const jobs::PlacementResult& result) {
    const placement::Choice& choice = result.choice;
    const auto& pipeline = choice.plan.pipeline;
    cli::Table table{{"rank", "machine", "region", "slices"}};
    if (pipeline) table.columns.emplace_back("from_line");
    for (const char* const name : {"memory_bytes", "computes", "waits", "sent", "broadcast", "gathered"})
      table.columns.emplace_back(name);
    for (std::size_t r = 0; r < choice.plan.ranks.size(); ++r) {
      const placement::RankForecast& rank = choice.forecast.ranks[r];
      auto& row = table.rows.emplace_back();
      row = {r, choice.plan.ranks[r].machine, result.machines[r].region, choice.plan.ranks[r].slices};
      if (pipeline) row.emplace_back(first_line(*pipeline, r));
      row.insert(row.end(), {result.memory_bytes[r], tools::rounded(rank.computes),
                             tools::rounded(rank.waits), rank.sent, rank.broadcast, rank.gathered});
    }
    return table;
  }
};

struct Measure {
  jobs::MeasureOptions options;

  void declare(cli::Command& command) {
    command.positional("TASK.json|DIR", options.task,
                       "the signed task, with its step program next to it, or a folder that has it");
    command.required("--data", "DATA.h5", options.data, "the task's dataset");
    command.required("--output,-o", "MACHINES.json", options.output, "the machines that were measured");
    command.option("--seconds", "S", options.seconds, "make steps for so long");
    command.option("--program", "FILE", options.program, "the step program, if it is not next to the task");
    command.option("--init", "FILE", options.init, "the initial state, if it is not next to the task");
    command.writes({"--output"});
  }

  Result<cli::Verdict> run(cli::Out& out) const {
    DGX_TRY(const jobs::MeasureResult result, jobs::measure_machines(options, out.job()));
    if (result.follows) return cli::Verdict::kDone;
    cli::Table machines{{"machine", "operations_per_second", "memory_bytes"}};
    for (const placement::Machine& machine : result.machines.machines)
      machines.rows.push_back({machine.name, machine.operations_per_second, machine.memory_bytes});
    out.field("machines", std::move(machines));
    cli::Table links{{"from", "to", "bits_per_second", "microseconds"}};
    for (const placement::Connection& each : result.machines.connections)
      links.rows.push_back({each.a, each.b, each.link.bits_per_second, each.link.microseconds});
    out.field("links", std::move(links));
    return cli::Verdict::kDone;
  }
};

struct Rehearse {
  jobs::RehearseOptions options;

  void declare(cli::Command& command) {
    command.positional("TASK.json|DIR", options.task,
                       "the signed task, with its step program next to it, or a folder that has it");
    command.required("--placement", "PLAN.json", options.placement, "the plan to rehearse");
    command.required("--machines", "MACHINES.json", options.machines,
                     "the plan's machines, and what connects them");
    command.required("--data", "DATA.h5", options.data, "the task's dataset");
    command.option("--seconds", "S", options.seconds, "rehearse steps for so long");
    command.option("--program", "FILE", options.program, "the step program, if it is not next to the task");
    command.option("--init", "FILE", options.init, "the initial state, if it is not next to the task");
  }

  Result<cli::Verdict> run(cli::Out& out) const {
    DGX_TRY(const jobs::RehearseResult result, jobs::rehearse_placement(options, out.job()));
    if (result.follows) return cli::Verdict::kDone;
    out.field("predicted", tools::rounded(result.forecast.seconds));
    out.field("measured", tools::rounded(result.measured));
    out.field("ratio", tools::rounded(result.measured / result.forecast.seconds));
    out.field("steps", result.steps);
    out.field("operations_per_second", tools::rounded(result.operations_per_second));
    cli::Table table{{"rank", "machine", "computes", "sleeps"}};
    for (std::size_t r = 0; r < result.plan.ranks.size(); ++r)
      table.rows.push_back({r, result.plan.ranks[r].machine,
                            tools::rounded(result.forecast.ranks[r].computes),
                            tools::rounded(result.sleeps[r])});
    out.field("ranks", std::move(table));
    return cli::Verdict::kDone;
  }
};

struct Show {
  std::string plan;
  bool hosts = false;

  void declare(cli::Command& command) {
    command.positional("PLAN.json", plan, "a plan");
    command.flag("--hosts", hosts,
                 "print the machine of each rank, one a line: a hostfile for mpirun --map-by seq, or Slurm's "
                 "SLURM_HOSTFILE");
  }

  Result<cli::Verdict> run(cli::Out& out) const {
    DGX_TRY(const placement::Plan found, jobs::read_placement(plan));
    if (hosts) {
      std::string text;
      for (const placement::Seat& seat : found.ranks)
        text += seat.machine.substr(0, seat.machine.find(':')) + "\n";
      out.raw(text);
      return cli::Verdict::kDone;
    }
    out.field("task", found.task);
    print_predicted(found.predicted, out);
    const auto& pipeline = found.pipeline;
    print_sharing(found, out);
    cli::Table table{{"rank", "machine", "slices"}};
    if (pipeline) table.columns.emplace_back("from_line");
    for (const placement::Seat& seat : found.ranks) {
      const std::size_t rank = table.rows.size();
      auto& row = table.rows.emplace_back();
      row = {rank, seat.machine, seat.slices};
      if (pipeline) row.emplace_back(first_line(*pipeline, rank));
    }
    out.field("ranks", std::move(table));
    return cli::Verdict::kDone;
  }
};

}  // namespace

int main(int argc, char** argv) {
  cli::Tool tool("dgx-plan", "plan which machine makes what of a task's steps");
  tool.names(jobs::names_of_trust);
  tool.add<Make>("", "plan");
  tool.add<Measure>("measure", "measure the machines of the processes that mpirun has started");
  tool.add<Rehearse>("rehearse", "sleep a plan's steps, and exchange their messages, on processes of mpirun");
  tool.add<Show>("show", "what a plan says");
  return tool.run(argc, argv);
}
