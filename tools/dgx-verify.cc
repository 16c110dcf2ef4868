// dgx-verify: replay segments of a proof and report the result. dgx-verify(1).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "dgx/cli/expect.h"
#include "dgx/cli/tool.h"
#include "dgx/jobs/beacon.h"
#include "dgx/jobs/respond.h"
#include "dgx/jobs/task_folder.h"
#include "dgx/jobs/verdict_words.h"
#include "dgx/jobs/verify.h"
#include "plan_option.h"
#include "seconds_cell.h"
#include "verify/commands.h"

namespace {

using namespace dgx;

/// The most disagreements shown in text; --json has every row.
constexpr std::ptrdiff_t kMostShown = 16;

json::Output miss_json(const manifest::MissProbability& miss) {
  const auto number = [](const std::string& text) {
    double value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
  };
  return json::Output::Object{{"one_segment", number(miss.one_segment)},
                              {"one_percent", number(miss.one_percent)},
                              {"ten_percent", number(miss.ten_percent)}};
}

void print_miss(cli::Out& out, const manifest::MissProbability& miss) {
  out.field("miss_probability",
            cli::Cell(miss_json(miss), "one bad segment " + miss.one_segment + ", 1 % of them " +
                                           miss.one_percent + ", 10 % " + miss.ten_percent));
}

void print_rows(cli::Out& out, const std::vector<manifest::VerdictRow>& rows, std::int64_t of) {
  json::Array list;
  for (const auto& row : rows) list.push_back(row.to_json());
  const auto differ = std::count_if(rows.begin(), rows.end(), [](const auto& row) { return !row.agrees; });
  const std::string words =
      std::to_string(rows.size()) + " of " + std::to_string(of) + " replayed, " +
      (differ == 0 ? "all agree" : std::to_string(differ) + (differ == 1 ? " disagrees" : " disagree"));
  out.field("segments", cli::Cell(json::Value(std::move(list)), words));
}

void print_disagreements(cli::Out& out, const std::vector<manifest::VerdictRow>& rows) {
  std::ptrdiff_t shown = 0;
  for (const auto& row : rows) {
    if (row.agrees || ++shown > kMostShown) continue;
    const bool computed = row.reason == manifest::RowReason::kDigest;
    const bool diverges = row.expected == manifest::diverged_end();
    out.line("segment " + std::to_string(row.index) + ": the proof says " +
             (diverges ? "that it diverges" : row.expected.brief()) + ", a replay gives " +
             (computed ? row.recomputed.brief() : "nothing: " + std::string(manifest::name_of(row.reason))));
  }
  if (shown > kMostShown) out.line("and " + std::to_string(shown - kMostShown) + " more");
}

cli::Cell comma_list(const std::vector<std::int64_t>& numbers) {
  std::string text;
  for (const std::int64_t number : numbers) text += (text.empty() ? "" : ", ") + std::to_string(number);
  return {json::Array(numbers.begin(), numbers.end()), text};
}

/// For --max-miss: says whether what was, or would be, replayed is enough, and returns the exit code.
cli::Verdict print_enough(cli::Out& out, const jobs::Sufficiency& found) {
  out.field("enough", cli::Cell(found.enough, found.words));
  out.data("segments_needed", found.needed);
  return found.enough ? cli::Verdict::kAccepted : cli::Verdict::kInconclusive;
}

cli::Verdict exit_code(const cli::Expected& expected, cli::Out& out, manifest::Outcome outcome) {
  const bool accepted = outcome == manifest::Outcome::kAccepted;
  return expected.judge(out, manifest::name_of(outcome),
                        accepted ? cli::Verdict::kAccepted : cli::Verdict::kRefuted);
}

/// An audit that accepts the proof may still deny the verdict that it is about.
cli::Verdict exit_code(const cli::Expected& expected, cli::Out& out, const manifest::Verdict& verdict) {
  if (verdict.outcome == manifest::Outcome::kRefuted || verdict.denied.empty())
    return exit_code(expected, out, verdict.outcome);
  return expected.judge(out, "denied", cli::Verdict::kRefuted);
}

cli::Verdict print_verdict(cli::Out& out, const jobs::VerifyResult& result, const cli::Expected& expected,
                           const std::optional<double>& max_miss = {}) {
  const manifest::Verdict& verdict = result.verdict;
  const bool accepted = verdict.outcome == manifest::Outcome::kAccepted;
  const bool settles = !accepted || verdict.draw == manifest::Draw::kPolicy;
  out.field("verdict", cli::Cell(std::string(manifest::name_of(verdict.outcome)), jobs::words_of(verdict)));
  out.data("replayed", verdict.replayed);
  out.data("proof_segments", verdict.segments);
  out.data("missed_one_segment", jobs::number_of(verdict.miss_probability.one_segment));
  out.data("missed_ten_percent", jobs::number_of(verdict.miss_probability.ten_percent));
  out.field("draw", manifest::name_of(verdict.draw));
  if (!verdict.audits) out.field("settles", settles);
  print_rows(out, result.rows, verdict.segments);
  if (!result.missing.empty()) out.field("missing", comma_list(result.missing));
  if (verdict.audits) {
    out.field("audits", *verdict.audits);
    out.field("denied",
              verdict.denied.empty() ? cli::Cell(json::Array(), "none") : comma_list(verdict.denied));
  }
  print_miss(out, verdict.miss_probability);
  out.field("work", verdict.work);
  out.field("id", result.id);
  if (result.resumed > 0) out.field("resumed", result.resumed);
  if (result.seconds > 0) out.field("seconds", tools::seconds_cell(result.seconds));
  print_disagreements(out, result.rows);
  if (verdict.draw == manifest::Draw::kChosen && !settles)
    out.line("the draw was chosen: this acceptance settles nothing");
  const cli::Verdict answer = exit_code(expected, out, verdict);
  if (!accepted || !max_miss) return answer;
  const cli::Verdict enough = print_enough(out, jobs::judge_miss(verdict, *max_miss));
  return answer == cli::Verdict::kAccepted ? enough : answer;
}

void declare_max_miss(cli::Command& command, std::optional<double>& max_miss) {
  command.option(
      "--max-miss", "P", max_miss,
      "exit 3 if an acceptance would miss a cheat on 10 % of the segments with a chance above P, 0 to 1");
}

struct Verify {
  jobs::VerifyOptions options;
  std::string device = "cpu";
  std::optional<std::string> profile;
  std::optional<double> max_miss;
  tools::PlanOption plan;
  cli::Expected expected;

  void declare(cli::Command& command) {
    command.positional("TASK.json|DIR", options.task,
                       "the signed task, with its step program next to it, or a folder that has it");
    command.positional("PROOF.json", options.proof, "the proof, with PROOF.states next to it");
    command.required_when("PROOF.json", [this] { return !jobs::is_task_folder(options.task); });
    command.option("--from", "SAMPLE.h5|RUN|DIR|URL", options.from,
                   "source of the start states; DIR is an opening from dgx-settle fetch");
    command.option("--data", "DATA.h5|URL", options.data, "the task's dataset");
    tools::declare_reading(command, options.cache, options.insecure);
    command.option("--beacon,--round", "BEACON.json", options.beacon,
                   "the revealed beacon, or the market's round, which draws the segments");
    command.option("--commit", "COMMIT.json", options.commitment,
                   "your offer, with its secret next to it, where the market forces errors");
    command.option("--audits", "VERDICT.json", options.audits,
                   "re-check this verdict: also compare its witnesses with those of the replay");
    command.key(options.key.path, options.key.passphrase_file);
    command.required_when("--key", [this] { return !options.shard && !plan.given(); });
    command.option("--segments", "3,17", options.choice.segments, "replay these segments instead");
    command.option("--fraction", "F", options.choice.fraction,
                   "replay this share of the segments instead, 0 to 1");
    command.flag("--all", options.choice.all, "replay every segment instead");
    command.at_most_one({"--segments", "--fraction", "--all"});
    declare_max_miss(command, max_miss);
    command.option("--shard", "I/N", options.shard,
                   "replay only part I (0 to N-1) of N; writes SHARD.json, for dgx-verify merge");
    command.option("--work-key", "FILE", options.work_key,
                   "for shards: the 32 bytes by which your own nodes recognise each other's work");
    command.choice("--device", {"cpu", "cuda"}, device, "device to compute on");
    command.parts(options.parts);
    plan.declare(command,
                 "say what would be replayed and at what cost, and run nothing; =slurm: as #SBATCH lines");
    command.option("--profile", "P.json", profile,
                   "with --plan: a dgx-profile made on such a machine, which knows its rate");
    command.option("--program", "FILE", options.program, "the step program, if it is not next to the task");
    command.isa(options.isa);
    expected.declare(command, {"accepted", "refuted", "denied"});
    command.at_most_one({"--expect", "--shard"});
    command.at_most_one({"--expect", "--plan"});
    command.output(options.output, "VERDICT.json|SHARD.json", cli::Need::kOptional,
                   "the verdict, with VERDICT.rows.jsonl next to it; or the shard");
    command.only_with({"--work-key"}, {"--shard"});
    command.not_with({"--device", "--parts", "--output"}, {"--plan"});
    command.not_with({"--segments", "--fraction", "--all", "--commit"}, {"--audits"});
    command.not_with({"--commit"}, {"--shard"});
  }

  Result<cli::Verdict> run(cli::Out& out) const {
    DGX_CHECK(plan.check(out));
    if (profile && !plan.given())
      return usage_error("--profile belongs to native tasks, which are not in this version");
    DGX_CHECK(jobs::check_max_miss(max_miss));
    DGX_CHECK(check_beacon());
    jobs::VerifyOptions all = options;
    DGX_CHECK(jobs::complete(all, plan.given() ? jobs::VerifyNeeds::kPlan : jobs::VerifyNeeds::kReplay));
    if (options.shard && max_miss)
      return usage_error("--max-miss judges a whole verification", "give it to dgx-verify merge");
    if (plan.given()) return run_plan(out, all);
    DGX_TRY(all.device, jobs::device_from_name(device));
    if (options.shard) return run_shard(out, all);
    DGX_TRY(const jobs::VerifyResult result, jobs::verify(all, out.job()));
    return print_verdict(out, result, expected, max_miss);
  }

  /// Refuses a beacon that neither draws the segments nor says who verifies.
  [[nodiscard]] Status check_beacon() const {
    const bool drawn = !options.choice.segments && !options.choice.all;
    if (!options.beacon || options.key.path.empty() || drawn) return {};
    return usage_error(
        fmt::format("--beacon has no effect with {}", options.choice.all ? "--all" : "--segments"),
        "leave out --beacon");
  }

  Result<cli::Verdict> run_plan(cli::Out& out, const jobs::VerifyOptions& all) const {
    DGX_TRY(const jobs::VerifyPlan result, jobs::plan_verification(all, plan.rate(profile), out.brief_job()));
    if (plan.is_slurm()) return plan.print_slurm(out, result.needs, result.last);
    json::Array segments;
    for (const std::int64_t index : result.segments) segments.emplace_back(index);
    out.field("draw", manifest::name_of(result.draw));
    out.field("segments", std::move(segments));
    out.field("task_segments", result.task_segments);
    out.field("steps", result.steps);
    out.field("work", result.work);
    out.field("start_bytes", result.start_bytes);
    if (result.recomputed_steps > 0) out.field("recomputed_steps", result.recomputed_steps);
    tools::PlanOption::print(out, result.needs, result.last);
    print_miss(out, result.chances.miss);
    if (!max_miss) return cli::Verdict::kDone;
    return print_enough(out, jobs::judge_miss(result.chances, *max_miss));
  }

  static Result<cli::Verdict> run_shard(cli::Out& out, const jobs::VerifyOptions& all) {
    DGX_TRY(const jobs::ShardResult result, jobs::verify_shard(all, out.job()));
    out.field("shard", std::to_string(result.index) + "/" + std::to_string(result.count));
    print_rows(out, result.rows, std::ssize(result.rows));
    if (result.resumed > 0) out.field("resumed", result.resumed);
    out.field("seconds", tools::seconds_cell(result.seconds));
    print_disagreements(out, result.rows);
    return cli::Verdict::kDone;
  }
};

struct Beacon {
  std::string file;
  std::optional<std::string> proof;
  std::optional<std::string> task;
  jobs::LogEvidence logged;
  std::optional<std::string> data;
  std::optional<std::string> profile;
  std::optional<std::int64_t> segment_milliseconds;
  std::optional<std::int64_t> bond;
  jobs::KeyFile key;
  std::string output = "-";

  void declare(cli::Command& command) {
    command.positional("TASK.json|COMMIT.json", file, "the task to offer for; with --reveal, the commitment");
    command.option("--reveal", "PROOF.json", proof, "reveal the secret for this proof, which must be logged");
    command.option("--task", "TASK.json", task, "with --reveal: the task of commitment and proof");
    command.option("--receipt", "R.json", logged.receipt,
                   "the receipt of the proof in the ledger that the task names");
    command.option("--operator", "OP.pub.pem", logged.ledger_operator,
                   "the key of the ledger's operator, whose receipt counts");
    command.option("--ledger", "L.jsonl", logged.ledger, "that ledger itself, instead of a receipt");
    command.flag("--unlogged", logged.unlogged, "reveal for a task that names no ledger: it settles nothing");
    command.option("--data", "DATA.h5", data,
                   "check that this is the dataset that the commitment claims to hold");
    command.option("--profile", "P.json", profile,
                   "your profile of the task, which says how long its longest segment takes you");
    command.option("--segment-milliseconds", "N", segment_milliseconds,
                   "that time itself, if measured otherwise");
    command.option("--bond", "N", bond,
                   "what to stake, where verifiers are drawn by their bonds (default: the policy's)");
    command.at_most_one({"--reveal", "--data"});
    command.at_most_one({"--reveal", "--profile", "--segment-milliseconds"});
    command.at_most_one({"--reveal", "--bond"});
    command.at_most_one({"--receipt", "--ledger", "--unlogged"});
    command.only_with({"--task", "--receipt", "--operator", "--ledger", "--unlogged"}, {"--reveal"});
    command.only_with({"--operator"}, {"--receipt"});
    command.key(key.path, key.passphrase_file);
    command.output(output, "COMMIT.json|BEACON.json", cli::Need::kOptional,
                   "the commitment, with its secret next to it in COMMIT.secret; or the beacon");
  }

  Result<cli::Verdict> run(cli::Out& out) const { return proof ? reveal(out) : commit(out); }

  Result<cli::Verdict> commit(cli::Out& out) const {
    DGX_TRY(
        const auto result,
        jobs::commit_beacon({file, data, profile, segment_milliseconds, bond, key, output}, out.brief_job()));
    out.field("commitment", result.id);
    out.field("task", result.task);
    out.field("secret", result.secret_path);
    return cli::Verdict::kDone;
  }

  Result<cli::Verdict> reveal(cli::Out& out) const {
    if (!task) return usage_error("--task is required", "the task says in which ledger the proof must be");
    DGX_TRY(const auto result,
            jobs::reveal_secret({file, *proof, *task, logged, key, output}, out.brief_job()));
    if (output == "-") return out.raw(result.envelope + "\n"), cli::Verdict::kDone;
    out.field("beacon", result.id);
    out.field("task", result.task);
    out.field("proof", result.proof);
    out.field("value", result.value);
    out.field("logged", result.logged);
    return cli::Verdict::kDone;
  }
};

struct Respond {
  jobs::RespondOptions options;
  std::string device = "cpu";
  cli::Expected expected;

  void declare(cli::Command& command) {
    command.positional("LEDGER.jsonl", options.ledger, "the ledger, with its receipts next to it");
    command.positional("TASK.json", options.task, "the signed task, with its step program next to it");
    command.required("--commit", "COMMIT.json", options.commitment,
                     "the offer that the solver chose, with its secret next to it");
    command.required("--data", "DATA.h5|URL", options.data, "the task's dataset");
    tools::declare_reading(command, options.cache, options.insecure);
    command.option("--from", "DIR", options.from,
                   "the opening, from dgx-settle fetch (default: the operator's copy next to the ledger)");
    command.option(
        "--post", "COMMAND", options.post,
        "run this shell command with the file of each statement as its last argument, so that it gets "
        "into the ledger");
    command.option("--timeout", "TIME", options.timeout,
                   "wait for what others have to do, but each time no longer than this, such as 30m");
    command.key(options.key.path, options.key.passphrase_file);
    command.choice("--device", {"cpu", "cuda"}, device, "device to compute on");
    command.parts(options.parts);
    command.option("--program", "FILE", options.program, "the step program, if it is not next to the task");
    command.isa(options.isa);
    expected.declare(command, {"accepted", "refuted", "denied", "waiting"});
    command.output(options.output, "VERDICT.json", cli::Need::kRequired,
                   "the verdict, with VERDICT.rows.jsonl next to it");
    command.about(
        "Exits 0 once an acceptance is logged, 1 once a refutation or a denial is, 3 while it waits for "
        "others "
        "or a game is to be played.");
  }

  Result<cli::Verdict> run(cli::Out& out) const {
    jobs::RespondOptions all = options;
    DGX_TRY(all.device, jobs::device_from_name(device));
    DGX_TRY(const jobs::RespondResult result, jobs::respond(all, out.job()));
    out.field("done",
              cli::Cell(json::Array(result.done.begin(), result.done.end()),
                        result.done.empty() ? "nothing" : fmt::format("{}", fmt::join(result.done, ", "))));
    if (result.outcome) out.field("verdict", manifest::name_of(*result.outcome));
    if (result.denied > 0) out.field("denied", result.denied);
    const bool denies = result.denied > 0 && result.outcome == manifest::Outcome::kAccepted;
    if (result.waits_for.empty() && denies) return expected.judge(out, "denied", cli::Verdict::kRefuted);
    if (result.waits_for.empty()) return exit_code(expected, out, *result.outcome);
    out.field("waits_for", result.waits_for);
    return expected.judge(out, "waiting", cli::Verdict::kInconclusive);
  }
};

struct Merge {
  jobs::MergeOptions options;
  std::optional<double> max_miss;
  cli::Expected expected;

  void declare(cli::Command& command) {
    command.positional("TASK.json", options.task, "the signed task");
    command.positional("PROOF.json", options.proof, "the proof, with PROOF.states next to it");
    command.positional("SHARD.json", options.shards, "every shard, each once");
    command.option("--beacon,--round", "BEACON.json", options.beacon,
                   "the revealed beacon, or the market's round, unless the draw was chosen");
    command.option("--commit", "COMMIT.json", options.commitment,
                   "your offer, with its secret next to it, where the market forces errors");
    command.option("--audits", "VERDICT.json", options.audits,
                   "the verdict that they re-check, of shards of an audit");
    command.key(options.key.path, options.key.passphrase_file);
    command.option("--work-key", "FILE", options.work_key,
                   "the work key that the shards were made under, if it is not --key's");
    declare_max_miss(command, max_miss);
    expected.declare(command, {"accepted", "refuted", "denied"});
    command.not_with({"--commit"}, {"--audits"});
    command.output(options.output, "VERDICT.json", cli::Need::kRequired,
                   "the verdict, with VERDICT.rows.jsonl next to it");
  }

  Result<cli::Verdict> run(cli::Out& out) const {
    DGX_CHECK(jobs::check_max_miss(max_miss));
    DGX_TRY(const jobs::VerifyResult result, jobs::merge_verdict(options, out.brief_job()));
    return print_verdict(out, result, expected, max_miss);
  }
};

}  // namespace

int main(int argc, char** argv) {
  cli::Tool tool("dgx-verify", "replay segments of a proof and state the result");
  tool.names(jobs::names_of_trust);
  tool.add<Verify>("", "replay the drawn segments and sign a verdict");
  tool.add<Beacon>("beacon", "commit to a secret before the proof, reveal it afterwards");
  tool.add<Respond>("respond", "do what a task in a ledger asks of its verifier or auditor");
  tools::add_batch(tool);
  tool.add<Merge>("merge", "make one verdict of all shards");
  return tool.run(argc, argv);
}
