#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "dgx/core/time_text.h"
#include "dgx/crypto/random.h"
#include "dgx/jobs/key.h"
#include "dgx/manifest/fields.h"
#include "settle/settle_files.h"

namespace dgx::jobs {

Result<std::string> random_word() {
  std::array<std::uint8_t, 8> bytes{};
  DGX_CHECK(crypto::random_bytes(bytes));
  return to_hex(bytes);
}

Result<json::Value> integer_of(const std::string& field, const std::string& text) {
  std::int64_t value = 0;
  const bool is_time = field.ends_with("milliseconds");
  if (const auto duration = parse_duration(text); is_time && duration.ok())
    return json::Value(std::int64_t{std::chrono::milliseconds(*duration).count()});
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range) return usage_error(fmt::format("{} is out of range", text));
  if (error != std::errc{} || end != text.data() + text.size())
    return usage_error(fmt::format("\"{}\" is not an integer", text));
  return json::Value(value);
}

Result<json::Value> account_of(const std::string& text) {
  if (digest_from_hex(text).ok() || text == manifest::kTreasury) return json::Value(text);
  if (!text.ends_with(".pem") && !exists(text))
    return usage_error(fmt::format("\"{}\" is neither a key id nor a key file", text));
  DGX_TRY(const Digest id, id_of_key({text, {}}));
  return json::Value(id.hex());
}

namespace {

/// An account that is a key's: its id, or its file.
Result<Digest> key_account(const std::string& text) {
  DGX_TRY(const json::Value account, account_of(text));
  const auto id = digest_from_hex(*account.as_string());
  if (!id.ok()) return usage_error(fmt::format("\"{}\" is not the account of a key", text));
  return id;
}

Result<std::int64_t> amount_of(const std::string& text) {
  DGX_TRY(const json::Value amount, integer_of("amount", text));
  const std::int64_t value = *amount.as_int();
  if (value < 1 || value > manifest::kMaxInteger)
    return usage_error(fmt::format("{}: an amount is 1 to 2^53", text));
  return value;
}

/// kUsage unless the reference is one that a statement may have.
Status check_reference(const std::optional<std::string>& reference) {
  constexpr std::size_t kMostReference = 64;
  if (!reference || (!reference->empty() && reference->size() <= kMostReference)) return {};
  return usage_error(fmt::format("--reference: give 1 to {} characters", kMostReference));
}

/// All that the account of a withdrawal has; or, if the ledger has a withdrawal from it with the same
/// reference, the amount of that one, so that a call that was cut off can be repeated.
Result<std::int64_t> all_of(const ledger::Log& log, const protocol::Market& market,
                            const manifest::Withdrawal& withdrawal) {
  for (std::size_t i = 0; i < log.entries.size(); ++i) {
    if (log.entries[i].kind != manifest::Kind::kWithdrawal) continue;
    DGX_TRY(const auto statement, log.statement(i));
    const auto& logged = std::get<manifest::Withdrawal>(statement.body);
    if (logged.account == withdrawal.account && logged.reference == withdrawal.reference)
      return logged.amount;
  }
  const auto balances = market.balances();
  const auto found = balances.find(withdrawal.account);
  if (found == balances.end() || found->second == 0)
    return not_allowed(fmt::format("account {} has nothing", withdrawal.account));
  return found->second;
}

/// Gives the amount in `text` to each deposit of `deposits` that has none yet.
Status give_amount(const std::string& text, std::vector<manifest::Deposit>& deposits) {
  DGX_TRY(const std::int64_t value, amount_of(text));
  if (deposits.empty() || deposits.back().amount > 0)
    return usage_error(fmt::format("{}: no account comes before this amount", text));
  for (auto to = deposits.rbegin(); to != deposits.rend() && to->amount == 0; ++to) to->amount = value;
  return {};
}

bool is_number(const std::string& text) {
  const std::size_t sign = text.starts_with('-') ? 1 : 0;
  return text.size() < 64 && text.find_first_not_of("0123456789", sign) == std::string::npos;
}

/// The deposits that the words of deposit() name, in their order and without their ledger. Each has
/// `reference` or, without one, a random word.
Result<std::vector<manifest::Deposit>> deposits_to(const std::vector<std::string>& words,
                                                   const std::optional<std::string>& reference) {
  DGX_CHECK(check_reference(reference));
  std::vector<manifest::Deposit> out;
  for (const std::string& word : words) {
    if (is_number(word)) {
      if (Status given = give_amount(word, out); !given.ok()) return within("--to", std::move(given).error());
      continue;
    }
    auto account = key_account(word);
    if (!account.ok()) return within("--to", std::move(account).error());
    if (std::any_of(out.begin(), out.end(), [&](const auto& one) { return one.account == *account; }))
      return usage_error(fmt::format("--to: {}: this account is named twice", word));
    manifest::Deposit& deposit = out.emplace_back();
    deposit.account = *account;
    DGX_TRY(deposit.reference, reference ? Result(*reference) : random_word());
  }
  if (out.empty() || out.back().amount == 0)
    return usage_error("--to: an amount is missing", "give accounts, and after them what each of them gets");
  return out;
}

}  // namespace

Result<Appended> deposit(const LedgerWriter& options, const std::vector<std::string>& to,
                         const std::optional<std::string>& reference) {
  DGX_TRY(std::vector<manifest::Deposit> deposits, deposits_to(to, reference));
  return append_made(options, [&](const ledger::Log& log, const protocol::Market&) {
    std::vector<Unsealed> out;
    for (manifest::Deposit& deposit : deposits) {
      deposit.ledger = log.id();
      const std::string where = "deposit to " + deposit.account.brief();
      out.push_back({std::move(deposit), where});
    }
    return Result(std::move(out));
  });
}

Result<Appended> withdraw(const LedgerWriter& options, const std::string& amount, const std::string& from,
                          const std::optional<std::string>& reference) {
  DGX_CHECK(check_reference(reference));
  auto account = account_of(from);
  if (!account.ok()) return within("--from", std::move(account).error());
  manifest::Withdrawal made{*account->as_string(), 0, {}, {}};
  DGX_TRY(made.reference, reference ? Result(*reference) : random_word());
  const bool all = amount == "all";
  if (!all) {
    DGX_TRY(made.amount, amount_of(amount));
  }
  return append_made(
      options, [&](const ledger::Log& log, const protocol::Market& market) -> Result<std::vector<Unsealed>> {
        made.ledger = log.id();
        if (all) {
          DGX_TRY(made.amount, all_of(log, market, made));
        }
        const std::string where = "withdrawal from " + from;
        return std::vector<Unsealed>{{std::move(made), where}};
      });
}

}  // namespace dgx::jobs
