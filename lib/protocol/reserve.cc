// The room that a ledger keeps for what is open: dgx-ledger(5), "LIMITS", has the numbers and says where they
// come from.

#include <algorithm>

#include "dgx/ledger/ledger.h"
#include "dgx/protocol/forced.h"
#include "dgx/protocol/settlement.h"

namespace dgx::protocol {
namespace {

using manifest::Kind;

constexpr std::size_t kKiB = 1024;
/// The room for a withdrawal of all that an account has.
constexpr std::size_t kAccountBytes = 2 * kKiB;
constexpr std::size_t kHeadBytes = 4'096 * ledger::kMaxReceiptBytes;
constexpr std::size_t kSettlementBytes = 16 * kKiB;
constexpr std::size_t kStatementBytes = 8 * kKiB;
/// Statements of an assigned task: proof, beacon, opening, commitment, verdict, delivery, and one more that
/// may come.
constexpr std::size_t kStatements = 7;
/// The room for a challenge, for a claim with its evidence, and for the move that convicts its signer.
constexpr std::size_t kLongMoveBytes = 88 * kKiB;
static_assert(kLongMoveBytes > manifest::kMaxMoveBytes / 3 * 4 + kKiB);
constexpr std::size_t kMoveBytes = 32 * kKiB;
/// The room for a round with all the checkpoints that a delay may have.
constexpr std::size_t kRoundBytes = 64 * kKiB;
static_assert(kRoundBytes > (manifest::kMostCheckpoints * 32 / 3 * 4 + 2 * kKiB) / 3 * 4);
constexpr std::size_t kGameBytes = 46 * kMoveBytes + 3 * kLongMoveBytes;
/// An audit, or a verdict that states its witnesses, and more payments of a settlement.
constexpr std::size_t kWitnessedBytes = 72 * kKiB;
static_assert(kWitnessedBytes >
              ((manifest::kMostWitnesses * 32 / 3 * 4 + manifest::kMostWitnesses * 8) / 3 * 4) + 4 * kKiB);
constexpr std::size_t kMorePayouts = 48 * kKiB;
/// More for an assigned task whose verdict may be audited: the verdict's witnesses, the round that draws the
/// auditor, and the auditor's commitment and audit.
constexpr std::size_t kAuditedBytes =
    kMorePayouts + kWitnessedBytes + kRoundBytes + kStatementBytes + kWitnessedBytes;
constexpr std::size_t kPostedBytes = kSettlementBytes + kAccountBytes;
constexpr std::size_t kAssignedBytes = kPostedBytes + kStatements * kStatementBytes + 2 * kAccountBytes;
constexpr std::size_t kOwnGameBytes = kLongMoveBytes + kGameBytes;

/// A game for which room is always kept, until its challenger has begun it: about one of these statements. An
/// audit is that of the drawn auditor.
struct OwnGame {
  Digest challenger;
  std::vector<Challenged> about;

  [[nodiscard]] bool is_about(Challenged statement) const {
    return std::find(about.begin(), about.end(), statement) != about.end();
  }
};

/// True if an auditor of the task's verdict was drawn, or may still be.
bool may_be_audited(const TaskRecord& record) {
  if (record.task.body.policy.audit_ppm == 0) return false;
  if (record.audit) return record.audit->auditor.has_value();
  return !record.verdict || is_rechecked(record);
}

/// True if a volunteer has objected in an audit, or may still do.
bool may_object(const TaskRecord& record, const Recheck& one) {
  if (is_auditor(record, one.who)) return false;
  return !one.audit || one.audit->body.outcome == manifest::Outcome::kRefuted ||
         !one.audit->body.denied.empty();
}

/// A bad proof hurts the submitter, a bad verdict the solver, an auditor's bad refutation solver and
/// verifier; and whoever has objected in an audit has to win a game.
std::vector<OwnGame> own_games(const TaskRecord& record) {
  std::vector<OwnGame> out{{record.task.key_id, {Challenged::kProof}},
                           {*record.solver, {Challenged::kVerdict}}};
  if (!rechecks_verdicts(record.task.body.policy)) return out;
  if (may_be_audited(record)) {
    const Digest auditor = record.audit ? record.audit->auditor->drawn.verifier : Digest{};
    out.push_back({*record.solver, {Challenged::kAudit}});
    out.push_back({record.verifier.value_or(Digest{}), {Challenged::kAudit}});
    out.push_back({auditor, {Challenged::kVerdict}});
  }
  for (const Recheck& one : record.rechecks) {
    if (may_object(record, one)) out.push_back({one.who, {Challenged::kProof, Challenged::kVerdict}});
  }
  return out;
}

bool was_played(const TaskRecord& record, const OwnGame& own) {
  return std::any_of(record.games.begin(), record.games.end(), [&](const GameRecord& game) {
    const Dispute& dispute = game.game.dispute();
    const bool counts = game.challenged() != Challenged::kAudit || is_auditor(record, dispute.defender());
    return counts && own.is_about(game.challenged()) && dispute.challenger() == own.challenger;
  });
}

/// The room for a volunteer's audit and account, besides that for a game of their own.
constexpr std::size_t kVolunteerBytes = kAccountBytes + kWitnessedBytes;

std::size_t volunteers_of(const TaskRecord& record) {
  return static_cast<std::size_t>(
      std::count_if(record.rechecks.begin(), record.rechecks.end(),
                    [&](const Recheck& one) { return !is_auditor(record, one.who); }));
}

std::size_t reserved_for(const TaskRecord& record) {
  if (!record.solver) return kPostedBytes + record.offers.size() * kAccountBytes;
  std::size_t out = kAssignedBytes;
  // The bonds of those who may be drawn are still locked.
  if (record.task.body.policy.beacon_source != 0) out += kRoundBytes + record.offers.size() * kAccountBytes;
  if (rechecks_verdicts(record.task.body.policy))
    out += kAuditedBytes + volunteers_of(record) * kVolunteerBytes;
  // The account of whoever reveals a secret before it is due.
  if (forces_errors(record.task.body.policy)) out += kAccountBytes;
  for (const OwnGame& own : own_games(record)) out += was_played(record, own) ? 0 : kOwnGameBytes;
  for (const GameRecord& game : record.games) out += kAccountBytes + (game.game.decision() ? 0 : kGameBytes);
  return out;
}

bool is_own_game(const TaskRecord& record, const manifest::Challenge& challenge, const Digest& signer) {
  if (!record.solver) return false;
  const auto* const named = challenge.verdict ? verdict_of(record, *challenge.verdict) : nullptr;
  const bool of_audit = named != nullptr && named->body.audits;
  if (of_audit && !is_auditor(record, named->key_id)) return false;
  const Challenged statement = !challenge.verdict ? Challenged::kProof
                               : of_audit         ? Challenged::kAudit
                                                  : Challenged::kVerdict;
  const auto all = own_games(record);
  return std::any_of(all.begin(), all.end(), [&](const OwnGame& own) {
    return own.challenger == signer && own.is_about(statement) && !was_played(record, own);
  });
}

}  // namespace

std::size_t Market::reserved_bytes() const {
  const auto accounts =
      std::count_if(state_.accounts.begin(), state_.accounts.end(), [](const auto& account) {
        const bool has_owner =
            account.first != "escrow" && account.first != "bonds" && account.first != "jackpot";
        return has_owner && account.second > 0;
      });
  std::size_t out = kHeadBytes + static_cast<std::size_t>(accounts) * kAccountBytes;
  for (const Digest& task : state_.unsettled) out += reserved_for(state_.tasks.at(task));
  return out;
}

std::optional<std::size_t> Market::reserve_of(const manifest::Signed<manifest::Body>& statement) const {
  switch (kind_of(statement.body)) {
    case Kind::kProof:
    case Kind::kBeacon:
    case Kind::kOpening:
    case Kind::kVerdict:
    case Kind::kDelivery:
    case Kind::kSettlement:
    case Kind::kMove:
    case Kind::kRound:
    case Kind::kTreeHead: return std::nullopt;
    case Kind::kTask: return kPostedBytes;
    case Kind::kBeaconCommitment:
    case Kind::kDeposit: return kAccountBytes;
    case Kind::kAssign:
      return kAssignedBytes - kPostedBytes + 2 * kOwnGameBytes +
             (state_.policy && state_.policy->beacon_source != 0 ? kRoundBytes : 0) +
             (state_.policy && rechecks_verdicts(*state_.policy) ? kAuditedBytes : 0) +
             (state_.policy && forces_errors(*state_.policy) ? kAccountBytes : 0) +
             (state_.policy && state_.policy->audit_ppm != 0 ? 3 * kOwnGameBytes : 0);
    case Kind::kVerdictCommitment: {
      const auto& commitment = std::get<manifest::VerdictCommitment>(statement.body);
      const auto task = state_.tasks.find(commitment.task);
      const bool volunteers =
          commitment.audits && task != state_.tasks.end() && !is_auditor(task->second, statement.key_id);
      return volunteers ? std::optional(kVolunteerBytes + kOwnGameBytes) : std::nullopt;
    }
    case Kind::kWithdrawal: {
      const auto& withdrawal = std::get<manifest::Withdrawal>(statement.body);
      const auto account = state_.accounts.find(withdrawal.account);
      const bool all = account != state_.accounts.end() && account->second == withdrawal.amount;
      return all ? std::nullopt : std::optional<std::size_t>(0);
    }
    case Kind::kChallenge: {
      const auto& challenge = std::get<manifest::Challenge>(statement.body);
      const auto task = state_.tasks.find(challenge.task);
      const bool own = task != state_.tasks.end() && is_own_game(task->second, challenge, statement.key_id);
      return own ? std::nullopt : std::optional(kAccountBytes + kGameBytes);
    }
    default: return 0;
  }
}

}  // namespace dgx::protocol
