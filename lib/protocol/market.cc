#include <fmt/format.h>

#include <algorithm>

#include "dgx/protocol/settlement.h"

namespace dgx::protocol {

bool Market::is_pause(std::int64_t milliseconds) const {
  if (!policy_ || milliseconds - clock_.receipt_now() <= 2 * heartbeat_ms(*policy_)) return false;
  return std::any_of(unsettled_.begin(), unsettled_.end(), [&](const Digest& task) {
    return standing(tasks_.at(task), clock_.now()).deadline_ms.has_value();
  });
}

std::int64_t Market::move_deadline(const Game& game, std::int64_t queued_ms, std::int64_t now) const {
  constexpr std::int64_t kMostWaiting = 63;
  const std::int64_t window = game.dispute().task.body.policy.window_move_ms;
  if (game.decision() || side_of(game.stage()) == Side::kChallenger) return now + window;
  std::int64_t waiting = 0;
  for (const Digest& task : unsettled_) {
    const TaskRecord& record = tasks_.at(task);
    const auto ends = record.games.empty() ? std::vector<std::optional<GameEnd>>{} : ends_of(record, now);
    for (std::size_t i = 0; i < ends.size(); ++i) {
      const Game& other = record.games[i].game;
      const bool awaited = !ends[i] && side_of(other.stage()) == Side::kDefender;
      if (awaited && record.games[i].id() != game.dispute().challenge.id &&
          other.dispute().defender() == game.dispute().defender())
        ++waiting;
    }
  }
  const std::int64_t left = std::max<std::int64_t>(0, kMostWaiting * window - queued_ms);
  return now + window + std::min(waiting * window, left);
}

Status Market::check_pause(const manifest::Signed<manifest::Body>& statement, bool must) {
  const auto* head = std::get_if<manifest::TreeHead>(&statement.body);
  const bool is = head != nullptr && head->pause;
  if (is == must) return {};
  if (is) return malformed("pause: the operator was not away, or nothing waited");
  return usage_error("the ledger was silent for more than two heartbeats while a deadline ran",
                     "if the clock is right, --after-pause records the pause and moves every deadline");
}

Result<Market> Market::replay(const ledger::Log& log) {
  Market out;
  for (std::size_t i = 0; i < log.entries.size(); ++i) {
    Status status = out.apply(log.entries[i].statement, log.entries[i].milliseconds);
    if (!status.ok()) return within(fmt::format("entry {}", i), std::move(status).error());
  }
  return out;
}

std::map<std::string, std::int64_t> Market::balances() const {
  std::map<std::string, std::int64_t> out{{"bonds", 0}, {"escrow", 0}, {"jackpot", 0}, {"treasury", 0}};
  for (const auto& [account, amount] : accounts_) out[account] = amount;
  return out;
}

std::int64_t Market::total() const { return deposited_ - withdrawn_; }

std::vector<manifest::Settlement> Market::due(std::int64_t milliseconds) const {
  std::vector<manifest::Settlement> out;
  for (const Digest& task : unsettled_) {
    const Standing stands = standing(tasks_.at(task), clock_.at(milliseconds));
    if (stands.settlement) out.push_back(*stands.settlement);
  }
  return out;
}

}  // namespace dgx::protocol
