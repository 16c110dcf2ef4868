// dgx-settle status and balances: tasks, games and accounts as the ledger has them. dgx-settle(1).
#include <fmt/format.h>

#include "dgx/protocol/forced.h"
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
    const std::int64_t source = view.market.policy()->beacon_source;
    if (source != 0) print_drawn(out, records, clock);
    if (protocol::rechecks_verdicts(*view.market.policy())) print_audits(out, records, clock);
    if (protocol::forces_errors(*view.market.policy())) print_secrets(out, records, clock);
    if (source == static_cast<std::int64_t>(manifest::RoundSource::kDrand))
      out.note(std::string(kPulseNotVerified));
    return cli::Verdict::kDone;
  }

  /// Prints who was drawn to verify, and why: the stretch of the bonds, from `from` up to `to` of `sum`, that
  /// has the ticket in it.
  static void print_drawn(cli::Out& out, const std::vector<const protocol::TaskRecord*>& records,
                          const protocol::MarketClock& clock) {
    cli::Table table{{"task", "verifier", "lot", "ticket", "from", "to", "sum", "until", "verdict"}};
    for (const protocol::TaskRecord* record : records) {
      if (!record->round) continue;
      const auto turns = protocol::turns_of(*record);
      for (std::size_t i = 0; i < record->round->drawn.size(); ++i) {
        const protocol::DrawnVerifier& one = record->round->drawn[i];
        table.rows.push_back({record->task.id, one.drawn.verifier, one.lot, one.ticket, one.from,
                              one.from + one.drawn.bond, one.sum,
                              turns.empty() ? no_cell() : time_cell(clock.receipt_time(turns[i].deadline_ms)),
                              verdict_of(*record, i, turns, clock.now())});
      }
    }
    out.field("drawn", std::move(table));
  }

  /// Prints which verdicts are audited, and why: by the lot, whose first 8 bytes are compared with audit_ppm,
  /// and by the stretch of the bonds that has the ticket in it; and everybody who owes an audit.
  static void print_audits(cli::Out& out, const std::vector<const protocol::TaskRecord*>& records,
                           const protocol::MarketClock& clock) {
    const cli::Cell none = no_cell();
    cli::Table audits{
        {"task", "verdict", "audit", "auditor", "fee", "lot", "ticket", "from", "to", "sum", "until"}};
    cli::Table rechecks{{"task", "by", "as", "bond", "until", "audit"}};
    for (const protocol::TaskRecord* record : records) {
      if (!protocol::is_rechecked(*record)) continue;
      const protocol::RecheckTimes times = protocol::recheck_times(*record);
      const auto& draw = record->audit;
      const bool hit = draw && draw->auditor;
      audits.rows.push_back(
          {record->task.id, record->verdict->id, audit_of(*record, clock.now()),
           hit ? cli::Cell(draw->auditor->drawn.verifier) : none, hit ? cli::Cell(draw->fee) : none,
           draw ? cli::Cell(draw->lot) : none, hit ? cli::Cell(draw->auditor->ticket) : none,
           hit ? cli::Cell(draw->auditor->from) : none,
           hit ? cli::Cell(draw->auditor->from + draw->auditor->drawn.bond) : none,
           hit ? cli::Cell(draw->auditor->sum) : none, time_cell(clock.receipt_time(times.commit_ms))});
      const auto add = [&](const Digest& who, std::int64_t bond, bool drawn) {
        const protocol::Recheck* const own = protocol::recheck_of(*record, who);
        rechecks.rows.push_back(
            {record->task.id, who, drawn ? "auditor" : "volunteer", bond,
             time_cell(clock.receipt_time(own != nullptr ? times.reveal_ms : times.commit_ms)),
             recheck_words(*record, own, own != nullptr ? times.reveal_ms : times.commit_ms, clock.now())});
      };
      if (hit) add(draw->auditor->drawn.verifier, draw->auditor->drawn.bond, true);
      for (const protocol::Recheck& one : record->rechecks) {
        if (!protocol::is_auditor(*record, one.who)) add(one.who, one.bond, false);
      }
    }
    out.field("audits", std::move(audits));
    out.field("rechecks", std::move(rechecks));
  }

  /// Prints what became of the verifiers' secrets, which errors they forced, and what is promised to those
  /// who claim them.
  static void print_secrets(cli::Out& out, const std::vector<const protocol::TaskRecord*>& records,
                            const protocol::MarketClock& clock) {
    const cli::Cell none = no_cell();
    cli::Table secrets{{"task", "verifier", "secret", "until", "lot", "forced", "jackpot"}};
    for (const protocol::TaskRecord* record : records) {
      if (!protocol::owes_secret(*record)) continue;
      const auto& shown = record->secret;
      const auto forced = protocol::forced_segment(*record);
      secrets.rows.push_back(
          {record->task.id, record->verdict->key_id, secret_words(*record, clock.now()),
           time_cell(clock.receipt_time(protocol::recheck_times(*record).reveal_ms)),
           shown ? cli::Cell(protocol::forced_lot(record->round->source, shown->statement.body.secret))
                 : none,
           forced ? cli::Cell(*forced) : none, record->jackpot > 0 ? cli::Cell(record->jackpot) : none});
    }
    out.field("secrets", std::move(secrets));
  }

  static std::string_view secret_words(const protocol::TaskRecord& record, std::int64_t now) {
    switch (protocol::secret_fate(record, now)) {
      case protocol::SecretFate::kGivenAway: return "given away";
      case protocol::SecretFate::kWithheld: return "withheld";
      case protocol::SecretFate::kKept: break;
    }
    if (record.secret) return "revealed";
    return now > protocol::recheck_times(record).commit_ms ? "awaited" : "not due";
  }

  static std::string_view audit_of(const protocol::TaskRecord& record, std::int64_t now) {
    if (!protocol::may_draw_auditor(record)) return "no";
    if (!record.audit)
      return now <= protocol::recheck_times(record).commit_ms ? "waits for the round" : "no round";
    if (!record.audit->hits) return "no";
    return record.audit->auditor ? "yes" : "nobody, or no fee";
  }

  static std::string recheck_words(const protocol::TaskRecord& record, const protocol::Recheck* own,
                                   std::int64_t until, std::int64_t now) {
    if (own == nullptr) return now <= until ? "awaited" : "silent";
    if (!own->audit) return now <= until ? "committed" : "silent";
    const manifest::Verdict& audit = own->audit->body;
    const std::string outcome(name_of(audit.outcome));
    if (protocol::claims_jackpot(record, *own)) return outcome + ", denies the forced error";
    if (protocol::confirms_forced(record, *own)) return outcome + ", confirms the forced error";
    if (audit.denied.empty()) return outcome;
    const bool fell = protocol::has_fallen(record, record.verdict->id, now);
    return fmt::format("{}, denies {}{}", outcome, audit.denied.size(),
                       record.settlement || fell ? "" : ", which costs the bond unless the verdict falls");
  }

  /// The outcome for the i-th who was drawn, in a word or two.
  static std::string_view verdict_of(const protocol::TaskRecord& record, std::size_t i,
                                     const std::vector<protocol::VerifierTurn>& turns, std::int64_t now) {
    const Digest& verifier = record.round->drawn[i].drawn.verifier;
    if (record.verdict) {
      if (record.verdict->key_id == verifier) return name_of(record.verdict->body.outcome);
      // The bonds of those who were not asked may be locked for the draw of an auditor.
      const bool asked = i < turns.size() && turns[i].deadline_ms < record.verdict_ms;
      return asked ? "silent" : "not asked";
    }
    if (turns.empty()) return i == 0 ? "waits for the opening" : "next";
    if (now > turns[i].deadline_ms) return "silent";
    return now >= turns[i].begins_ms ? "awaited" : "next";
  }

  /// A game's subject, the side to move and its deadline; or how the game ended.
  static std::vector<cli::Cell> game_row(const protocol::GameRecord& record,
                                         const std::optional<protocol::GameEnd>& end,
                                         const protocol::MarketClock& clock) {
    const protocol::Game& game = record.game;
    const manifest::Challenge& challenge = game.dispute().challenge.body;
    const cli::Cell none = no_cell();
    constexpr std::array<std::string_view, 3> kNames{"proof", "verdict", "audit"};
    return {record.id(),
            challenge.task,
            fmt::format("{} {} of the {}", name_of(challenge.about), challenge.segment,
                        kNames[static_cast<std::size_t>(record.challenged())]),
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
            id_cell(protocol::verifier_at(record, clock.now())),
            record.task.body.estimate.escrow};
  }
};

struct Balances {
  jobs::LedgerFile file;
  std::optional<std::string> task;

  void declare(cli::Command& command) {
    declare_ledger(command, file);
    declare_task(command, task,
                 "show the accounts of its submitter, solver, verifier, auditor and volunteers");
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
