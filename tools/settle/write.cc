// dgx-settle init, deposit, withdraw, append and run: the commands by which an operator writes a ledger.
// dgx-settle(1).
#include <fmt/format.h>

#include "dgx/cli/signals.h"
#include "dgx/core/files.h"
#include "settle/commands.h"
#include "settle/declare.h"
#include "settle/print.h"

namespace dgx::tools {
namespace {

Status write_receipts(cli::Out& out, Output& file, const std::vector<jobs::Logged>& logged) {
  std::string text;
  for (const jobs::Logged& one : logged) text += one.receipt.envelope + "\n";
  return out.output(file, text);
}

/// Warns if the clock is a second or more behind the ledger's: until it has caught up, no deadline passes.
Status warn_of_lag(cli::Out& out, const jobs::LedgerWriter& writer) {
  DGX_TRY(const std::int64_t lag, jobs::clock_lag(writer));
  if (lag >= 1'000)
    out.warning(fmt::format(
        "the clock is {} s behind the last receipt: until it has caught up no deadline passes", lag / 1000));
  return {};
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

cli::Verdict print_transfers(cli::Out& out, const jobs::Appended& done) {
  if (done.skipped > 0) out.note(fmt::format("skipped: {}, already in the ledger", done.skipped));
  print_logged(out, done.logged, done.head);
  return cli::Verdict::kDone;
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
    request.file = ledger_of(writer.file, out);
    DGX_CHECK(warn_of_lag(out, request));
    DGX_TRY(const auto done, jobs::deposit(request, to, reference));
    return print_transfers(out, done);
  }
};

struct Withdraw {
  jobs::LedgerWriter writer;
  std::string amount;
  std::string from{manifest::kTreasury};
  std::optional<std::string> reference;

  void declare(cli::Command& command) {
    declare_ledger(command, writer.file);
    command.positional("AMOUNT|all", amount, "how much, or all that the account has");
    command.option("--from", "treasury|KEY.pub.pem", from,
                   "the account: the treasury, or the operator's own");
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
    DGX_TRY(const auto done, jobs::withdraw(request, amount, from, reference));
    return print_transfers(out, done);
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
    request.file = ledger_of(writer.file, out);
    request.threads = out.common().threads;
    // Before the ledger is touched: a completed append must not fail afterwards.
    jobs::note_ledger(request.file);
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
    request.file = ledger_of(writer.file, out);
    DGX_CHECK(warn_of_lag(out, request));
    DGX_TRY(const auto logged, until_settled ? jobs::run_until_settled(request, task, cli::watch_signals())
                                             : jobs::run_ledger(request, task));
    json::Array settled;
    for (const jobs::Logged& one : logged) {
      const auto* settlement = std::get_if<manifest::Settlement>(&one.statement.body);
      if (settlement != nullptr) settled.emplace_back(settlement->predicate());
    }
    print_logged(out, logged, logged.back().receipt.body.head);
    out.field("settled", std::move(settled));
    return cli::Verdict::kDone;
  }
};

}  // namespace

void add_init(cli::Tool& tool) { tool.add<Init>("init", "start a ledger with its policy"); }

void add_deposit(cli::Tool& tool) { tool.add<Deposit>("deposit", "sign deposits and log them"); }

void add_withdraw(cli::Tool& tool) {
  tool.add<Withdraw>("withdraw", "sign a withdrawal from the treasury and log it");
}

void add_append(cli::Tool& tool) { tool.add<Append>("append", "check statements and log them"); }

void add_run(cli::Tool& tool) { tool.add<Run>("run", "record the clock and settle what is due"); }

}  // namespace dgx::tools
