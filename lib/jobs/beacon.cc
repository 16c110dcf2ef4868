#include "dgx/jobs/beacon.h"

#include "dgx/crypto/random.h"
#include "dgx/jobs/proof_files.h"
#include "dgx/jobs/task_files.h"

namespace dgx::jobs {
namespace {

constexpr unsigned kSecretMode = 0600;
constexpr std::size_t kSecretBytes = 65;  // 64 hex digits and a newline

Result<Digest> read_secret(const std::string& path, const manifest::BeaconCommitment& commitment) {
  DGX_TRY(std::string text, read_file(path, kSecretBytes));
  if (text.ends_with('\n')) text.pop_back();
  auto secret = digest_from_hex(text);
  if (!secret.ok()) return within(path, std::move(secret).error());
  if (manifest::beacon_commitment(*secret) == commitment.commitment) return secret;
  return malformed(path + ": is not the secret that was committed to");
}

}  // namespace

Result<CommitBeaconResult> commit_beacon(const CommitBeaconOptions& options, const JobContext& context) {
  if (options.output == "-")
    return usage_error("-o - is not possible: a commitment keeps its secret beside it");
  DGX_CHECK(refuse_existing(options.output, context.clobber));
  DGX_TRY(const auto task, read_task(options.task, context.trust));
  DGX_TRY(const crypto::SecretKey key, read_key(options.key));
  if (options.data) {
    DGX_TRY([[maybe_unused]] const auto data, open_dataset(*options.data, task.body));
  }
  Digest secret;
  DGX_CHECK(crypto::random_bytes(secret.bytes));
  const manifest::BeaconCommitment body{task.id, manifest::beacon_commitment(secret),
                                        task.body.dataset.digest, task.body.initial.digest};
  DGX_TRY(const auto sealed, manifest::seal(body, key));
  const std::string secret_path = beside(options.output, ".secret");
  DGX_CHECK(write_file(secret_path, secret.hex() + "\n", context.clobber, kSecretMode));
  crypto::erase(secret.bytes);
  DGX_CHECK(write_file(options.output, sealed.envelope + "\n", context.clobber));
  return CommitBeaconResult{sealed.id, task.id, body.commitment, secret_path};
}

Result<RevealBeaconResult> reveal_beacon(const RevealBeaconOptions& options, const JobContext& context) {
  DGX_CHECK(refuse_existing(options.output, context.clobber));
  DGX_TRY(const auto commitment, read_signed<manifest::BeaconCommitment>(options.commitment, std::nullopt));
  DGX_TRY(const auto proof, read_signed<manifest::Proof>(options.proof, context.trust));
  DGX_TRY(const crypto::SecretKey key, read_key(options.key));
  if (crypto::key_id(key.public_key()) != commitment.key_id) {
    return unauthorised(options.commitment + ": was signed by key " + commitment.key_id.brief() + ", " +
                        options.key.path + " is key " + crypto::key_id(key.public_key()).brief());
  }
  if (proof.body.task != commitment.body.task) {
    return malformed(options.proof + ": is of task " + proof.body.task.brief() + ", the commitment is for " +
                     commitment.body.task.brief());
  }
  DGX_TRY(const Digest secret, read_secret(beside(options.commitment, ".secret"), commitment.body));
  const manifest::Beacon body{proof.body.task, commitment.id, proof.id, secret,
                              manifest::beacon_value(secret, proof.id)};
  DGX_TRY(auto sealed, manifest::seal(body, key));
  if (options.output != "-") DGX_CHECK(write_file(options.output, sealed.envelope + "\n", context.clobber));
  return RevealBeaconResult{sealed.id, body.task, body.proof, body.value, std::move(sealed.envelope)};
}

}  // namespace dgx::jobs
