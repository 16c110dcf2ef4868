// dgx-settle fetch and extract: copies out of a ledger and its operator's store. dgx-settle(1).
#include "dgx/core/files.h"
#include "market_cells.h"
#include "settle/commands.h"
#include "settle/declare.h"
#include "settle/print.h"

namespace dgx::tools {
namespace {

struct Fetch {
  jobs::LedgerFile file;
  std::string id;
  std::string folder;

  void declare(cli::Command& command) {
    declare_ledger(command, file);
    command.positional("ID", id,
                       "an opening, a solver's delivery or a chunk's move, by its id or at least eight "
                       "digits of it; or a task");
    command.output(folder, "DIR", cli::Need::kRequired, "folder to copy the files into");
  }
  Result<cli::Verdict> run(cli::Out& out) const {
    DGX_TRY(const auto copy, jobs::fetch_copy(ledger_of(file, out), id, folder, out.clobber()));
    out.field("kind", name_of(copy.kind));
    out.field("statement", copy.statement);
    out.field("task", copy.task);
    out.field("files", json::Array(copy.files.begin(), copy.files.end()));
    return cli::Verdict::kDone;
  }
};

struct Extract {
  jobs::LedgerFile file;
  std::optional<std::string> game;
  std::optional<std::string> statement;
  std::optional<std::string> round;
  std::optional<std::string> secret;
  std::string path = "-";

  void declare(cli::Command& command) {
    declare_ledger(command, file);
    command.option("--game", "ID", game, "a dispute: the id of its challenge, or eight digits of it or more");
    command.option("--statement", "ID|S.json", statement, "a statement, to be looked up by its id");
    command.option("--round", "TASK", round,
                   "the round that draws for a task's proof: the task's id, at least eight digits of it, or "
                   "TASK.json");
    command.option("--secret", "TASK", secret,
                   "the secret that a task's verifier has revealed, where errors are forced: TASK as above");
    command.exactly_one({"--game", "--statement", "--round", "--secret"});
    command.output(path, "FILE.jsonl", cli::Need::kOptional,
                   "the transcript, the statement and its receipt, the round, or the secret");
  }
  Result<cli::Verdict> run(cli::Out& out) const {
    DGX_TRY(Output output, out.claim(path));
    if (statement) return extract_statement(out, output);
    if (round) return take_round(out, output);
    if (secret) return take_secret(out, output);
    DGX_TRY(const auto found, jobs::extract_game(ledger_of(file, out), *game));
    DGX_CHECK(out.output(output, found.text));
    if (path == "-") return cli::Verdict::kDone;
    out.field("game", found.game);
    out.field("moves", found.moves);
    out.field("receipts", found.receipts);
    return cli::Verdict::kDone;
  }

 private:
  Result<cli::Verdict> extract_statement(cli::Out& out, Output& output) const {
    DGX_TRY(const auto found, jobs::extract_statement(ledger_of(file, out), *statement));
    DGX_CHECK(out.output(output, found.statement.envelope + "\n" + found.receipt.envelope + "\n"));
    if (path == "-") return cli::Verdict::kDone;
    out.field("statement", found.statement.id);
    out.field("kind", name_of(kind_of(found.statement.body)));
    out.field("index", found.receipt.body.index);
    out.field("time", time_cell(found.receipt.body.milliseconds));
    return cli::Verdict::kDone;
  }

  Result<cli::Verdict> take_round(cli::Out& out, Output& output) const {
    DGX_TRY(const auto found, jobs::extract_round(ledger_of(file, out), *round));
    if (found.body.source() == manifest::RoundSource::kDrand) out.note(std::string(kPulseNotVerified));
    DGX_CHECK(out.output(output, found.envelope + "\n"));
    if (path == "-") return cli::Verdict::kDone;
    out.field("round", found.id);
    out.field("slot", found.body.slot);
    out.field("value", found.body.value);
    return cli::Verdict::kDone;
  }

  Result<cli::Verdict> take_secret(cli::Out& out, Output& output) const {
    DGX_TRY(const auto found, jobs::extract_secret(ledger_of(file, out), *secret));
    DGX_CHECK(out.output(output, found.envelope + "\n"));
    if (path == "-") return cli::Verdict::kDone;
    out.field("beacon", found.id);
    out.field("secret", found.body.secret);
    return cli::Verdict::kDone;
  }
};

}  // namespace

void add_fetch(cli::Tool& tool) {
  tool.add<Fetch>("fetch", "hand out what was opened, delivered or shown, from the operator's copies");
}

void add_extract(cli::Tool& tool) {
  tool.add<Extract>(
      "extract",
      "take a game's statements, or one, with their receipts, a round or a secret out of a ledger");
}

}  // namespace dgx::tools
