#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dgx/core/json.h"
#include "dgx/manifest/subject.h"

namespace dgx::manifest {

/// The account from which the operator pays the market's own costs.
inline constexpr std::string_view kTreasury = "treasury";

/// A payment into an account, signed by the ledger's operator.
struct Deposit {
  static constexpr Kind kKind = Kind::kDeposit;

  Digest account;           ///< key id
  std::int64_t amount = 0;  ///< at least 1
  std::string reference;    ///< 1 to 64 characters; tells equal deposits apart, since a statement counts once
  Digest ledger;            ///< the only market in which it counts

  [[nodiscard]] json::Object predicate() const;
  [[nodiscard]] static Deposit read(json::Fields& in);
  [[nodiscard]] std::vector<Subject> subjects() const;
};

/// A payment out of an account, signed by its owner or, for the treasury, by the operator.
struct Withdrawal {
  static constexpr Kind kKind = Kind::kWithdrawal;

  std::string account;  ///< key id in hex, or "treasury"
  std::int64_t amount = 0;
  std::string reference;
  Digest ledger;

  [[nodiscard]] json::Object predicate() const;
  [[nodiscard]] static Withdrawal read(json::Fields& in);
  [[nodiscard]] std::vector<Subject> subjects() const;
};

/// States that the final state reached the submitter: signed by the submitter, by the operator, who then
/// fetched it, or by the solver, who then says where in the operator's store it lies, so that nobody can
/// prevent delivery by keeping silent.
struct Delivery {
  static constexpr Kind kKind = Kind::kDelivery;

  Digest task;
  Digest proof;
  Digest final_state;
  std::optional<std::string> location;  ///< present exactly if the solver signs; as in Opening

  [[nodiscard]] json::Object predicate() const;
  [[nodiscard]] static Delivery read(json::Fields& in);
  [[nodiscard]] std::vector<Subject> subjects() const;
};

/// The outcome of a task. The names are written to files and never change.
enum class Reason {
  kAccepted,      ///< every party did its work: reward, fee and tax are paid, the rest is refunded
  kRefuted,       ///< a refutation stands: the solver's bond is split
  kUnverified,    ///< the proof was opened, no verdict came, and the challenge window passed: the solver is
                  ///< paid, the verifier's bond is lost
  kNoAssignment,  ///< nobody took the task: refund
  kNoProof,       ///< the solver gave no proof in time, or did not open it: their bond to the jackpot, refund
  kNoDelivery,    ///< the solver kept the weights: their bond to the jackpot, refund less the verifier's fee
  kConvicted,     ///< the proof fell in a game: the solver's bond is split, whatever the verdict said
  kOverturned,    ///< a refutation fell in a game and the proof did not: the solver is paid
};
[[nodiscard]] std::string_view name_of(Reason reason);

/// "jackpot", "treasury", or a key id in hex.
struct Payout {
  std::string account;
  std::int64_t amount = 0;
  bool operator==(const Payout&) const = default;
};

/// A task's end: the payouts of its escrow and bonds. Signed by the operator, recomputed by everyone.
struct Settlement {
  static constexpr Kind kKind = Kind::kSettlement;

  Digest task;
  Reason reason = Reason::kAccepted;
  std::vector<Payout> payouts;  ///< sorted by account, at most 400

  bool operator==(const Settlement&) const = default;
  [[nodiscard]] json::Object predicate() const;
  [[nodiscard]] static Settlement read(json::Fields& in);
  [[nodiscard]] std::vector<Subject> subjects() const;
};

}  // namespace dgx::manifest
