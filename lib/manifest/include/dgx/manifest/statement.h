#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "dgx/core/json.h"
#include "dgx/manifest/beacon.h"
#include "dgx/manifest/dispute.h"
#include "dgx/manifest/envelope.h"
#include "dgx/manifest/log.h"
#include "dgx/manifest/money.h"
#include "dgx/manifest/opening.h"
#include "dgx/manifest/policy.h"
#include "dgx/manifest/profile.h"
#include "dgx/manifest/proof.h"
#include "dgx/manifest/round.h"
#include "dgx/manifest/subject.h"
#include "dgx/manifest/task.h"
#include "dgx/manifest/verdict.h"

namespace dgx::manifest {

/// The body of any statement. A body does not hold its signer: sealing adds the public key to the predicate.
using Body = std::variant<Task, LedgerPolicy, Profile, BeaconCommitment, Beacon, Assign, Deposit, Withdrawal,
                          Proof, VerdictCommitment, Verdict, Delivery, Receipt, TreeHead, Settlement,
                          Challenge, Move, Ruling, OfferEnd, Opening, Round>;

[[nodiscard]] Kind kind_of(const Body& body);
/// True if JSON claims to be a statement of dgx, of any version.
[[nodiscard]] bool claims_to_be_statement(std::string_view payload);
/// The kind of statement that a payload claims to be; nullopt for what is none of this version's. Nothing is
/// checked.
[[nodiscard]] std::optional<Kind> claimed_kind(std::string_view payload);
/// The task a statement belongs to; nullopt for kinds that name none (task, policy, deposit, withdrawal,
/// receipt, tree head, round).
[[nodiscard]] std::optional<Digest> task_of(const Body& body);

/// A statement whose signature, signer and every field have been checked.
template <class T>
struct Signed {
  T body;
  Digest id;  ///< statement_id of the payload
  crypto::PublicKey signer;
  Digest key_id;         ///< the signer's
  std::string envelope;  ///< its text, without a newline
};

/// Signs a body. kMalformed if a reader would not accept a field, or the payload is too long.
[[nodiscard]] Result<Signed<Body>> seal_any(Body body, const crypto::SecretKey& key);

/// Opens an envelope of any kind, checking that the envelope is strict, the predicate type known, every field
/// valid, the subjects those that follow from the predicate, the bytes canonical, the keyid the hash of the
/// signer's key, and the signature valid. kMalformed with the field or position, kUnauthorised for key and
/// signature. Does not decide whether the signer is trusted: trust.h.
[[nodiscard]] Result<Signed<Body>> open_any(std::string_view envelope_text);
/// open_any() of a text whose signature the caller has checked before: everything but the signature is.
[[nodiscard]] Result<Signed<Body>> open_again(std::string_view envelope_text);

/// The in-toto statement as canonical JSON: the bytes to be signed.
[[nodiscard]] std::string payload_of(const Body& body, const crypto::PublicKey& signer);

/// "KIND statement, expected a KIND".
[[nodiscard]] Error wrong_kind(Kind found, Kind expected);

/// The statement as one of kind T; kMalformed if it is of another kind.
template <class T>
[[nodiscard]] Result<Signed<T>> as(Signed<Body> any) {
  T* body = std::get_if<T>(&any.body);
  if (body == nullptr) return wrong_kind(kind_of(any.body), T::kKind);
  return Signed<T>{std::move(*body), any.id, any.signer, any.key_id, std::move(any.envelope)};
}

/// seal_any() for one kind.
template <class T>
[[nodiscard]] Result<Signed<T>> seal(T body, const crypto::SecretKey& key) {
  DGX_TRY(Signed<Body> any, seal_any(Body(std::move(body)), key));
  return as<T>(std::move(any));
}

/// open_any() for one kind; kMalformed if it is another.
template <class T>
[[nodiscard]] Result<Signed<T>> open_statement(std::string_view envelope_text) {
  DGX_TRY(Signed<Body> any, open_any(envelope_text));
  return as<T>(std::move(any));
}

/// Reads and opens a file (`-`: standard input); errors begin with the path. A file of another kind is called
/// by its kind (file_kind.h), and `expected` is the kind of statement that the caller wants.
[[nodiscard]] Result<Signed<Body>> read_any(const std::string& path, std::string_view expected = "statement");
template <class T>
[[nodiscard]] Result<Signed<T>> read_statement(const std::string& path) {
  DGX_TRY(Signed<Body> any, read_any(path, name_of(T::kKind)));
  auto out = as<T>(std::move(any));
  if (!out.ok()) return within(path, std::move(out).error());
  return out;
}

}  // namespace dgx::manifest
