// dgx-train: do a task's work, resumably. dgx-train(1).
#include "dgx/cli/tool.h"
#include "dgx/jobs/train.h"

namespace {

using namespace dgx;

struct Train {
  jobs::TrainOptions options;
  std::optional<std::string> evaluate;
  std::string device = "cpu";
  std::optional<std::string> profile;
  std::string output;

  void declare(cli::Command& command) {
    command.positional("TASK.json", options.task, "the signed task; its step program lies beside it");
    command.required("--data", "DATA.h5", options.data, "the task's dataset; with --evaluate, the test data");
    command.option("--output,-o", "RUN", output, "the run's folder: created, or continued where it stands");
    command.option("--evaluate", "RUN", evaluate, "print loss, accuracy and perplexity of the run's last checkpoint instead");
    command.exactly_one({"--output", "--evaluate"});
    command.option("--program", "FILE", options.program, "the step program, if it is not beside the task");
    command.option("--init", "FILE", options.init, "the initial state, if it is not beside the task");
    command.choice("--device", {"cpu", "cuda"}, device, "where to compute");
    command.option("--until", "STEP", options.until, "stop once this many steps are done");
    command.option("--keep", "all|every:N|last", options.keep, "which checkpoints stay");
    command.option("--profile", "P.json", profile, "of a native task");
    command.option("--drill", "FAULT", options.drill,
                   "a deliberate fault: step=S,op=O,element=E,bit=B | segment=N,lazy");
    command.isa(options.isa);
  }

  Result<cli::Verdict> run(cli::Out& out) const {
    if (device == "cuda") return usage_error("--device cuda is not in this version");
    if (profile) return usage_error("--profile belongs to native tasks, which are not in this version");
    if (evaluate) return run_evaluate(out);
    jobs::TrainOptions all = options;
    all.run = output;
    DGX_TRY(const jobs::TrainResult result, jobs::train(all, out.job()));
    out.field("steps", result.steps);
    out.field("state", result.state);
    out.field("loss", static_cast<double>(result.loss));
    out.field("segments", result.segments);
    if (result.resumed_from > 0) out.field("resumed_from", result.resumed_from);
    out.field("seconds", seconds(result.seconds));
    out.field("checkpoint_seconds", seconds(result.checkpoint_seconds));
    if (result.drill_changed_nothing) {
      out.warning("the drill changed no committed digest: the flipped bit was rounded or masked away");
      return cli::Verdict::kInconclusive;
    }
    return cli::Verdict::kDone;
  }

  Result<cli::Verdict> run_evaluate(cli::Out& out) const {
    DGX_TRY(const jobs::EvaluateResult result,
            jobs::evaluate({options.task, options.data, *evaluate, options.isa}, out.brief_job()));
    out.field("step", result.step);
    out.field("state", result.state);
    out.field("samples", result.samples);
    out.field("loss", result.loss);
    out.field("accuracy", result.accuracy);
    if (result.perplexity) out.field("perplexity", *result.perplexity);
    return cli::Verdict::kDone;
  }

  /// Milliseconds are as much as a clock is worth.
  static double seconds(double value) { return static_cast<double>(static_cast<std::int64_t>(value * 1000)) / 1000; }
};

}  // namespace

int main(int argc, char** argv) {
  cli::Tool tool("dgx-train", "do a task's work: train exactly, resumably, with committed checkpoints");
  tool.add<Train>("", "train, or evaluate a run");
  return tool.run(argc, argv);
}
