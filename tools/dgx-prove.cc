// dgx-prove: commit to a finished run, and open the states that a beacon draws. dgx-prove(1).
#include "dgx/cli/tool.h"
#include "dgx/jobs/key.h"
#include "dgx/jobs/prove.h"
#include "dgx/jobs/task_folder.h"
#include "loss_cell.h"

namespace {

using namespace dgx;

/// Makes rows and groups optional where `task` is a folder, in which their files are found.
void require_unless_folder(cli::Command& command, const std::string& task,
                           const std::vector<std::string>& titles) {
  for (const std::string& title : titles)
    command.required_when(title, [&task] { return !jobs::is_task_folder(task); });
}

struct Prove {
  jobs::ProveOptions options;

  void declare(cli::Command& command) {
    command.positional("TASK.json|DIR", options.task, "the signed task, or a folder that has it");
    command.positional("RUN", options.run, "the run, finished or diverged");
    command.key(options.key.path, options.key.passphrase_file);
    command.output(options.output, "PROOF.json", cli::Need::kRequired,
                   "the proof; the committed digests go next to it, in PROOF.states");
    require_unless_folder(command, options.task, {"RUN", "--output"});
  }

  Result<cli::Verdict> run(cli::Out& out) const {
    jobs::ProveOptions all = options;
    DGX_CHECK(jobs::complete(all));
    DGX_TRY(const jobs::ProveResult result, jobs::prove(all, out.brief_job()));
    if (!result.drill.empty())
      out.warning("the run was made with a deliberate fault: --drill " + result.drill);
    out.field("proof", result.id);
    out.field("task", result.proof.task);
    out.field("states", result.proof.states.count);
    out.field("root", result.proof.states.root);
    out.field("initial", result.proof.initial);
    out.field("final", result.proof.final_state);
    out.field("steps", result.proof.steps);
    if (result.proof.diverged) out.field("diverged", true);
    out.field("loss", tools::loss_cell(result.proof.loss.value));
    return cli::Verdict::kDone;
  }
};

struct Open {
  jobs::OpenSampleOptions options;

  void declare(cli::Command& command) {
    command.positional("TASK.json|DIR", options.task,
                       "the signed task, with its step program next to it, or a folder that has it");
    command.positional("PROOF.json", options.proof, "the proof, with PROOF.states next to it");
    command.option("--beacon,--round", "BEACON.json", options.beacon,
                   "the verifier's revealed beacon, or the market's round, which draws the segments");
    command.option("--receipt", "RECEIPT.json", options.receipt,
                   "the proof's receipt, which draws the segments if neither came");
    command.exactly_one({"--beacon", "--receipt"});
    command.required("--run", "RUN", options.run, "the run that was proved");
    command.option("--data", "DATA.h5", options.data,
                   "the task's dataset, to recompute checkpoints that were not kept");
    command.option("--program", "FILE", options.program, "the step program, if it is not next to the task");
    command.parts(options.parts);
    command.isa(options.isa);
    command.option(
        "--store", "DIR", options.store,
        "put the start states and all committed digests into this operator's store, and sign the opening");
    command.option("--location", "NAME", options.location, "path in the store, below the key's folder");
    command.key(options.key.path, options.key.passphrase_file);
    command.output(options.output, "OPENING.json|SAMPLE.h5", cli::Need::kRequired,
                   "the opening; without --store, the start states with their paths to the proof's root");
    command.only_with({"--location", "--key"}, {"--store"});
    require_unless_folder(command, options.task, {"PROOF.json", "--beacon", "--run", "--output"});
    command.required_when("--key", [this] { return options.store.has_value(); });
  }

  Result<cli::Verdict> run(cli::Out& out) const {
    jobs::OpenSampleOptions all = options;
    DGX_CHECK(jobs::complete(all));
    DGX_TRY(const jobs::OpenSampleResult result, jobs::open_sample(all, out.job()));
    json::Array segments;
    for (const std::int64_t index : result.segments) segments.emplace_back(index);
    if (result.id) {
      out.field("opening", *result.id);
      out.field("after", result.after);
      out.field("location", result.location);
    }
    out.field("segments", std::move(segments));
    out.field("recomputed", result.recomputed);
    out.field("recomputed_steps", result.recomputed_steps);
    return cli::Verdict::kDone;
  }
};

struct Deliver {
  jobs::DeliverOptions options;

  void declare(cli::Command& command) {
    command.positional("TASK.json|DIR", options.task, "the signed task, or a folder that has it");
    command.positional("PROOF.json", options.proof, "the proof, with PROOF.states next to it");
    command.required("--run", "RUN", options.run, "the run that was proved");
    command.required("--store", "DIR", options.store, "the operator's store to put the final state into");
    command.option("--location", "NAME", options.location, "path in the store, below the key's folder");
    command.key(options.key.path, options.key.passphrase_file);
    command.output(options.output, "DELIVERY.json", cli::Need::kRequired, "the signed delivery");
    require_unless_folder(command, options.task, {"PROOF.json", "--run", "--output"});
  }

  Result<cli::Verdict> run(cli::Out& out) const {
    jobs::DeliverOptions all = options;
    DGX_CHECK(jobs::complete(all));
    DGX_TRY(const jobs::DeliverResult result, jobs::deliver(all, out.brief_job()));
    out.field("delivery", result.id);
    out.field("final", result.final_state);
    out.field("location", result.location);
    return cli::Verdict::kDone;
  }
};

}  // namespace

int main(int argc, char** argv) {
  cli::Tool tool("dgx-prove", "commit to a finished run, and open the states that a beacon draws");
  tool.names(jobs::names_of_trust);
  tool.add<Prove>("", "sign the root of a finished run's states");
  tool.add<Open>("open", "write the start states of the segments that a beacon draws");
  tool.add<Deliver>("deliver", "put the final state into an operator's store");
  return tool.run(argc, argv);
}
