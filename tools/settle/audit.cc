// dgx-settle check, head and prove: a ledger replayed against the rules, tree heads, proofs of entries.
// dgx-settle(1).
#include <fmt/format.h>

#include "dgx/cli/expect.h"
#include "dgx/core/files.h"
#include "dgx/jobs/cosign.h"
#include "dgx/jobs/round.h"
#include "settle/commands.h"
#include "settle/declare.h"
#include "settle/print.h"

namespace dgx::tools {
namespace {

json::Array path_json(const std::vector<Digest>& path) {
  json::Array out;
  for (const Digest& digest : path) out.emplace_back(digest.hex());
  return out;
}

struct Check {
  jobs::LedgerFile file;
  std::optional<std::string> task;
  jobs::LedgerEvidence evidence;
  std::optional<std::optional<std::int64_t>> rounds;
  cli::Expected expected;

  void declare(cli::Command& command) {
    declare_ledger(command, file);
    declare_task(command, task, "a task that must be in the ledger");
    command.option("--against", "HEAD.json", evidence.against,
                   "earlier tree heads or receipts signed by the operator");
    command.option("--cosigned", "NOTE", evidence.cosigned,
                   "notes of the operator that witnesses cosigned: the ledger must be the one they saw");
    command.option("--witness", "VKEY|KEY.pub.pem", evidence.witnesses,
                   "the verifier keys of the witnesses, NAME+ID+KEY, or their public keys");
    command.option("--quorum", "K", evidence.quorum, "how many witnesses must agree (default: all)");
    command.option(
        "--saw", "FILE", evidence.saw,
        "statements, and the witnesses' notes that they saw them: they must not have been refused");
    command.only_with({"--saw"}, {"--cosigned"});
    command.only_with({"--cosigned", "--quorum"}, {"--witness"});
    command.only_with({"--witness"}, {"--cosigned"});
    command.optional_value("--rounds", "K", rounds,
                           "recompute the delays of all rounds, or K parts of each, drawn at random");
    expected.declare(command, {"sound", "unsound"});
  }
  Result<cli::Verdict> run(cli::Out& out) const {
    DGX_TRY(auto check, jobs::check_ledger(ledger_of(file, out), evidence, task));
    std::optional<jobs::RoundsCheck> checked;
    if (rounds) {
      DGX_TRY(checked, recompute(out.common().threads, check.faults));
    }
    print_summary(out, check.summary);
    out.field("tasks", check.tasks);
    out.field("settled", check.settled);
    out.field("total", check.total);
    if (checked) print_rounds(out, *checked);
    if (check.not_anchored) print_not_anchored(out, *check.not_anchored);
    out.field("sound", check.faults.empty());
    cli::Table faults{{"fault"}};
    for (const std::string& fault : check.faults) faults.rows.push_back({fault});
    out.field("faults", std::move(faults));
    const bool sound = check.faults.empty();
    return expected.judge(out, sound ? "sound" : "unsound",
                          sound ? cli::Verdict::kDone : cli::Verdict::kRefuted);
  }

  /// Recomputes the delays; what is wrong joins `faults`.
  Result<jobs::RoundsCheck> recompute(int threads, std::vector<std::string>& faults) const {
    if (*rounds && **rounds < 1) return usage_error("--rounds: must be at least 1");
    DGX_TRY(const ledger::Log log, ledger::read(file.path, {.threads = threads}));
    DGX_TRY(jobs::RoundsCheck out, jobs::check_rounds(log, *rounds, threads));
    for (const std::string& fault : out.faults) faults.push_back(fmt::format("{}: {}", file.path, fault));
    return out;
  }

  static void print_not_anchored(cli::Out& out, const std::vector<jobs::NotAnchored>& slots) {
    cli::Table table{{"slot", "entries", "known"}};
    for (const jobs::NotAnchored& one : slots)
      table.rows.push_back({one.slot, one.entries, time_cell(one.known_ms)});
    out.field("not_anchored", std::move(table));
  }

  static void print_rounds(cli::Out& out, const jobs::RoundsCheck& checked) {
    out.field("delays", checked.delays);
    out.field("intervals", checked.intervals);
    out.field("steps", checked.steps);
    out.field("pulses", checked.pulses);
    if (checked.pulses > 0) out.note(std::string(kPulseNotVerified));
  }
};

struct Head {
  jobs::LedgerWriter writer;
  bool note = false;
  std::optional<std::int64_t> old_count;
  std::string path = "-";

  void declare(cli::Command& command) {
    declare_ledger(command, writer.file);
    command.key(writer.key.path, writer.key.passphrase_file, cli::Need::kOptional);
    command.flag("--note", note, "sign a note, as witnesses cosign it, instead of a tree head");
    command.option(
        "--old", "N", old_count,
        "with the proof that it continues the first N entries: a request to a witness who saw those "
        "last, or none (0)");
    command.output(path, "HEAD", cli::Need::kOptional, "file to write the signed tree head or note to");
    command.only_with({"--output", "--note"}, {"--key"});
    command.only_with({"--old"}, {"--note"});
  }
  Result<cli::Verdict> run(cli::Out& out) const {
    jobs::LedgerWriter request = writer;
    request.file = ledger_of(writer.file, out);
    if (writer.key.path.empty()) {
      DGX_TRY(const auto summary, jobs::head_of_ledger(request.file));
      return print_summary(out, summary), cli::Verdict::kDone;
    }
    DGX_TRY(Output output, out.claim(path));
    if (note) {
      DGX_TRY(const std::string text, jobs::note_of_ledger(request, old_count));
      DGX_CHECK(out.output(output, text));
    } else {
      DGX_TRY(const auto head, jobs::sign_head(request));
      DGX_CHECK(out.output(output, head.envelope + "\n"));
    }
    return cli::Verdict::kDone;
  }
};

struct Prove {
  jobs::LedgerFile file;
  std::optional<std::string> statement;
  std::optional<std::int64_t> from;
  std::optional<std::int64_t> size;

  void declare(cli::Command& command) {
    declare_ledger(command, file);
    command.option("--statement", "ID|S.json", statement, "prove that this statement is an entry");
    command.option("--from", "N", from, "prove that the first N entries are unchanged");
    command.option("--size", "N", size, "use the tree of the first N entries instead of all");
    command.exactly_one({"--statement", "--from"});
  }
  Result<cli::Verdict> run(cli::Out& out) const {
    const jobs::LedgerFile trusted = ledger_of(file, out);
    if (statement) {
      DGX_TRY(const auto proof, jobs::prove_statement(trusted, *statement, size));
      out.field("ledger", proof.ledger);
      out.field("statement", proof.statement);
      out.field("index", proof.index);
      out.field("time", time_cell(proof.milliseconds));
      out.field("size", proof.head.count);
      out.field("root", proof.head.root);
      out.field("path", path_json(proof.path));
    } else {
      DGX_TRY(const auto proof, jobs::prove_growth(trusted, *from, size));
      out.field("ledger", proof.ledger);
      out.field("from", proof.from.count);
      out.field("from_root", proof.from.root);
      out.field("size", proof.to.count);
      out.field("root", proof.to.root);
      out.field("path", path_json(proof.path));
    }
    return cli::Verdict::kDone;
  }
};

}  // namespace

void add_check(cli::Tool& tool) {
  tool.add<Check>("check", "replay the ledger and compare; 1 if its operator broke the rules or a promise");
}

void add_head(cli::Tool& tool) { tool.add<Head>("head", "print the tree head, signed if a key is given"); }

void add_prove(cli::Tool& tool) { tool.add<Prove>("prove", "print inclusion and consistency proofs"); }

}  // namespace dgx::tools
