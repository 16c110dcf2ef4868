// dgx-verify batch: verify every proof of a list. dgx-verify(1).
#include "dgx/jobs/verify_batch.h"

#include <fmt/format.h>

#include "dgx/jobs/verdict_words.h"
#include "plan_option.h"
#include "seconds_cell.h"
#include "verify/commands.h"

namespace dgx::tools {
namespace {

struct Batch {
  jobs::BatchOptions options;
  std::string device = "cpu";
  std::optional<std::string> profile;
  PlanOption plan;

  void declare(cli::Command& command) {
    jobs::VerifyOptions& each = options.each;
    command.positional("LIST", options.list,
                       "a proof a line: task, proof, start states, data and beacon with tabs between them");
    command.option("--from", "SAMPLE.h5|RUN|DIR|URL", each.from, "start states of lines that name none");
    command.option("--data", "DATA.h5|URL", each.data, "dataset of lines that name none");
    declare_reading(command, each.cache, each.insecure);
    command.key(each.key.path, each.key.passphrase_file);
    command.option("--fraction", "F", each.choice.fraction,
                   "of every proof replay this share of the segments instead, 0 to 1");
    command.flag("--all", each.choice.all, "of every proof replay every segment instead");
    command.at_most_one({"--fraction", "--all"});
    command.option("--shard", "I/N", each.shard,
                   "verify only part I (0 to N-1) of N of the list's proofs, of about equal work");
    command.choice("--device", {"cpu", "cuda"}, device, "device to compute on");
    command.parts(each.parts);
    command.isa(each.isa);
    plan.declare(command,
                 "say what would be replayed and at what cost, and run nothing; =slurm: as #SBATCH lines");
    command.option("--profile", "P.json", profile,
                   "with --plan: a dgx-profile made on such a machine, which knows its rate");
    command.only_with({"--profile"}, {"--plan"});
    command.output(options.output, "DIR", cli::Need::kRequired,
                   "folder for the verdicts, made if it is not there");
    command.required_when("--output", [this] { return !plan.given(); });
    command.not_with({"--device", "--parts", "--output"}, {"--plan"});
    command.about(
        "Exits 0 if every proof is accepted, 1 if one is refuted; but with the first bad line's code if "
        "there is one.");
  }

  Result<cli::Verdict> run(cli::Out& out) const {
    DGX_CHECK(plan.check(out));
    if (plan.given()) return run_plan(out);
    jobs::BatchOptions all = options;
    DGX_TRY(all.each.device, jobs::device_from_name(device));
    DGX_TRY(const jobs::BatchSummary sum,
            jobs::verify_batch(all, out.job(), [&](const jobs::BatchItem& item) {
              print(out, item);
              return Status();
            }));
    print(out, sum);
    if (sum.first_failure)
      return Error{*sum.first_failure,
                   fmt::format("{} of {} proofs could not be verified", sum.failed, sum.proofs),
                   {}};
    if (sum.refuted > 0) return cli::Verdict::kRefuted;
    return sum.inconclusive > 0 ? cli::Verdict::kInconclusive : cli::Verdict::kAccepted;
  }

  Result<cli::Verdict> run_plan(cli::Out& out) const {
    DGX_TRY(const jobs::BatchPlan result,
            jobs::plan_batch(options, plan.rate(profile), out.brief_job(), [&](const jobs::BatchItem& item) {
              out.warning(fmt::format("line {}: {}: {}", item.line, item.task, item.error->message));
              return Status();
            }));
    if (plan.is_slurm()) {
      DGX_CHECK(plan.print_slurm(out, result.needs, result.last));
    } else {
      out.field("proofs", result.proofs);
      out.field("failed", result.failed);
      out.field("work", result.work);
      PlanOption::print(out, result.needs, result.last);
    }
    if (!result.first_failure) return cli::Verdict::kDone;
    out.next();
    return Error{*result.first_failure,
                 fmt::format("{} of {} proofs cannot be verified", result.failed, result.proofs),
                 {}};
  }

  /// One result as soon as it is there: in text a line, with --json an object.
  static void print(cli::Out& out, const jobs::BatchItem& item) {
    if (!out.common().json) {
      if (out.common().quiet) return;
      const std::string words = item.error ? item.error->message : jobs::words_of(*item.body);
      return out.raw(fmt::format("line {}: {}: {}{}\n", item.line, item.task,
                                 item.error ? std::string(name_of(item.outcome)) + ": " + words : words,
                                 item.existed ? " (by an earlier call)" : ""));
    }
    out.data("line", item.line);
    out.data("task", item.task);
    out.data("outcome", name_of(item.outcome));
    if (item.body) {
      out.data("verdict", item.verdict);
      out.data("proof", item.body->proof);
      out.data("replayed", item.body->replayed);
      out.data("proof_segments", item.body->segments);
      out.data("work", item.body->work);
      out.data("existed", item.existed);
      out.data("seconds", seconds_cell(item.seconds));
    }
    if (item.error) {
      out.data("code", exit_code(item.error->code));
      out.data("error", item.error->message);
      if (!item.error->hint.empty()) out.data("hint", item.error->hint);
    }
    out.next();
  }

  static void print(cli::Out& out, const jobs::BatchSummary& sum) {
    out.field("proofs", sum.proofs);
    out.field("accepted", sum.accepted);
    out.field("refuted", sum.refuted);
    out.field("inconclusive", sum.inconclusive);
    out.field("failed", sum.failed);
    out.field("existed", sum.existed);
    out.field("work", sum.work);
    out.field("seconds", seconds_cell(sum.seconds));
    out.next();
  }
};

}  // namespace

void add_batch(cli::Tool& tool) { tool.add<Batch>("batch", "verify every proof of a list in one call"); }

}  // namespace dgx::tools
