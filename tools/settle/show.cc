// dgx-settle status and balances: tasks, games and accounts as the ledger has them. dgx-settle(1).
#include <fmt/format.h>

#include "settle/commands.h"
#include "settle/declare.h"
#include "settle/print.h"

namespace dgx::tools {
namespace {

struct StatusCommand {
  jobs::LedgerFile file;
  std::optional<std::string> task;

  void declare(cli::Command& command) {
    declare_ledger(command, file);
    declare_task(command, task, "show this task only");
  }
  Result<cli::Verdict> run(cli::Out& out) const {
    DGX_TRY(const auto view, jobs::view_ledger(ledger_of(file, out)));
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
    DGX_TRY(const auto view, jobs::view_ledger(ledger_of(file, out)));
    DGX_TRY(const auto accounts, jobs::accounts_of(view, task));
    std::int64_t total = 0;
    for (const auto& [account, amount] : accounts) total += amount;
    if (!view.summary.torn.empty()) out.warning(view.summary.torn);
    out.field("accounts", json::Object(accounts.begin(), accounts.end()));
    out.field("total", total);
    return cli::Verdict::kDone;
  }
};

}  // namespace

void add_status(cli::Tool& tool) {
  tool.add<StatusCommand>("status", "show the state of every task, at the ledger's time");
}

void add_balances(cli::Tool& tool) { tool.add<Balances>("balances", "show the balance of every account"); }

}  // namespace dgx::tools
