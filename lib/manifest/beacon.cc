#include "dgx/manifest/beacon.h"

#include "dgx/crypto/sha256.h"
#include "dgx/manifest/fields.h"

namespace dgx::manifest {
namespace {

/// The common fields of an offer and an assign: the files that the signer holds, and how long a segment takes
/// them.
template <class T>
json::Object holding_json(const T& body) {
  json::Object out{
      {"task", body.task.hex()}, {"dataset", body.dataset.hex()}, {"initial", body.initial.hex()}};
  if (body.segment_milliseconds) out.emplace("segment_milliseconds", *body.segment_milliseconds);
  return out;
}

template <class T>
T read_holding(json::Fields& in) {
  T out;
  out.task = read_digest(in, "task");
  out.dataset = read_digest(in, "dataset");
  out.initial = read_digest(in, "initial");
  if (in.has("segment_milliseconds"))
    out.segment_milliseconds = in.integer("segment_milliseconds", 1, kMaxInteger);
  return out;
}

}  // namespace

Digest beacon_commitment(const Digest& secret) {
  return crypto::sha256(as_bytes("dgx-beacon-commit"), secret.view());
}

Digest beacon_value(const Digest& secret, const Digest& proof_id) {
  return crypto::sha256(ByteWriter().text("dgx-beacon").digest(secret).digest(proof_id).bytes());
}

json::Object BeaconCommitment::predicate() const {
  json::Object out = holding_json(*this);
  out.emplace("commitment", commitment.hex());
  if (bond) out.emplace("bond", *bond);
  return out;
}

BeaconCommitment BeaconCommitment::read(json::Fields& in) {
  auto out = read_holding<BeaconCommitment>(in);
  out.commitment = read_digest(in, "commitment");
  if (in.has("bond")) out.bond = in.integer("bond", 1, kMaxInteger);
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
  json::Object out = holding_json(*this);
  if (commitment) out.emplace("commitment", commitment->hex());
  return out;
}

Assign Assign::read(json::Fields& in) {
  auto out = read_holding<Assign>(in);
  out.commitment = read_optional_digest(in, "commitment");
  return out;
}

std::vector<Subject> Assign::subjects() const {
  std::vector<Subject> out{{"task", task}};
  if (commitment) out.push_back({"commitment", *commitment});
  return out;
}

json::Object OfferEnd::predicate() const { return {{"task", task.hex()}, {"commitment", commitment.hex()}}; }

OfferEnd OfferEnd::read(json::Fields& in) {
  OfferEnd out;
  out.task = read_digest(in, "task");
  out.commitment = read_digest(in, "commitment");
  return out;
}

std::vector<Subject> OfferEnd::subjects() const { return {{"task", task}, {"commitment", commitment}}; }

}  // namespace dgx::manifest
