#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "dgx/protocol/settlement.h"

/// The rules of payment: a function apply() for each kind of statement, which checks that the ledger may take
/// it and then changes the market (dgx-protocol(7), "RULES OF STATEMENTS"; dgx-money(7), "MONEY").
///
/// Market::apply() calls the overload for the statement's kind, so a kind without a rule does not compile. A
/// rule that is given a task's record alone moves no money and starts no deadline of another task; the record
/// is that of the task which the statement names, and not settled. Those that are given the market lock or
/// pay money, or depend on more than one task.
///
/// A rule checks everything first and changes the state last, so one that returns an error has changed
/// nothing. The order of its checks is part of its contract: the first that fails is the one its signer
/// reads. Errors are kNotAllowed (not now, or not with this balance), kUnauthorised (the wrong signer),
/// kMalformed (contradicts what it refers to) and kUsage (never, by the market's policy).
namespace dgx::protocol {

/// A statement as the rules see it: its signer, and when it is logged.
struct Entry {
  const manifest::Signed<manifest::Body>& statement;
  std::int64_t now;         ///< market time
  std::int64_t receipt_ms;  ///< time of its receipt, which decides its slot
  bool by_operator;         ///< its signer is the ledger's operator

  [[nodiscard]] const Digest& signer() const { return statement.key_id; }
  [[nodiscard]] std::string account() const { return signer().hex(); }
  /// The statement with its body typed: `body` must be the one it has.
  template <class T>
  [[nodiscard]] manifest::Signed<T> with(const T& body) const {
    return {body, statement.id, statement.signer, statement.key_id, statement.envelope};
  }
};

// The ledger and its accounts: rules.cc.
[[nodiscard]] Status apply(MarketState& market, const Entry& entry, const manifest::LedgerPolicy& first);
[[nodiscard]] Status apply(MarketState& market, const Entry& entry, const manifest::Deposit& deposit);
[[nodiscard]] Status apply(MarketState& market, const Entry& entry, const manifest::Withdrawal& withdrawal);
[[nodiscard]] Status apply(MarketState& market, const Entry& entry, const manifest::TreeHead& head);
[[nodiscard]] Status apply(MarketState& market, const Entry& entry, const manifest::Receipt& receipt);

// Public randomness: rules_rounds.cc.
[[nodiscard]] Status apply(MarketState& market, const Entry& entry, const manifest::Round& round);

// A task's beginning, up to the choice of its parties, and its end: rules_task.cc.
[[nodiscard]] Status apply(MarketState& market, const Entry& entry, const manifest::Task& task);
[[nodiscard]] Status apply(MarketState& market, const Entry& entry, const manifest::BeaconCommitment& offer);
[[nodiscard]] Status apply(MarketState& market, const Entry& entry, const manifest::OfferEnd& end);
[[nodiscard]] Status apply(MarketState& market, const Entry& entry, const manifest::Assign& assign);
[[nodiscard]] Status apply(MarketState& market, const Entry& entry, const manifest::Settlement& settlement);
[[nodiscard]] Status apply(TaskRecord& record, const Entry& entry, const manifest::Profile& profile);

// The proof, and what its parties owe after it: rules_proof.cc.
[[nodiscard]] Status apply(MarketState& market, const Entry& entry, const manifest::Proof& proof);
[[nodiscard]] Status apply(MarketState& market, const Entry& entry, const manifest::Beacon& beacon);
[[nodiscard]] Status apply(TaskRecord& record, const Entry& entry, const manifest::Opening& opening);
[[nodiscard]] Status apply(MarketState& market, const Entry& entry,
                           const manifest::VerdictCommitment& hidden);
[[nodiscard]] Status apply(MarketState& market, const Entry& entry, const manifest::Verdict& verdict);
[[nodiscard]] Status apply(TaskRecord& record, const Entry& entry, const manifest::Delivery& delivery);

// Games about proofs and verdicts: rules_games.cc.
[[nodiscard]] Status apply(MarketState& market, const Entry& entry, const manifest::Challenge& challenge);
[[nodiscard]] Status apply(MarketState& market, const Entry& entry, const manifest::Move& turn);
[[nodiscard]] Status apply(TaskRecord& record, const Entry& entry, const manifest::Ruling& ruling);

// Re-checks of a verdict, whose statements are those of verdicts: rules_audits.cc.

/// Takes the commitment of the drawn auditor, or of a volunteer, whose bond it locks.
[[nodiscard]] Status commit_to_audit(MarketState& market, TaskRecord& record, const Entry& entry,
                                     const manifest::VerdictCommitment& hidden);
[[nodiscard]] Status show_audit(MarketState& market, TaskRecord& record, const Entry& entry,
                                const manifest::Verdict& audit);
/// Draws whether the task's verdict is audited, and by whom, and unlocks the bonds of all others.
void draw_audit(MarketState& market, TaskRecord& record, const Entry& entry, const manifest::Round& round);
/// Unlocks the bonds of offers from which nobody can be drawn any more, because time has passed.
void release_undrawn(MarketState& market, std::int64_t now);
/// kMalformed unless a verdict of the policy's draw, or an audit of what was drawn, states its witnesses
/// exactly where verdicts are audited and it accepts, and none where there can be none.
[[nodiscard]] Status check_witnesses(const TaskRecord& record, const manifest::Verdict& verdict);

// Forced errors: rules_forced.cc.

/// Takes the secret of whoever gave the verdict, when it is due from them, or before from anybody else.
[[nodiscard]] Status reveal_secret(MarketState& market, TaskRecord& record, const Entry& entry,
                                   const manifest::Beacon& beacon);
/// Locks the jackpot of a forced error once somebody claims it.
void promise_jackpot(MarketState& market, TaskRecord& record);

// Checks and steps that several rules share: rules.cc.

/// kUnauthorised unless `who`, the task's `role`, signed.
[[nodiscard]] Status check_signer(const Entry& entry, const std::optional<Digest>& who,
                                  std::string_view role);
[[nodiscard]] Status check_operator(const Entry& entry);
/// kMalformed unless `ledger` is this one. Tasks, deposits, withdrawals and heads name the one ledger in
/// which they count; everything else belongs to a task.
[[nodiscard]] Status check_ledger(const MarketState& market, const Digest& ledger);
/// kNotAllowed unless the account has `amount`, which `what` needs.
[[nodiscard]] Status check_balance(const MarketState& market, const std::string& account, std::int64_t amount,
                                   std::string_view what);
/// kNotAllowed unless the task is now in one of these states.
[[nodiscard]] Status check_state(const TaskRecord& record, std::int64_t now,
                                 std::initializer_list<TaskState> allowed);
/// Checks that a statement about the proof `proof` is about the task's: kNotAllowed if it has none
/// yet, else kMalformed.
[[nodiscard]] Status check_about(const TaskRecord& record, const Digest& proof);

/// The record of a task that is logged and not settled, else kNotAllowed.
[[nodiscard]] Result<TaskRecord*> record_of(MarketState& market, const Digest& task);
[[nodiscard]] std::int64_t balance_of(const MarketState& market, const std::string& account);
/// Moves money that `from` is known to have.
void transfer(MarketState& market, const std::string& from, const std::string& to, std::int64_t amount);

/// Unlocks the bonds of all offers but those with these ids, and forgets the offers.
void release_offers(MarketState& market, TaskRecord& record, const std::set<Digest>& kept);

}  // namespace dgx::protocol
