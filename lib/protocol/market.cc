#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "dgx/protocol/settlement.h"
#include "rules.h"

namespace dgx::protocol {
namespace {

/// Checks that a tree head says "pause" exactly when it must: the first entry after a pause, and no other.
Status check_pause(const manifest::Signed<manifest::Body>& statement, bool must) {
  const auto* head = std::get_if<manifest::TreeHead>(&statement.body);
  const bool is = head != nullptr && head->pause;
  if (is == must) return {};
  if (is) return malformed("pause: the operator was not away, or nothing waited");
  return not_allowed("the ledger was silent for more than two heartbeats while a deadline ran",
                     "if the clock is right, --after-pause records the pause and moves every deadline");
}

/// Applies the rule for the body's kind.
template <class T>
Status apply_rule(MarketState& market, const Entry& entry, const T& body) {
  if constexpr (requires(TaskRecord & record) { apply(record, entry, body); }) {
    DGX_TRY(TaskRecord* const record, record_of(market, body.task));
    return apply(*record, entry, body);
  } else {
    return apply(market, entry, body);
  }
}

}  // namespace

Status Market::apply(const manifest::Signed<manifest::Body>& statement, std::int64_t milliseconds) {
  // In words only for errors: most statements are taken.
  const auto where = [&] {
    return fmt::format("{} {}", manifest::name_of(manifest::kind_of(statement.body)), statement.id.brief());
  };
  const bool first = !state_.policy.has_value();
  if (!first && milliseconds < state_.clock.receipt_now())
    return malformed(where() + ": earlier than the entry before");
  if (first && !std::holds_alternative<manifest::LedgerPolicy>(statement.body)) {
    return malformed(where() + ": the first statement must be the operator's policy");
  }
  if (state_.seen.contains(statement.id)) return not_allowed(where() + ": is already in the ledger");
  // The rules see market time: at an entry that ends a pause it is still that of the entry before.
  const bool pause = is_pause(milliseconds);
  Status status = check_pause(statement, pause);
  const MarketClock clock = first ? MarketClock(milliseconds) : state_.clock;
  const Entry entry{statement, pause ? clock.now() : clock.at(milliseconds), milliseconds,
                    statement.key_id == state_.operator_id};
  if (status.ok()) {
    status = std::visit([&](const auto& body) { return apply_rule(state_, entry, body); }, statement.body);
  }
  if (!status.ok()) return within(where(), std::move(status).error());
  release_undrawn(state_, entry.now);
  state_.seen.insert(statement.id);
  if (state_.policy->beacon_source != 0) state_.slots.add(statement.id, milliseconds, *state_.policy);
  state_.clock = clock;
  if (pause) {
    state_.clock.pause(milliseconds, heartbeat_ms(*state_.policy));
  } else {
    state_.clock.advance(milliseconds);
  }
  return {};
}

void Market::forget_settled() {
  std::erase_if(state_.tasks, [](const auto& task) { return task.second.settlement.has_value(); });
  std::erase_if(state_.undrawn, [&](const auto& entry) { return !state_.tasks.contains(entry.second); });
}

bool Market::is_pause(std::int64_t milliseconds) const {
  if (!state_.policy) return false;
  if (milliseconds - state_.clock.receipt_now() <= 2 * heartbeat_ms(*state_.policy)) return false;
  return std::any_of(state_.unsettled.begin(), state_.unsettled.end(), [&](const Digest& task) {
    return standing(state_.tasks.at(task), state_.clock.now()).deadline_ms.has_value();
  });
}

std::vector<WaitingSlot> Market::slots_waiting() const {
  std::map<std::int64_t, WaitingSlot> out;
  for (const Digest& task : state_.unsettled) {
    const TaskRecord& record = state_.tasks.at(task);
    const TaskState state = standing(record, state_.clock.now()).state;
    const bool audits = state == TaskState::kRecheck && may_draw_auditor(record) && !record.audit;
    if (state != TaskState::kProofCommitted && !audits) continue;
    const auto slot = state_.slots.all.find(audits ? record.verdict_slot : record.proof_slot);
    if (slot == state_.slots.all.end() || slot->second.round || out.contains(slot->first)) continue;
    out[slot->first] = {slot->first, state_.slots.head_of(slot->first)};
  }
  std::vector<WaitingSlot> list;
  for (const auto& [number, slot] : out) list.push_back(slot);
  return list;
}

std::map<std::string, std::int64_t> Market::balances() const {
  std::map<std::string, std::int64_t> out{{"bonds", 0}, {"escrow", 0}, {"jackpot", 0}, {"treasury", 0}};
  for (const auto& [account, amount] : state_.accounts) out[account] = amount;
  return out;
}

std::int64_t Market::balance(const std::string& account) const { return balance_of(state_, account); }

std::int64_t Market::total() const { return state_.deposited - state_.withdrawn; }

std::vector<manifest::Settlement> Market::due(std::int64_t milliseconds) const {
  std::vector<manifest::Settlement> out;
  for (const Digest& task : state_.unsettled) {
    const Standing stands = standing(state_.tasks.at(task), state_.clock.at(milliseconds));
    if (stands.settlement) out.push_back(*stands.settlement);
  }
  return out;
}

void Replay::take(std::size_t index, const manifest::Signed<manifest::Body>& statement,
                  std::int64_t milliseconds) {
  if (index == 0) *this = Replay();
  if (fault) return;
  Status status = market.apply(statement, milliseconds);
  if (!status.ok()) fault = Fault{index, std::move(status).error()};
}

Result<Market> Replay::finish() && {
  if (fault) return within(fmt::format("entry {}", fault->index), std::move(fault->error));
  return std::move(market);
}

}  // namespace dgx::protocol
