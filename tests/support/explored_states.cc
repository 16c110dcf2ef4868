#include "explored_states.h"

#include <fmt/format.h>

#include <algorithm>

#include "dgx/protocol/rounds.h"

namespace dgx::test {
namespace {

using protocol::TaskRecord;

std::string brief(const auto& one) { return one ? one->id.hex() : "-"; }

std::string balances_of(const Node& node) {
  std::string out;
  for (const auto& [account, amount] : node.market.balances()) out += fmt::format("{}={} ", account, amount);
  return out;
}

std::string games_in(const Node& node, const TaskRecord& record) {
  std::string out;
  const auto ends = protocol::ends_of(record, node.now);
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const protocol::GameRecord& one = record.games[i];
    out += fmt::format("game {} {} {} ", one.id().hex(), one.bond, one.counted);
    if (ends[i]) {
      const bool just_won =
          ends[i]->result == protocol::GameResult::kFalls && ends[i]->milliseconds == node.now;
      out += fmt::format("{} {} ", protocol::name_of(ends[i]->result), just_won);
    } else {
      out += fmt::format("{} {} ", one.game.last().hex(), one.deadline_ms - node.now);
    }
  }
  return out;
}

}  // namespace

std::string whole_of(const Node& node, const TaskRecord& record) {
  std::string out = fmt::format("{} {} ", node.now, node.games);
  for (const auto& [account, amount] : node.market.balances()) out += fmt::format("{}={} ", account, amount);
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

std::string future_of(const Node& node, const TaskRecord& record) {
  if (record.task.body.policy.beacon_source != 0) return whole_of(node, record);
  if (record.settlement) return outcome_of(node, record);
  const protocol::Standing stands = protocol::standing(record, node.now);
  std::string out = fmt::format("{} {} {}", protocol::name_of(stands.state), node.games, balances_of(node));
  if (stands.deadline_ms) out += fmt::format("until {} ", *stands.deadline_ms - node.now);
  for (const auto& [id, offer] : record.offers) out += fmt::format("offer {} {} ", id.hex(), offer.bond);
  out += fmt::format("solver {} proof {} beacon {} opening {} verdict {} {} ", record.solver.has_value(),
                     brief(record.proof), brief(record.beacon), brief(record.opening), brief(record.verdict),
                     record.games_before_verdict);
  for (const auto& [who, one] : record.committed)
    out += fmt::format("committed {} {} ", who.hex(), one.commitment.hex());
  return out + games_in(node, record) + (record.delivered ? "delivered" : "");
}

bool outlasts_delays(const TaskRecord& record) {
  constexpr std::int64_t kMostWaiting = 63;
  return std::all_of(record.games.begin(), record.games.end(), [&](const protocol::GameRecord& one) {
    return one.game.turn() * std::ssize(record.games) <= kMostWaiting;
  });
}

}  // namespace dgx::test
