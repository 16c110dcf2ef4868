#include "dgx/manifest/beacon.h"

#include "dgx/crypto/sha256.h"
#include "dgx/manifest/fields.h"

namespace dgx::manifest {
namespace {

std::optional<std::int64_t> read_segment_milliseconds(json::Fields& in) {
  if (!in.has("segment_milliseconds")) return std::nullopt;
  return in.integer("segment_milliseconds", 1, kMaxInteger);
}

}  // namespace

Digest beacon_commitment(const Digest& secret) {
  return crypto::sha256(as_bytes("dgx-beacon-commit"), secret.view());
}

Digest beacon_value(const Digest& secret, const Digest& proof_id) {
  return crypto::sha256(ByteWriter().text("dgx-beacon").digest(secret).digest(proof_id).bytes());
}

json::Object BeaconCommitment::predicate() const {
  json::Object out{{"task", task.hex()},
                   {"commitment", commitment.hex()},
                   {"dataset", dataset.hex()},
                   {"initial", initial.hex()}};
  if (segment_milliseconds) out.emplace("segment_milliseconds", *segment_milliseconds);
  return out;
}

BeaconCommitment BeaconCommitment::read(json::Fields& in) {
  BeaconCommitment out;
  out.task = read_digest(in, "task");
  out.commitment = read_digest(in, "commitment");
  out.dataset = read_digest(in, "dataset");
  out.initial = read_digest(in, "initial");
  out.segment_milliseconds = read_segment_milliseconds(in);
  return out;
}

std::vector<Subject> BeaconCommitment::subjects() const {
  return {{"task", task}, {"commitment", commitment}};
}

json::Object Beacon::predicate() const {
  return {{"task", task.hex()},
          {"commitment", commitment.hex()},
          {"proof", proof.hex()},
          {"secret", secret.hex()},
          {"value", value.hex()}};
}

Beacon Beacon::read(json::Fields& in) {
  Beacon out;
  out.task = read_digest(in, "task");
  out.commitment = read_digest(in, "commitment");
  out.proof = read_digest(in, "proof");
  out.secret = read_digest(in, "secret");
  out.value = read_digest(in, "value");
  if (out.value != beacon_value(out.secret, out.proof))
    in.fail("value", "does not follow from secret and proof");
  return out;
}

std::vector<Subject> Beacon::subjects() const { return {{"proof", proof}, {"commitment", commitment}}; }

json::Object Assign::predicate() const {
  json::Object out{{"task", task.hex()},
                   {"commitment", commitment.hex()},
                   {"dataset", dataset.hex()},
                   {"initial", initial.hex()}};
  if (segment_milliseconds) out.emplace("segment_milliseconds", *segment_milliseconds);
  return out;
}

Assign Assign::read(json::Fields& in) {
  Assign out;
  out.task = read_digest(in, "task");
  out.commitment = read_digest(in, "commitment");
  out.dataset = read_digest(in, "dataset");
  out.initial = read_digest(in, "initial");
  out.segment_milliseconds = read_segment_milliseconds(in);
  return out;
}

std::vector<Subject> Assign::subjects() const { return {{"task", task}, {"commitment", commitment}}; }

json::Object OfferEnd::predicate() const { return {{"task", task.hex()}, {"commitment", commitment.hex()}}; }

OfferEnd OfferEnd::read(json::Fields& in) {
  OfferEnd out;
  out.task = read_digest(in, "task");
  out.commitment = read_digest(in, "commitment");
  return out;
}

std::vector<Subject> OfferEnd::subjects() const { return {{"task", task}, {"commitment", commitment}}; }

}  // namespace dgx::manifest
