// dgx-bisect: narrow a difference down to one scalar operation. dgx-bisect(1).
#include <fmt/format.h>

#include "dgx/cli/expect.h"
#include "dgx/cli/tool.h"
#include "dgx/jobs/bisect.h"
#include "dgx/jobs/dispute.h"
#include "dispute_json.h"

namespace {

using namespace dgx;

struct Trace {
  jobs::TraceOptions options;

  void declare(cli::Command& command) {
    command.positional("TASK.json", options.task, "the signed task, with its step program next to it");
    command.required("--from", "START.h5|RUN", options.from,
                     "the segment's start state: a run, a state bundle, or a sample that has the segment");
    command.required("--segment", "N", options.segment, "the segment to recompute");
    command.option("--step", "S", options.step, "also digest every value of this step");
    command.option("--value", "V", options.value, "also keep the numbers of this value of that step");
    command.required("--data", "DATA.h5", options.data, "the task's dataset");
    command.output(options.output, "TRACE.h5", cli::Need::kRequired);
    command.option("--program", "FILE", options.program, "the step program, if it is not next to the task");
    command.parts(options.parts);
    command.isa(options.isa);
    command.flag("--drill", options.drill, "defend the fault that the run was made with, as a cheat would");
  }

  Result<cli::Verdict> run(cli::Out& out) const {
    DGX_TRY(const jobs::TraceResult result, jobs::trace(options, out.brief_job()));
    out.field("segment", result.segment);
    out.field("first_step", result.first_step);
    out.field("steps", result.steps);
    out.field("start", result.start);
    out.field("end", result.end);
    if (result.step) {
      out.field("step", *result.step);
      out.field("values", result.values);
    }
    if (result.value) {
      out.field("value", *result.value);
      out.field("value_digest", *result.value_digest);
    }
    if (result.drill) {
      out.field("drill", *result.drill);
      out.warning("this trace defends the run's drill, a deliberate fault");
    }
    return cli::Verdict::kDone;
  }
};

struct Diff {
  jobs::DiffOptions options;
  cli::Expected expected;

  void declare(cli::Command& command) {
    command.positional("TASK.json", options.task, "the signed task, with its step program next to it");
    command.positional("OURS", options.ours, "a run's folder or a trace");
    command.positional("THEIRS", options.theirs, "the other side's run or trace");
    command.required("--data", "DATA.h5", options.data, "the task's dataset");
    command.option("--from", "START.h5|RUN", options.from,
                   "the start state of the traces' segment, so that a replay can tell who is right");
    command.option("--program", "FILE", options.program, "the step program, if it is not next to the task");
    command.parts(options.parts);
    command.isa(options.isa);
    expected.declare(command, {"same", "different"});
  }

  Result<cli::Verdict> run(cli::Out& out) const {
    DGX_TRY(const jobs::DiffResult result, jobs::diff(options, out.brief_job()));
    out.field("same", !result.segment.has_value());
    out.field("compared_segments", result.compared);
    if (!result.segment) return expected.judge(out, "same", cli::Verdict::kAccepted);
    out.field("segment", *result.segment);
    if (result.step) out.field("step", *result.step);
    if (result.value) out.field("value", value_json(*result.value));
    if (result.element) out.field("element", *result.element);
    if (result.scalar) out.field("scalar", scalar_json(result));
    out.field("confirmed", confirmed_text(result));
    if (!result.ended.empty()) out.field("ended", result.ended);
    return expected.judge(out, "different", cli::Verdict::kRefuted);
  }

  static std::optional<std::string> confirmed_text(const jobs::DiffResult& result) {
    if (!result.confirmed) return std::nullopt;
    return std::string(jobs::name_of(*result.confirmed));
  }

  static json::Object value_json(const jobs::DivergentValue& value) {
    return {{"number", value.number}, {"kind", value.kind}, {"from", value.from}};
  }

  /// A ruling's scalar, but with the claims of both sides.
  static json::Output::Object scalar_json(const jobs::DiffResult& result) {
    json::Output::Object out = tools::scalar_json(*result.scalar);
    out.erase("claimed");
    out.emplace("ours", json::Output::of_hex(result.our_bits));
    out.emplace("theirs", json::Output::of_hex(result.scalar->claimed));
    return out;
  }
};

struct Open {
  jobs::OpenDisputeOptions options;

  void declare(cli::Command& command) {
    command.positional("TASK.json", options.task, "the signed task, with its step program next to it");
    command.positional("PROOF.json", options.proof, "the proof, with its states next to it");
    command.option("--segment", "N", options.segment,
                   "challenge this segment of the proof, or with --against this row of the verdict");
    command.option("--verdict", "MINE.json", options.verdict,
                   "challenge the segment that this verdict refutes first");
    command.option("--against", "VERDICT.json", options.against,
                   "challenge a verdict that has its rows next to it");
    command.option("--beacon,--round", "BEACON.json", options.beacon,
                   "the beacon or round of that verdict, if its draw is the policy's");
    command.option("--secret", "BEACON.json", options.secret,
                   "the secret that its verifier has revealed, where the market forces errors");
    command.option("--offer", "COMMIT.json", options.offer, "the offer that committed to that secret");
    command.option("--chunk", "ENTRY", options.chunk,
                   "demand a piece of this entry of the committed state named by --segment");
    command.option("--part", "N", options.part, "the number of the MiB of ENTRY to demand");
    command.flag("--initial", options.initial, "challenge the proof's first state");
    command.flag("--final", options.final_state, "challenge the proof's last state");
    command.option("--from", "START.h5|RUN|DIR", options.from,
                   "the segment's start state, if it is to be replayed; or a fetched opening, which also has "
                   "the committed digests");
    command.option("--data", "DATA.h5", options.data, "the task's dataset, if the segment is to be replayed");
    command.option("--notes", "DIR", options.notes,
                   "folder for notes of the replay (default: DISPUTE.jsonl.notes)");
    command.key(options.key.path, options.key.passphrase_file);
    command.output(options.output, "DISPUTE.jsonl", cli::Need::kRequired, "the transcript");
    command.option("--program", "FILE", options.program, "the step program, if it is not next to the task");
    command.parts(options.parts);
    command.isa(options.isa);
    command.only_with({"--beacon", "--secret"}, {"--against"});
    command.only_with({"--offer"}, {"--secret"});
    command.only_with({"--part"}, {"--chunk"});
    command.not_with({"--data", "--notes", "--parts", "--isa"},
                     {"--verdict", "--chunk", "--initial", "--final"});
    command.about("A challenge that a replay does not bear out is refused; --force makes it anyway.");
  }

  Result<cli::Verdict> run(cli::Out& out) const {
    DGX_TRY(const jobs::OpenDisputeResult result, jobs::open_dispute(options, out.brief_job()));
    out.field("game", result.game);
    out.field("statement", result.statement);
    out.field("defender", result.defender);
    out.field("about", std::string(manifest::name_of(result.about)));
    out.field("segment", result.segment);
    out.field("replayed_steps", result.replayed_steps);
    out.field("bytes", result.bytes);
    if (result.decision) out.field("decision", tools::decision_json(*result.decision));
    return cli::Verdict::kDone;
  }
};

/// Declares what one side's moves need.
void declare_side(cli::Command& command, jobs::MoveOptions& options) {
  command.positional("TASK.json", options.task, "the signed task, with its step program next to it");
  command.positional("DISPUTE.jsonl", options.transcript, "the transcript; moves are appended");
  command.required("--from", "START.h5|RUN|DIR", options.from,
                   "the segment's start state: a run, a state bundle, a sample or a fetched opening");
  command.required("--data", "DATA.h5", options.data, "the task's dataset");
  command.option("--store", "DIR", options.store,
                 "put a demanded chunk into this store of the ledger's operator");
  command.option("--location", "WHERE", options.location,
                 "location of a demanded chunk; with --store, its path in the store");
  command.option("--rows", "VERDICT.rows.jsonl", options.rows,
                 "the rows of the defended verdict, if one is demanded");
  command.option("--notes", "DIR", options.notes,
                 "folder for notes of replays and moves (default: DISPUTE.jsonl.notes)");
  command.flag("--drill", options.drill,
               "defend the fault that your own run was made with, as the signer of its proof");
}

struct Move {
  jobs::MoveOptions options;
  LockWait wait;

  void declare(cli::Command& command) {
    declare_side(command, options);
    command.flag("--concede", options.concede, "concede the game");
    command.at_most_one({"--drill", "--concede"});
    command.wait(wait);
    command.not_with({"--store", "--location", "--rows"}, {"--concede"});
    command.key(options.key.path, options.key.passphrase_file);
    command.option("--program", "FILE", options.program, "the step program, if it is not next to the task");
    command.parts(options.parts);
    command.isa(options.isa);
    command.about(
        "Defenders whose replay does not give what they signed are warned, and can move only with --force.");
  }

  Result<cli::Verdict> run(cli::Out& out) const {
    JobContext context = out.brief_job();
    context.lock_wait = wait;
    DGX_TRY(const jobs::MoveResult result, jobs::move(options, context));
    out.field("side", std::string(protocol::name_of(result.side)));
    out.field("turn", result.turn);
    if (result.move) {
      out.field("move", *result.move);
      out.field("said", result.said);
      out.field("move_bytes", result.move_bytes);
    }
    out.field("replayed_steps", result.replayed_steps);
    if (!result.next.empty()) out.field("next", result.next);
    if (result.decision) out.field("decision", tools::decision_json(*result.decision));
    out.field("lost", result.lost);
    if (result.lost && !result.decision) out.line("this replay gives no reason to object: the game is lost");
    return result.lost ? cli::Verdict::kRefuted : cli::Verdict::kDone;
  }
};

struct Play {
  jobs::PlayOptions options;

  void declare(cli::Command& command) {
    declare_side(command, options.moves);
    command.option("--ledger", "LEDGER.jsonl", options.ledger,
                   "take the other side's moves, and deadlines that passed, from this ledger as well");
    command.option(
        "--post", "COMMAND", options.post,
        "run this shell command, with DISPUTE.jsonl as its last argument, at the beginning and after "
        "each of your moves");
    command.option(
        "--timeout", "TIME", options.timeout,
        "stop (exit 75) if the other side has not moved for this long, such as 30m (default: wait)");
    command.key(options.moves.key.path, options.moves.key.passphrase_file);
    command.option("--program", "FILE", options.moves.program,
                   "the step program, if it is not next to the task");
    command.parts(options.moves.parts);
    command.isa(options.moves.isa);
    command.about("Exits 0 when the game is over, whoever has lost; show --expect says who.");
  }

  Result<cli::Verdict> run(cli::Out& out) const {
    DGX_TRY(const jobs::PlayResult result, jobs::play(options, out.job()));
    out.field("side", std::string(protocol::name_of(result.side)));
    out.field("moves", result.moves);
    out.field("turns", result.turns);
    out.field("decision", tools::decision_json(result.decision));
    out.field("lost", result.lost);
    return cli::Verdict::kDone;
  }
};

struct Show {
  jobs::ShowOptions options;
  cli::Expected expected;

  void declare(cli::Command& command) {
    command.positional("DISPUTE.jsonl", options.transcript, "the transcript");
    command.option("--program", "FILE", options.program,
                   "the task's step program: it says what the numbers are in the model");
    command.not_with({"--program"}, {"--json"});
    expected.declare(command, {"falls", "stands", "open"});
  }

  Result<cli::Verdict> run(cli::Out& out) const {
    DGX_TRY(const jobs::DisputeStanding standing, jobs::show_dispute(options, out.brief_job()));
    if (out.common().json) {
      print_fields(standing, out);
    } else if (!out.common().quiet) {
      out.raw(jobs::print_text(standing.story));
      if (standing.torn > 0)
        out.warning(fmt::format("an unfinished last line of {} bytes is left out", standing.torn));
    }
    const auto& decision = standing.game.decision();
    return expected.judge(out,
                          !decision         ? "open"
                          : decision->falls ? "falls"
                                            : "stands",
                          cli::Verdict::kDone);
  }

  static void print_fields(const jobs::DisputeStanding& standing, cli::Out& out) {
    const protocol::Dispute& dispute = standing.game.dispute();
    out.field("game", dispute.challenge.id);
    out.field("task", dispute.task.id);
    out.field("statement", dispute.challenge.body.statement());
    out.field("defender", dispute.defender());
    out.field("challenger", dispute.challenger());
    out.field("about", std::string(manifest::name_of(dispute.challenge.body.about)));
    out.field("segment", dispute.challenge.body.segment);
    out.field("bytes", standing.bytes);
    if (standing.torn > 0) out.field("torn", standing.torn);
    out.field("known", tools::known_json(standing.game));
    cli::Table table{{"kind", "signer", "bytes", "words"}};
    for (const auto& [line, words] : standing.lines) {
      table.rows.push_back({std::string(manifest::name_of(line.kind)), line.key_id,
                            static_cast<std::int64_t>(line.bytes), words});
    }
    out.field("lines", std::move(table));
    out.field("over", standing.game.decision().has_value());
    if (const auto& decision = standing.game.decision()) {
      out.field("decision", tools::decision_json(*decision));
    } else {
      out.field("turn", standing.game.turn());
      out.field("side", std::string(protocol::name_of(standing.game.due().side)));
      out.field("must", std::string(standing.game.due().words));
    }
  }
};

}  // namespace

int main(int argc, char** argv) {
  cli::Tool tool(
      "dgx-bisect",
      "find the segment, step, value, element and scalar operation at which two parties first disagree");
  tool.names(jobs::names_of_trust);
  tool.add<Open>("open", "challenge a signed proof or verdict");
  tool.add<Move>("move", "make the next signed move of a dispute");
  tool.add<Play>("play", "make every move of one side until the dispute is over");
  tool.add<Show>("show", "tell a dispute, and where it stands");
  tool.add<Trace>("trace", "recompute a segment and write the digests of its states and values");
  tool.add<Diff>("diff",
                 "find where two runs or traces first disagree, and say which side a replay confirms");
  return tool.run(argc, argv);
}
