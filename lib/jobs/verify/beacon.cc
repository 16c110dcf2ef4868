#include "dgx/jobs/beacon.h"

#include <fmt/format.h>

#include <algorithm>

#include "dgx/crypto/key_file.h"
#include "dgx/crypto/random.h"
#include "dgx/jobs/proof_files.h"
#include "dgx/jobs/task_files.h"
#include "dgx/manifest/fields.h"
#include "dgx/protocol/admission.h"
#include "dgx/protocol/payouts.h"
#include "dgx/protocol/verify.h"
#include "settle/read_ledger.h"
#include "verify/forced_rows.h"
#include "verify/reveal.h"

namespace dgx::jobs {
namespace {

constexpr unsigned kSecretMode = 0600;
constexpr std::size_t kDigestLineBytes = 65;  // 64 hex digits and a newline
constexpr std::size_t kMaxReceiptsBytes = std::size_t{64} << 20;

/// Reads 64 hex digits, with or without a newline after them.
Result<Digest> read_digest_line(const std::string& path) {
  DGX_TRY(std::string text, read_file(path, kDigestLineBytes));
  if (text.ends_with('\n')) text.pop_back();
  auto digest = digest_from_hex(text);
  if (!digest.ok()) return within(path, std::move(digest).error());
  return digest;
}

using SignedProof = manifest::Signed<manifest::Proof>;

/// Checks that the ledger in `path` is the one named and has the proof.
Status check_ledger(const LedgerFile& file, const Digest& ledger, const SignedProof& proof) {
  const std::string& path = file.path;
  DGX_TRY(const ledger::Log log, read_ledger(file));
  if (log.id() != ledger)
    return malformed(
        fmt::format("{}: is ledger {}, the task names {}", path, log.id().brief(), ledger.brief()));
  if (log.find(proof.id)) return {};
  return not_allowed(fmt::format("{}: does not have proof {}", path, proof.id.brief()),
                     "log the proof first");
}

/// Looks in the receipts of `path`, one a line, for the operator's receipt of the proof in that ledger; an
/// error if there is none.
Status check_receipt(const std::string& path, const crypto::PublicKey& ledger_operator, const Digest& ledger,
                     const SignedProof& proof) {
  DGX_TRY(const std::string text, read_file(path, kMaxReceiptsBytes));
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const auto receipt = manifest::open_statement<manifest::Receipt>(line);
    if (!receipt.ok()) return within(path, receipt.error());
    if (receipt->body.statement != proof.id) continue;
    if (receipt->signer != ledger_operator)
      return unauthorised(fmt::format("{}: is signed by key {}, the operator is key {}", path,
                                      receipt->key_id.brief(), crypto::key_id(ledger_operator).brief()));
    if (receipt->body.ledger == ledger) return {};
    return malformed(fmt::format("{}: belongs to ledger {}, the task names {}", path,
                                 receipt->body.ledger.brief(), ledger.brief()));
  }
  return malformed(fmt::format("{}: is not a receipt of proof {}", path, proof.id.brief()));
}

/// Checks the evidence that the proof is in the ledger that the task names.
Status check_logged(const RevealBeaconOptions& options, const manifest::Task& task, const SignedProof& proof,
                    const JobContext& context) {
  const LogEvidence& logged = options.logged;
  if (!task.ledger) {
    if (logged.unlogged) return {};
    return usage_error(options.task + ": names no ledger",
                       "--unlogged reveals it anyway, but then it settles nothing");
  }
  if (logged.unlogged)
    return usage_error(
        fmt::format("{}: names ledger {}, which must contain the proof", options.task, task.ledger->brief()));
  if (logged.ledger) return check_ledger(ledger_file(*logged.ledger, context), *task.ledger, proof);
  if (!logged.receipt || !logged.ledger_operator) {
    return usage_error("the proof must be logged before the secret is revealed",
                       "give --receipt R.json with --operator OP.pub.pem, or --ledger L.jsonl");
  }
  DGX_TRY(const crypto::PublicKey key, crypto::read_public_key(*logged.ledger_operator));
  return check_receipt(*logged.receipt, key, *task.ledger, proof);
}

/// Records durably for which proof the secret is revealed; succeeds if this same proof is already recorded.
Status record_reveal(const std::string& path, const Digest& proof) {
  const Status written = write_file(path, proof.hex() + "\n", Clobber::kRefuse, kSecretMode);
  if (written.ok() || !exists(path)) return written;
  DGX_TRY(const Digest before, read_digest_line(path));
  if (before == proof) return {};
  return not_allowed(fmt::format("{}: the secret was revealed for proof {} and is never revealed for another",
                                 path, before.brief()));
}

/// The time of the longest segment, as measured or as given; nullopt if neither.
Result<std::optional<std::int64_t>> segment_milliseconds_of(const CommitBeaconOptions& options,
                                                            const Digest& task, const Digest& signer) {
  if (options.profile) {
    DGX_TRY(const std::int64_t measured, profiled_segment_milliseconds(*options.profile, task, signer));
    return std::optional(measured);
  }
  const std::int64_t given = options.segment_milliseconds.value_or(1);
  if (given < 1 || given > manifest::kMaxInteger)
    return usage_error("--segment-milliseconds must be 1 to 2^53");
  return options.segment_milliseconds;
}

/// The bond that the offer states: in a market with rounds the one given, at least and else the policy's; in
/// others that is not for the offer to say.
Result<std::optional<std::int64_t>> bond_of(const CommitBeaconOptions& options, const manifest::Task& task) {
  if (task.policy.beacon_source == 0) {
    if (!options.bond) return options.bond;
    return usage_error("--bond: the task's market draws no verifiers: each stakes the policy's bond");
  }
  const std::int64_t least = std::max<std::int64_t>(1, protocol::bonds_of(task).verifier);
  const std::int64_t bond = options.bond.value_or(least);
  if (bond >= least && bond <= manifest::kMaxInteger) return std::optional(bond);
  return usage_error(fmt::format("--bond: is {}, must be {} to 2^53", bond, least));
}

}  // namespace

Result<CommitBeaconResult> commit_beacon(const CommitBeaconOptions& options, const JobContext& context) {
  if (options.output == "-")
    return usage_error("-o - is not possible: a commitment's secret is written next to it");
  const std::string secret_path = beside(options.output, ".secret");
  DGX_TRY(Output output, Output::claim(options.output, context.clobber));
  DGX_TRY(Output secret_output, Output::claim(secret_path, context.clobber, kSecretMode));
  DGX_TRY(const auto task, read_task(options.task, context.trust));
  DGX_CHECK(check_admission_of(options.task, task.body));
  DGX_TRY(const crypto::SecretKey key, read_key(options.key));
  DGX_TRY(const auto milliseconds,
          segment_milliseconds_of(options, task.id, crypto::key_id(key.public_key())));
  DGX_CHECK(protocol::check_segment_time(task.body, milliseconds));
  if (options.data) {
    DGX_TRY([[maybe_unused]] const auto data, read_task_dataset(*options.data, task.body, context.threads));
  }
  DGX_TRY(const auto bond, bond_of(options, task.body));
  Digest secret;
  DGX_CHECK(crypto::random_bytes(secret.bytes));
  const manifest::BeaconCommitment body{task.id,
                                        manifest::beacon_commitment(secret),
                                        task.body.dataset.digest,
                                        task.body.initial.digest,
                                        milliseconds,
                                        bond};
  DGX_TRY(const auto sealed, manifest::seal(body, key));
  // The secret first: a commitment that is out cannot be taken back, and costs the bond without its secret.
  DGX_CHECK(secret_output.write(secret.hex() + "\n"));
  crypto::erase(secret.bytes);
  DGX_CHECK(output.write(sealed.envelope + "\n"));
  return CommitBeaconResult{sealed.id, task.id, body.commitment, secret_path};
}

Result<RevealBeaconResult> reveal_beacon(const RevealBeaconOptions& options, const JobContext& context) {
  DGX_TRY(Output output, Output::claim(options.output, context.clobber));
  return reveal_into(output, options, context);
}

Result<RevealBeaconResult> reveal_into(Output& output, const RevealBeaconOptions& options,
                                       const JobContext& context) {
  DGX_TRY(const auto commitment, read_signed<manifest::BeaconCommitment>(options.commitment, std::nullopt));
  DGX_TRY(const auto task, read_task(options.task, context.trust));
  DGX_TRY(const auto proof, read_signed<manifest::Proof>(options.proof, context.trust));
  DGX_TRY(const crypto::SecretKey key, read_key(options.key));
  const bool own = crypto::key_id(key.public_key()) == commitment.key_id;
  if (own && options.due == SecretDue::kNotYet)
    return not_allowed("the secret is not due yet",
                       "whoever else has it now can reveal it, and take a quarter of your bond");
  if (!own && options.due != SecretDue::kNotYet) {
    return unauthorised(options.commitment + ": was signed by key " + commitment.key_id.brief() + ", " +
                        options.key.path + " is key " + crypto::key_id(key.public_key()).brief());
  }
  if (commitment.body.task != task.id) {
    return malformed(options.commitment + ": is for task " + commitment.body.task.brief() + ", not for " +
                     task.id.brief());
  }
  const bool by_rounds = task.body.policy.beacon_source != 0;
  if (by_rounds && options.due == SecretDue::kNotAsked)
    return usage_error(options.task + ": its market draws by rounds, and nobody reveals a beacon");
  if (auto checked = protocol::check_proof(task, proof); !checked.ok())
    return within(options.proof, std::move(checked).error());
  if (!by_rounds) DGX_CHECK(check_logged(options, task.body, proof, context));
  DGX_TRY(const Digest secret, read_secret(options.commitment, commitment.body));
  const manifest::Beacon body{proof.body.task, commitment.id, proof.id, secret,
                              manifest::beacon_value(secret, proof.id)};
  DGX_TRY(auto sealed, manifest::seal(body, key));
  DGX_CHECK(record_reveal(beside(options.commitment, ".revealed"), proof.id));
  const bool logged = !options.logged.unlogged;
  if (!logged) context.progress.warning("the proof is in no ledger: its beacon settles nothing");
  if (options.output != "-") DGX_CHECK(output.write(sealed.envelope + "\n"));
  return RevealBeaconResult{sealed.id, body.task, body.proof, body.value, logged, std::move(sealed.envelope)};
}

}  // namespace dgx::jobs
