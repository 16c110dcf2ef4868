#include "rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "dgx/manifest/fields.h"

namespace dgx::protocol {

Status check_signer(const Entry& entry, const std::optional<Digest>& who, std::string_view role) {
  if (who && entry.signer() == *who) return {};
  return unauthorised(fmt::format("signed by {}, not by the task's {}", entry.signer().brief(), role));
}

Status check_operator(const Entry& entry) {
  if (entry.by_operator) return {};
  return unauthorised(fmt::format("signed by {}, not by the ledger's operator", entry.signer().brief()));
}

Status check_ledger(const MarketState& market, const Digest& ledger) {
  if (ledger == market.ledger) return {};
  return malformed(fmt::format("ledger: names {}, this one is {}", ledger.brief(), market.ledger.brief()));
}

Status check_balance(const MarketState& market, const std::string& account, std::int64_t amount,
                     std::string_view what) {
  const std::int64_t balance = balance_of(market, account);
  if (balance >= amount) return {};
  return not_allowed(
      fmt::format("account {} has {}, {} needs {}", account.substr(0, 12), balance, what, amount),
      "log a deposit first");
}

Status check_state(const TaskRecord& record, std::int64_t now, std::initializer_list<TaskState> allowed) {
  const TaskState state = standing(record, now).state;
  if (std::find(allowed.begin(), allowed.end(), state) != allowed.end()) return {};
  return not_allowed(
      fmt::format("task {} is {}", record.task.id.brief(), name_of(state)),
      state == TaskState::kDue ? "its deadline has passed; settle it with dgx-settle run" : "");
}

Status check_about(const TaskRecord& record, const Digest& proof) {
  if (!record.proof) return not_allowed(fmt::format("task {} has no proof yet", record.task.id.brief()));
  if (record.proof->id == proof) return {};
  return malformed(
      fmt::format("is about proof {}, the task's is {}", proof.brief(), record.proof->id.brief()));
}

Result<TaskRecord*> record_of(MarketState& market, const Digest& task) {
  const auto found = market.tasks.find(task);
  if (found == market.tasks.end())
    return not_allowed(fmt::format("task {} is not in the ledger", task.brief()));
  if (found->second.settlement) return not_allowed(fmt::format("task {} is settled", task.brief()));
  return &found->second;
}

std::int64_t balance_of(const MarketState& market, const std::string& account) {
  const auto found = market.accounts.find(account);
  return found == market.accounts.end() ? 0 : found->second;
}

void transfer(MarketState& market, const std::string& from, const std::string& to, std::int64_t amount) {
  market.accounts[from] -= amount;
  market.accounts[to] += amount;
}

void release_offers(MarketState& market, TaskRecord& record, const std::set<Digest>& kept) {
  std::erase_if(record.offers, [&](const auto& offer) {
    if (kept.contains(offer.first)) return false;
    transfer(market, "bonds", offer.second.statement.key_id.hex(), offer.second.bond);
    return true;
  });
}

Status apply(MarketState& market, const Entry& entry, const manifest::LedgerPolicy& first) {
  if (market.policy) return not_allowed("the ledger already has its policy");
  market.policy = first.policy;
  market.operator_id = entry.signer();
  market.ledger = entry.statement.id;
  return {};
}

Status apply(MarketState& market, const Entry& entry, const manifest::Deposit& deposit) {
  DGX_CHECK(check_operator(entry));
  DGX_CHECK(check_ledger(market, deposit.ledger));
  // The sum of all money stays an exact JSON number.
  if (deposit.amount > manifest::kMaxInteger - market.deposited) return not_allowed("deposits exceed 2^53");
  market.deposited += deposit.amount;
  market.accounts[deposit.account.hex()] += deposit.amount;
  return {};
}

Status apply(MarketState& market, const Entry& entry, const manifest::Withdrawal& withdrawal) {
  const bool owns =
      withdrawal.account == manifest::kTreasury ? entry.by_operator : entry.account() == withdrawal.account;
  if (!owns)
    return unauthorised(
        "a withdrawal must be signed by the account's owner, from the treasury by the operator");
  DGX_CHECK(check_ledger(market, withdrawal.ledger));
  DGX_CHECK(check_balance(market, withdrawal.account, withdrawal.amount, "the withdrawal"));
  DGX_CHECK(check_least(withdrawal, *market.policy, balance_of(market, withdrawal.account)));
  market.accounts[withdrawal.account] -= withdrawal.amount;
  market.withdrawn += withdrawal.amount;
  return {};
}

Status apply(MarketState& market, const Entry& entry, const manifest::TreeHead& head) {
  DGX_CHECK(check_operator(entry));
  return check_ledger(market, head.ledger);
}

Status apply(MarketState&, const Entry&, const manifest::Receipt&) {
  return malformed("a receipt is not an entry", "receipts are kept next to the ledger");
}

}  // namespace dgx::protocol
