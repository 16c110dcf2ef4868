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
