// dgx-settle: a market's ledger, its money and its rules. dgx-settle(1).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <thread>

#include "dgx/cli/signals.h"
#include "dgx/cli/tool.h"
#include "dgx/core/files.h"
#include "dgx/jobs/settle.h"
#include "settle_bounds.h"
#include "settle_print.h"

namespace {

using namespace dgx;
using namespace dgx::tools;

Status write_receipts(cli::Out& out, Output& file, const std::vector<jobs::Logged>& logged) {
  std::string text;
  for (const jobs::Logged& one : logged) text += one.receipt.envelope + "\n";
  return out.output(file, text);
}

void declare_ledger(cli::Command& command, jobs::LedgerFile& file) {
  command.positional("LEDGER.jsonl", file.path, "the ledger, with LEDGER.receipts.jsonl next to it");
}

void declare_task(cli::Command& command, std::optional<std::string>& task, std::string help) {
  command.option("--task", "ID", task,
                 std::move(help) + "; its id, at least eight digits of it, or TASK.json");
}

struct Init {
  jobs::LedgerWriter writer;
  std::string policy_path;

  void declare(cli::Command& command) {
    declare_ledger(command, writer.file);
    command.key(writer.key.path, writer.key.passphrase_file);
    command.required("--policy", "FILE", policy_path,
                     "the market's rules: a JSON object of policy keys, or a signed policy");
    command.wait(writer.wait);
    command.skip_existing(writer.skip_existing);
  }
  Result<cli::Verdict> run(cli::Out& out) const {
    DGX_TRY(const jobs::LedgerSummary summary, jobs::init_ledger(writer, policy_path));
    if (summary.existed) out.note_skipped(writer.file.path);
    return print_summary(out, summary), cli::Verdict::kDone;
  }
};

struct Make {
  jobs::MakeStatement options;
  std::string path = "-";

  void declare(cli::Command& command) {
    command.positional("KIND", options.kind, fmt::format("{}", fmt::join(jobs::makeable_kinds(), ", ")));
    command.positional("TASK.json", options.task_path,
                       "the task that it belongs to; deposit and withdrawal need none");
    command.option("--about", "STATEMENT.json", options.about_path,
                   "the statement that it answers: a beacon-commitment for assign and offer-end, a proof for "
                   "delivery, a verdict for verdict-commitment");
    command.option("--ledger", "ID|FILE", options.ledger,
                   "the market of a deposit or withdrawal: its id, LEDGER.jsonl, a receipt or a head");
    command.option("--profile", "P.json", options.profile,
                   "for assign: your profile of the task, which says how long its longest segment takes you");
    command.option("--model", "FILE", options.model,
                   "for delivery: the model that was received, to be compared with the proof's final state");
    command.option("--set", "FIELD=VALUE", options.settings,
                   "fields that do not follow from the other options; account= also takes a key file");
    command.key(options.key.path, options.key.passphrase_file);
    command.output(path, "S.json", cli::Need::kOptional);
  }
  Result<cli::Verdict> run(cli::Out& out) const {
    DGX_TRY(Output output, out.claim(path));
    DGX_TRY(const auto statement, jobs::make_statement(options, out.brief_job()));
    DGX_CHECK(out.output(output, statement.envelope + "\n"));
    if (path == "-") return cli::Verdict::kDone;
    out.field("kind", name_of(kind_of(statement.body)));
    out.field("statement", statement.id);
    out.field("signer", statement.key_id);
    return cli::Verdict::kDone;
  }
};

void declare_after_pause(cli::Command& command, jobs::LedgerWriter& writer) {
  command.flag("--after-pause", writer.after_pause,
               "the operator was away while a deadline ran: record the pause and move every deadline by it");
}

/// Warns if the clock is a second or more behind the ledger's: until it has caught up, no deadline passes.
Status warn_of_lag(cli::Out& out, const jobs::LedgerWriter& writer) {
  DGX_TRY(const std::int64_t lag, jobs::clock_lag(writer));
  if (lag >= 1'000)
    out.warning(fmt::format(
        "the clock is {} s behind the last receipt: until it has caught up no deadline passes", lag / 1000));
  return {};
}

struct Deposit {
  jobs::LedgerWriter writer;
  std::vector<std::string> to;
  std::optional<std::string> reference;

  void declare(cli::Command& command) {
    declare_ledger(command, writer.file);
    command.required(
        "--to", "KEY.pub.pem|AMOUNT", to,
        "accounts, each a key file or a key id, and after them the amount that each of them gets");
    command.option("--reference", "WORD", reference,
                   "a word that tells this payment from equal ones: given again, it counts once (default: "
                   "random)");
    command.key(writer.key.path, writer.key.passphrase_file);
    command.wait(writer.wait);
    declare_after_pause(command, writer);
  }
  Result<cli::Verdict> run(cli::Out& out) const {
    jobs::LedgerWriter request = writer;
    request.file.trust = out.common().trust;
    DGX_CHECK(warn_of_lag(out, request));
    DGX_TRY(const auto done, jobs::deposit(request, to, reference));
    if (done.skipped > 0) out.note(fmt::format("skipped: {}, already in the ledger", done.skipped));
    print_logged(out, done.logged, done.head);
    return cli::Verdict::kDone;
  }
};

struct Append {
  jobs::LedgerWriter writer;
  std::vector<std::string> paths;
  std::optional<std::string> receipts_path;
  bool keep_going = false;

  void declare(cli::Command& command) {
    declare_ledger(command, writer.file);
    command.positional("STATEMENT.json", paths,
                       "signed statements, one file each or one a line, or a dispute's transcript; - is "
                       "standard input");
    command.key(writer.key.path, writer.key.passphrase_file);
    command.option("--receipts,-o", "RECEIPTS.jsonl", receipts_path,
                   "also write the new receipts here, for their statements' signers");
    command.writes({"--receipts"});
    command.flag("--keep-going", keep_going, "log the allowed statements even if others are refused");
    command.option("--store", "DIR", writer.store,
                   "folder in which participants put openings, deliveries and chunks, which are fetched "
                   "before they are logged");
    command.wait(writer.wait);
    declare_after_pause(command, writer);
  }
  Result<cli::Verdict> run(cli::Out& out) const {
    jobs::LedgerWriter request = writer;
    request.file.trust = out.common().trust;
    request.threads = out.common().threads;
    // Before the ledger is touched: a completed append must not fail afterwards.
    DGX_TRY(Output receipts, out.claim(receipts_path.value_or("-")));
    DGX_CHECK(warn_of_lag(out, request));
    const auto on_refusal = keep_going ? jobs::OnRefusal::kKeepGoing : jobs::OnRefusal::kAppendNone;
    DGX_TRY(const auto done, jobs::append_statements(request, paths, on_refusal));
    if (done.skipped > 0)
      out.note(fmt::format("skipped: {}, already in the ledger or receipts of a transcript", done.skipped));
    print_logged(out, done.logged, done.head);
    if (receipts_path) DGX_CHECK(write_receipts(out, receipts, done.logged));
    return done.refused.empty() ? Result(cli::Verdict::kDone) : tell_refused(out, done.refused);
  }

 private:
  /// Prints what was logged before the program ends with the first refusal's code.
  static Result<cli::Verdict> tell_refused(cli::Out& out, const std::vector<Error>& refused) {
    DGX_CHECK(out.flush());
    for (const Error& error : refused) out.error(error);
    return Error{refused.front().code, fmt::format("refused: {}; all others are logged", refused.size()), {}};
  }
};

struct Run {
  jobs::LedgerWriter writer;
  std::optional<std::string> task;
  bool until_settled = false;

  void declare(cli::Command& command) {
    declare_ledger(command, writer.file);
    declare_task(command, task, "settle this task only");
    command.key(writer.key.path, writer.key.passphrase_file);
    command.flag("--until-settled", until_settled,
                 "keep running until nothing in the ledger waits: settle what falls due, record the clock in "
                 "between");
    command.wait(writer.wait);
    declare_after_pause(command, writer);
  }
  Result<cli::Verdict> run(cli::Out& out) const {
    jobs::LedgerWriter request = writer;
    request.file.trust = out.common().trust;
    DGX_CHECK(warn_of_lag(out, request));
    if (until_settled) request.wait.stop = &cli::watch_signals();
    DGX_TRY(auto logged, jobs::run_ledger(request, task));
    request.after_pause = false;
    while (until_settled) {
      DGX_TRY(const auto pause, jobs::milliseconds_to_run(request));
      if (!pause) break;
      if (!sleep_unless_stopped(*pause))
        return Error{ErrorCode::kInterrupted, "stopped; what was logged stays", {}};
      DGX_TRY(auto more, jobs::run_ledger(request, task));
      std::move(more.begin(), more.end(), std::back_inserter(logged));
    }
    json::Array settled;
    for (const jobs::Logged& one : logged) {
      const auto* settlement = std::get_if<manifest::Settlement>(&one.statement.body);
      if (settlement != nullptr) settled.emplace_back(settlement->predicate());
    }
    print_logged(out, logged, logged.back().receipt.body.head);
    out.field("settled", std::move(settled));
    return cli::Verdict::kDone;
  }

  /// Sleeps; false if a signal came meanwhile.
  static bool sleep_unless_stopped(std::int64_t milliseconds) {
    constexpr std::int64_t kSlice = 100;
    const StopFlag& stop = cli::watch_signals();
    for (; milliseconds > 0 && !stop.requested(); milliseconds -= kSlice)
      std::this_thread::sleep_for(std::chrono::milliseconds(std::min(milliseconds, kSlice)));
    return !stop.requested();
  }
};

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
    DGX_TRY(const auto copy, jobs::fetch_copy({file.path, out.common().trust}, id, folder, out.clobber()));
    out.field("kind", name_of(copy.kind));
    out.field("statement", copy.statement);
    out.field("task", copy.task);
    out.field("files", json::Array(copy.files.begin(), copy.files.end()));
    return cli::Verdict::kDone;
  }
};

struct Extract {
  jobs::LedgerFile file;
  std::string game;
  std::string path = "-";

  void declare(cli::Command& command) {
    declare_ledger(command, file);
    command.required("--game", "ID", game, "the id of its challenge, or eight digits of it or more");
    command.output(path, "DISPUTE.jsonl", cli::Need::kOptional, "the transcript");
  }
  Result<cli::Verdict> run(cli::Out& out) const {
    DGX_TRY(Output output, out.claim(path));
    DGX_TRY(const auto found, jobs::extract_game({file.path, out.common().trust}, game));
    DGX_CHECK(out.output(output, found.text));
    if (path == "-") return cli::Verdict::kDone;
    out.field("game", found.game);
    out.field("moves", found.moves);
    out.field("receipts", found.receipts);
    return cli::Verdict::kDone;
  }
};

struct StatusCommand {
  jobs::LedgerFile file;
  std::optional<std::string> task;

  void declare(cli::Command& command) {
    declare_ledger(command, file);
    declare_task(command, task, "show this task only");
  }
  Result<cli::Verdict> run(cli::Out& out) const {
    DGX_TRY(const auto view, jobs::view_ledger({file.path, out.common().trust}));
    std::vector<const protocol::TaskRecord*> records;
    if (task) {
      DGX_TRY(const protocol::TaskRecord* record, jobs::find_task(view.market, *task));
      records.push_back(record);
    } else {
      for (const auto& [id, record] : view.market.tasks()) records.push_back(&record);
    }
    print_summary(out, view.summary);
    const protocol::MarketClock& clock = view.market.clock();
    cli::Table games{
        {"game", "task", "about", "challenger", "bond", "turn", "awaited", "until", "end", "ruling"}};
    for (const protocol::TaskRecord* record : records) {
      const auto ends = protocol::ends_of(*record, clock.now());
      for (std::size_t i = 0; i < ends.size(); ++i)
        games.rows.push_back(game_row(record->games[i], ends[i], clock));
    }
    out.field("games", std::move(games));
    cli::Table table{
        {"task", "state", "until", "reason", "diverged", "submitter", "solver", "verifier", "escrow"}};
    for (const protocol::TaskRecord* record : records) table.rows.push_back(row(*record, clock));
    out.field("tasks", std::move(table));
    return cli::Verdict::kDone;
  }

  /// A game's subject, the side to move and its deadline; or how the game ended.
  static std::vector<cli::Cell> game_row(const protocol::GameRecord& record,
                                         const std::optional<protocol::GameEnd>& end,
                                         const protocol::MarketClock& clock) {
    const protocol::Game& game = record.game;
    const manifest::Challenge& challenge = game.dispute().challenge.body;
    const cli::Cell none = no_cell();
    return {record.id(),
            challenge.task,
            fmt::format("{} {} of the {}", name_of(challenge.about), challenge.segment,
                        challenge.verdict ? "verdict" : "proof"),
            game.dispute().challenger(),
            record.bond,
            game.turn(),
            end ? none : cli::Cell(name_of(game.due().side)),
            end ? none : time_cell(clock.receipt_time(record.deadline_ms)),
            end ? cli::Cell(name_of(end->result)) : none,
            id_cell(record.ruling)};
  }

  static std::vector<cli::Cell> row(const protocol::TaskRecord& record, const protocol::MarketClock& clock) {
    const protocol::Standing stands = protocol::standing(record, clock.now());
    const auto& settlement = record.settlement ? record.settlement : stands.settlement;
    const cli::Cell none = no_cell();
    return {record.task.id,
            name_of(stands.state),
            stands.deadline_ms ? time_cell(clock.receipt_time(*stands.deadline_ms)) : none,
            settlement ? cli::Cell(name_of(settlement->reason)) : none,
            record.proof && record.proof->body.diverged ? cli::Cell(record.proof->body.steps) : none,
            record.task.key_id,
            id_cell(record.solver),
            id_cell(record.verifier),
            record.task.body.estimate.escrow};
  }
};

struct Balances {
  jobs::LedgerFile file;
  std::optional<std::string> task;

  void declare(cli::Command& command) {
    declare_ledger(command, file);
    declare_task(command, task, "show the accounts of its submitter, solver and verifier");
  }
  Result<cli::Verdict> run(cli::Out& out) const {
    DGX_TRY(const auto view, jobs::view_ledger({file.path, out.common().trust}));
    DGX_TRY(const auto accounts, jobs::accounts_of(view, task));
    std::int64_t total = 0;
    for (const auto& [account, amount] : accounts) total += amount;
    if (!view.summary.torn.empty()) out.warning(view.summary.torn);
    out.field("accounts", json::Object(accounts.begin(), accounts.end()));
    out.field("total", total);
    return cli::Verdict::kDone;
  }
};

struct Check {
  jobs::LedgerFile file;
  std::optional<std::string> task;
  std::vector<std::string> against;

  void declare(cli::Command& command) {
    declare_ledger(command, file);
    declare_task(command, task, "a task that must be in the ledger");
    command.option("--against", "HEAD.json", against,
                   "earlier tree heads or receipts signed by the operator");
  }
  Result<cli::Verdict> run(cli::Out& out) const {
    DGX_TRY(const auto check, jobs::check_ledger({file.path, out.common().trust}, against, task));
    print_summary(out, check.summary);
    out.field("tasks", check.tasks);
    out.field("settled", check.settled);
    out.field("total", check.total);
    out.field("sound", check.faults.empty());
    cli::Table faults{{"fault"}};
    for (const std::string& fault : check.faults) faults.rows.push_back({fault});
    out.field("faults", std::move(faults));
    return check.faults.empty() ? cli::Verdict::kDone : cli::Verdict::kRefuted;
  }
};

struct Head {
  jobs::LedgerWriter writer;
  std::string path = "-";

  void declare(cli::Command& command) {
    declare_ledger(command, writer.file);
    command.key(writer.key.path, writer.key.passphrase_file, cli::Need::kOptional);
    command.output(path, "HEAD.json", cli::Need::kOptional, "file to write the signed tree head to");
    command.only_with({"--output"}, {"--key"});
  }
  Result<cli::Verdict> run(cli::Out& out) const {
    jobs::LedgerWriter request = writer;
    request.file.trust = out.common().trust;
    if (writer.key.path.empty()) {
      DGX_TRY(const auto summary, jobs::head_of_ledger(request.file));
      return print_summary(out, summary), cli::Verdict::kDone;
    }
    DGX_TRY(Output output, out.claim(path));
    DGX_TRY(const auto head, jobs::sign_head(request));
    DGX_CHECK(out.output(output, head.envelope + "\n"));
    return cli::Verdict::kDone;
  }
};

json::Array path_json(const std::vector<Digest>& path) {
  json::Array out;
  for (const Digest& digest : path) out.emplace_back(digest.hex());
  return out;
}

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
    const jobs::LedgerFile trusted{file.path, out.common().trust};
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

int main(int argc, char** argv) {
  cli::Tool tool("dgx-settle", "keep a market's ledger: money, deadlines, payments and slashing");
  tool.names(jobs::names_of_trust);
  tool.add<Init>("init", "start a ledger with its policy");
  tool.add<Make>("make", "sign a statement that no other program makes");
  tool.add<Deposit>("deposit", "sign deposits and log them");
  tool.add<Append>("append", "check statements and log them");
  tool.add<Fetch>("fetch", "hand out what was opened, delivered or shown, from the operator's copies");
  tool.add<Extract>("extract", "take a dispute's statements out of a ledger, with their receipts");
  tool.add<StatusCommand>("status", "show the state of every task, at the ledger's time");
  tool.add<Balances>("balances", "show the balance of every account");
  tool.add<Run>("run", "record the clock and settle what is due");
  tool.add<Check>("check", "replay the ledger and compare; 1 if its operator broke the rules or a promise");
  tool.add<Head>("head", "print the tree head, signed if a key is given");
  tool.add<Prove>("prove", "print inclusion and consistency proofs");
  tool.add<tools::Bounds>(
      "bounds", "print deposits, jackpot and thresholds from the closed forms, and the policy's keys");
  tool.later("simulate", "simulate participants who cheat, idle and collude");
  return tool.run(argc, argv);
}
