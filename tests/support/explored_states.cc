#include "explored_states.h"

#include <fmt/format.h>

#include <algorithm>

#include "dgx/protocol/forced.h"

namespace dgx::test {
namespace {

using protocol::TaskRecord;

std::string brief(const auto& one) { return one ? one->id.hex() : "-"; }

std::string balances_of(const Node& node) {
  std::string out;
  for (const auto& [account, amount] : node.market.balances()) out += fmt::format("{}={} ", account, amount);
  return out;
}

/// True if no slot is waited for any more, and none will be.
bool has_drawn(const Node& node, const TaskRecord& record) {
  const manifest::Policy& policy = record.task.body.policy;
  if (policy.beacon_source == 0) return true;
  if (protocol::rechecks_verdicts(policy) || !record.proof) return false;
  return protocol::standing(record, node.now).state != protocol::TaskState::kProofCommitted;
}

std::string games_in(const Node& node, const TaskRecord& record, const Names& names) {
  std::string out;
  const auto ends = protocol::ends_of(record, node.now);
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const protocol::GameRecord& one = record.games[i];
    out += fmt::format("game {} {} {} ", names.of(one.id()).hex(), one.bond, one.counted);
    if (ends[i]) {
      const bool just_won =
          ends[i]->result == protocol::GameResult::kFalls && ends[i]->milliseconds == node.now;
      out += fmt::format("{} {} ", protocol::name_of(ends[i]->result), just_won);
    } else {
      out += fmt::format("{} {} ", names.of(one.game.last()).hex(), one.deadline_ms - node.now);
    }
  }
  return out;
}

}  // namespace

std::string whole_of(const Node& node, const TaskRecord& record) {
  std::string out = fmt::format("{} {} {}", node.now, node.games, balances_of(node));
  for (const auto& [id, offer] : record.offers) out += fmt::format("offer {} {} ", id.hex(), offer.bond);
  out += fmt::format("solver {} {} proof {} {} {} beacon {} {} ", record.solver.has_value(),
                     record.assigned_ms, brief(record.proof), record.proof_ms, record.proof_slot,
                     brief(record.beacon), record.beacon_ms);
  if (record.round)
    out += fmt::format("round {} {} ", record.round->source.id.hex(), record.round->logged_ms);
  out +=
      fmt::format("opening {} {} verdict {} {} {} {} ", brief(record.opening), record.opening_ms,
                  brief(record.verdict), record.verdict_ms, record.verdict_slot, record.games_before_verdict);
  for (const auto& [who, one] : record.committed)
    out += fmt::format("committed {} {} {} ", who.hex(), one.commitment.hex(), one.logged_ms);
  if (record.audit)
    out +=
        fmt::format("audit {} {} {} {} ", record.audit->lot.hex(), record.audit->logged_ms, record.audit->fee,
                    record.audit->auditor ? record.audit->auditor->drawn.verifier.hex() : "-");
  for (const protocol::Recheck& one : record.rechecks)
    out += fmt::format("recheck {} {} {} {} {} {} {} ", one.who.hex(), one.commitment.hex(), one.bond,
                       one.games_before, brief(one.audit), one.audit_ms, one.after_secret);
  if (record.secret) out += fmt::format("secret {} {} ", record.secret->logged_ms, record.secret->early);
  for (const protocol::GameRecord& one : record.games)
    out += fmt::format("game {} {} {} {} {} {} {} ", one.id().hex(), one.game.last().hex(), one.bond,
                       one.counted, one.last_ms, one.deadline_ms, one.queued_ms);
  out += fmt::format("{} {} {}", record.jackpot, record.delivered, record.settlement.has_value());
  for (const protocol::WaitingSlot& slot : node.market.slots_waiting()) out += fmt::format(" {}", slot.slot);
  return out;
}

std::string outcome_of(const Node& node, const TaskRecord& record) {
  return fmt::format("{} proof {} {}", manifest::name_of(record.settlement->reason), brief(record.proof),
                     balances_of(node));
}

void Names::add(const manifest::Signed<manifest::Body>& statement) {
  if (names_.contains(statement.id)) return;
  manifest::Body named = statement.body;
  if (auto* const verdict = std::get_if<manifest::Verdict>(&named)) verdict->beacon.reset();
  if (auto* const challenge = std::get_if<manifest::Challenge>(&named); challenge && challenge->verdict)
    challenge->verdict = of(*challenge->verdict);
  if (auto* const move = std::get_if<manifest::Move>(&named)) {
    move->game = of(move->game);
    move->previous = of(move->previous);
  }
  names_.emplace(statement.id, manifest::statement_id(manifest::payload_of(named, statement.signer)));
}

std::string future_of(const Node& node, const TaskRecord& record, const Names& names) {
  if (!has_drawn(node, record)) return whole_of(node, record);
  if (record.settlement) return outcome_of(node, record);
  const protocol::Standing stands = protocol::standing(record, node.now);
  std::string out = fmt::format("{} {} {}", protocol::name_of(stands.state), node.games, balances_of(node));
  if (stands.deadline_ms) out += fmt::format("until {} ", *stands.deadline_ms - node.now);
  for (const auto& [id, offer] : record.offers) out += fmt::format("offer {} {} ", id.hex(), offer.bond);
  out += fmt::format("solver {} proof {} beacon {} opening {} ", record.solver.has_value(),
                     brief(record.proof), brief(record.beacon), record.opening.has_value());
  if (record.round) {
    out += fmt::format("round {} ", record.round->source.value.hex());
    for (const protocol::DrawnVerifier& one : record.round->drawn) out += one.drawn.verifier.hex() + " ";
  }
  if (const auto verifier = protocol::verifier_at(record, node.now))
    out += fmt::format("verifier {} ", verifier->hex());
  for (const auto& [who, one] : record.committed) out += fmt::format("committed {} ", who.hex());
  if (record.verdict)
    out += fmt::format("verdict {} {} ", names.of(record.verdict->id).hex(), record.games_before_verdict);
  return out + games_in(node, record, names) + (record.delivered ? "delivered" : "");
}

bool outlasts_delays(const TaskRecord& record) {
  constexpr std::int64_t kMostWaiting = 63;  // windows, as in the rules
  const std::int64_t others = std::ssize(record.games) - 1;
  return std::all_of(record.games.begin(), record.games.end(), [&](const protocol::GameRecord& one) {
    const std::int64_t answers = one.game.turn() / 2;  // the defender's so far, each at most that late
    return (answers + 1) * others <= kMostWaiting;
  });
}

}  // namespace dgx::test
