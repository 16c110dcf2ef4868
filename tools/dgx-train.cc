// dgx-train: train a task, resumably. dgx-train(1).
#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>

#include "dgx/cli/signals.h"
#include "dgx/cli/tool.h"
#include "dgx/jobs/key.h"
#include "dgx/jobs/mpi_module.h"
#include "dgx/jobs/task_folder.h"
#include "dgx/jobs/train.h"
#include "loss_cell.h"
#include "plan_option.h"
#include "rounded.h"
#include "seconds_cell.h"

namespace {

using namespace dgx;

/// A profile's tables: by kind of operation, and by operation, the longest first.
class ProfileTables {
 public:
  explicit ProfileTables(const exec::StepProfile& profile) : profile_(profile) {
    for (const exec::OperationProfile& operation : profile.operations) beside_ -= operation.seconds;
    beside_ += profile.seconds;
  }

  [[nodiscard]] cli::Table kinds() const {
    std::map<std::string, exec::OperationProfile> sums;
    for (const exec::OperationProfile& operation : profile_.operations) {
      exec::OperationProfile& sum = sums[operation.kind];
      sum.seconds += operation.seconds;
      sum.arithmetic += operation.arithmetic;
      sum.bytes += operation.bytes;
      sum.values.emplace_back();
    }
    sums["beside operations"].seconds = beside_;
    cli::Table table{{"kind", "operations", "milliseconds", "percent", "gflops", "gigabytes_per_second"}};
    std::vector<std::pair<std::string, exec::OperationProfile>> sorted(sums.begin(), sums.end());
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
    for (const auto& [kind, sum] : sorted) {
      table.rows.push_back(with_figures({kind, static_cast<std::int64_t>(sum.values.size())}, sum));
    }
    return table;
  }

  [[nodiscard]] cli::Table operations() const {
    cli::Table table{
        {"operation", "form", "values", "of", "milliseconds", "percent", "gflops", "gigabytes_per_second"}};
    std::vector<exec::OperationProfile> sorted = profile_.operations;
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
    for (const exec::OperationProfile& operation : sorted) {
      table.rows.push_back(with_figures(
          {operation.kind, operation.form, values_of(operation), operation.provenance}, operation));
    }
    return table;
  }

 private:
  /// The operation's values: a list in JSON; in text the first and how many more.
  static cli::Cell values_of(const exec::OperationProfile& operation) {
    json::Array list;
    for (const auto value : operation.values) list.push_back(json::Value(to_number(value)));
    std::string text = operation.values.empty() ? "" : std::to_string(to_number(operation.values.front()));
    if (operation.values.size() > 1) text += " and " + std::to_string(operation.values.size() - 1) + " more";
    return {json::Value(std::move(list)), std::move(text)};
  }

  [[nodiscard]] std::vector<cli::Cell> with_figures(std::vector<cli::Cell> row,
                                                    const exec::OperationProfile& of) const {
    const double seconds = of.seconds / static_cast<double>(std::max<std::int64_t>(profile_.steps, 1));
    row.emplace_back(tools::rounded(seconds * 1e3));
    row.emplace_back(tools::rounded(profile_.seconds > 0 ? of.seconds / profile_.seconds * 100 : 0));
    row.emplace_back(tools::rounded(seconds > 0 ? of.arithmetic / seconds * 1e-9 : 0));
    row.emplace_back(tools::rounded(seconds > 0 ? of.bytes / seconds * 1e-9 : 0));
    return row;
  }

  const exec::StepProfile& profile_;
  double beside_ = 0;
};

json::Output::Object object_of(const jobs::Validated& found) {
  json::Output::Object out{{"step", found.step}};
  if (found.best_step > 0) out.emplace("best_step", found.best_step);
  const auto add = [&out](const char* name, const std::optional<double>& number) {
    if (number) out.emplace(name, *number);
  };
  if (found.measures.left_out > 0) out.emplace("left_out", found.measures.left_out);
  add("loss", found.measures.loss);
  add("accuracy", found.measures.accuracy);
  add("top5", found.measures.top5);
  add("perplexity", found.measures.perplexity);
  return out;
}

cli::Table table_of(const std::vector<exec::RankWork>& ranks) {
  cli::Table table{{"rank", "seconds", "waited", "sent", "broadcast", "gathered", "saved"}};
  for (const exec::RankWork& rank : ranks) {
    table.rows.push_back({static_cast<std::int64_t>(table.rows.size()), tools::seconds_cell(rank.seconds),
                          tools::seconds_cell(rank.waited_seconds), rank.traffic.sent, rank.traffic.broadcast,
                          rank.traffic.gathered, rank.saved_bytes});
  }
  return table;
}

void print_confusion(const jobs::Measures& measures, cli::Out& out) {
  if (measures.confusion.empty()) return;
  cli::Table table{{"label"}};
  for (std::size_t c = 0; c < measures.confusion.size(); ++c) table.columns.push_back(std::to_string(c));
  for (std::size_t label = 0; label < measures.confusion.size(); ++label) {
    std::vector<cli::Cell> row{label};
    for (const std::int64_t count : measures.confusion[label]) row.emplace_back(count);
    table.rows.push_back(std::move(row));
  }
  out.field("confusion", std::move(table));
}

struct Train {
  jobs::TrainOptions options;
  std::optional<std::string> evaluate;
  std::optional<std::int64_t> step;
  std::optional<std::string> predictions;
  std::optional<std::chrono::seconds> max_time;
  LockWait wait;
  std::string device = "cpu";
  std::optional<std::string> profile;
  tools::PlanOption plan;
  std::string output;

  void declare(cli::Command& command) {
    command.positional("TASK.json|DIR", options.task,
                       "the signed task, with its step program next to it, or a folder that has it");
    command.required("--data", "DATA.h5", options.data, "the task's dataset; with --evaluate, the test data");
    command.option("--output,-o", "RUN", output, "the run's folder, created or continued");
    command.option("--evaluate", "RUN", evaluate,
                   "print loss, accuracy and perplexity of the run's last checkpoint instead");
    command.exactly_one({"--output", "--evaluate"});
    const auto is_file = [this] { return !jobs::is_task_folder(options.task); };
    command.required_when("--data", [this, is_file] { return !plan.given() && (evaluate || is_file()); });
    command.required_when("--output", [this, is_file] { return !plan.given() && is_file(); });
    command.option("--step", "STEP", step,
                   "with --evaluate: the checkpoint at this step instead of the last");
    command.option("--predictions", "FILE.npy|.npz", predictions,
                   "with --evaluate: write the model's answer for each sample");
    command.option("--validate", "TEST.h5", options.validate, "evaluate on these data as training goes on");
    command.option("--every", "STEPS", options.every,
                   "steps between validations; as many as between checkpoints unless given");
    command.flag("--ema", options.averages,
                 "evaluate and validate the parameters' moving averages, of a task with --ema");
    command.option("--program", "FILE", options.program, "the step program, if it is not next to the task");
    command.option("--init", "FILE", options.init, "the initial state, if it is not next to the task");
    command.choice("--device", {"cpu", "cuda"}, device, "device to compute on");
    command.parts(options.parts);
    command.flag("--mpi", options.mpi,
                 "make a part of each batch in each of the processes that mpirun has started");
    command.at_most_one({"--mpi", "--parts"});
    command.option("--placement", "PLAN.json", options.placement,
                   "with --mpi: a plan of dgx-plan, which says what each process makes");
    command.flag("--experts", options.experts,
                 "with --mpi: each expert of a mixture on one process, which alone has its weights");
    command.option("--emulate", "MACHINES.json", options.emulate,
                   "with --mpi, on one machine: let messages take as long as between these machines");
    command.only_with({"--placement", "--emulate", "--experts"}, {"--mpi"});
    command.option("--until", "STEP", options.until, "stop once this many steps are done");
    command.option("--max-time", "TIME", max_time, "stop after this time, such as 1h30m, and save the state");
    command.option("--keep", "all|every:N|last", options.keep, "checkpoints to keep");
    command.suggest({"all", "every:10", "last"});
    command.option("--save-every", "TIME", options.save_every,
                   "also save the state between checkpoints, such as every 10m, so that a kill loses little");
    command.wait(wait);
    plan.declare(command,
                 "say what is left to be done and at what cost, and run nothing; =slurm: as #SBATCH lines");
    command.option("--profile", "P.json", profile,
                   "with --plan: a dgx-profile made on such a machine, which knows its rate");
    command.flag("--profile-ops", options.profile_operations, "print the time and rate of every operation");
    command.option(
        "--drill", "FAULT", options.drill,
        "a deliberate fault: step=S,op=O,element=E,bit=B | segment=N,lazy | others (dgx-train(1))");
    command.isa(options.isa);
    command.writes({"--predictions"});
    command.only_with({"--step", "--predictions"}, {"--evaluate"});
    command.only_with({"--ema"}, {"--evaluate", "--validate"});
    command.not_with({"--validate", "--every", "--init", "--device", "--parts", "--mpi", "--until",
                      "--max-time", "--keep", "--save-every", "--wait", "--profile-ops", "--drill", "--plan"},
                     {"--evaluate"});
    command.not_with({"--data", "--init", "--isa", "--device", "--parts", "--mpi", "--until", "--max-time",
                      "--keep", "--save-every", "--wait", "--profile-ops", "--drill"},
                     {"--plan"});
  }

  Result<cli::Verdict> run(cli::Out& out) const {
    DGX_CHECK(plan.check(out));
    if (!options.mpi) DGX_CHECK(jobs::check_launched_alone());
    if (profile && !plan.given())
      return usage_error("--profile belongs to native tasks, which are not in this version");
    if (evaluate) return run_evaluate(out);
    if (plan.given()) return run_plan(out);
    jobs::TrainOptions all = options;
    DGX_TRY(all.device, jobs::device_from_name(device));
    if (all.mpi && all.device != jobs::ComputeDevice::kCpu)
      return usage_error("--mpi is for the CPU, not for --device cuda");
    all.run = output;
    DGX_CHECK(jobs::complete(all));
    JobContext context = out.job();
    context.save = &cli::watch_hangup();
    context.lock_wait = {wait.most, &context.stop};
    if (max_time) cli::stop_after(*max_time);
    DGX_TRY(const jobs::TrainResult result, jobs::train(all, context));
    if (result.follows) return cli::Verdict::kDone;
    out.field("steps", result.steps);
    out.field("state", result.state);
    out.field("loss", tools::loss_cell(result.loss));
    out.field("segments", result.segments);
    if (result.resumed_from > 0) out.field("resumed_from", result.resumed_from);
    out.field("seconds", tools::seconds_cell(result.seconds));
    out.field("checkpoint_seconds", tools::seconds_cell(result.checkpoint_seconds));
    if (result.segment_milliseconds) out.field("segment_milliseconds", *result.segment_milliseconds);
    if (!result.ranks.empty()) out.field("ranks", table_of(result.ranks));
    if (result.validated) {
      out.field("validation", object_of(*result.validated));
      if (result.steps == result.total_steps) print_confusion(result.validated->measures, out);
    }
    if (result.profile) {
      const ProfileTables tables(*result.profile);
      out.field("profiled_steps", result.profile->steps);
      out.field("kinds", tables.kinds());
      out.field("operations", tables.operations());
    }
    if (!result.divergence.empty()) {
      out.field("diverged", true);
      out.warning(result.divergence +
                  ": the run diverged and ends there; dgx-prove proves it as it is. A smaller learning rate "
                  "or --clip-norm keeps training finite");
    }
    if (!result.drill_without_effect.empty())
      out.warning("the drill changed no committed digest: " + result.drill_without_effect);
    if (!result.divergence.empty()) return cli::Verdict::kDiverged;
    return result.drill_without_effect.empty() ? cli::Verdict::kDone : cli::Verdict::kInconclusive;
  }

  Result<cli::Verdict> run_plan(cli::Out& out) const {
    jobs::TrainOptions all = options;
    all.run = output;
    DGX_TRY(const jobs::TrainPlan result, jobs::plan_training(all, plan.rate(profile), out.brief_job()));
    if (plan.is_slurm()) return plan.print_slurm(out, result.needs, std::nullopt, jobs::Resumes::kYes);
    out.field("done_steps", result.done_steps);
    out.field("steps", result.steps);
    if (options.validate) out.field("validations", result.validations);
    out.field("work", result.work);
    tools::PlanOption::print(out, result.needs);
    return cli::Verdict::kDone;
  }

  Result<cli::Verdict> run_evaluate(cli::Out& out) const {
    const jobs::EvaluateOptions request{options.task, options.data, *evaluate,   options.program,
                                        options.isa,  step,         predictions, options.averages};
    DGX_TRY(const jobs::EvaluateResult result, jobs::evaluate(request, out.job()));
    const jobs::Measures& found = result.measures;
    out.field("step", result.step);
    out.field("state", result.state);
    out.field("samples", found.samples);
    if (found.left_out > 0) out.field("left_out", found.left_out);
    out.field("loss", found.loss);
    out.field("accuracy", found.accuracy);
    if (found.top5) out.field("top5", *found.top5);
    if (found.perplexity) out.field("perplexity", *found.perplexity);
    print_confusion(found, out);
    return cli::Verdict::kDone;
  }
};

struct Prune {
  jobs::PruneOptions options;

  void declare(cli::Command& command) {
    command.positional("RUN", options.run, "a run's folder");
    command.option("--keep", "every:N|last", options.keep,
                   "checkpoints to keep besides the first and the last");
    command.suggest({"every:10", "last"});
    command.wait(options.wait);
  }

  Result<cli::Verdict> run(cli::Out& out) const {
    DGX_TRY(const jobs::PruneResult result, jobs::prune(options));
    out.field("removed", result.removed);
    out.field("kept", result.kept);
    out.field("bytes", result.bytes);
    return cli::Verdict::kDone;
  }
};

}  // namespace

int main(int argc, char** argv) {
  cli::Tool tool("dgx-train", "do a task's work: train exactly and resumably, with committed checkpoints");
  tool.names(jobs::names_of_trust);
  tool.add<Train>("", "train, or evaluate a run");
  tool.add<Prune>("prune", "remove checkpoints of a run; its proof stays as good as it was");
  return tool.run(argc, argv);
}
