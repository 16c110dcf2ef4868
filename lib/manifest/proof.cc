#include "dgx/manifest/proof.h"

#include <fmt/format.h>

#include "dgx/crypto/sha256.h"
#include "dgx/manifest/entry_opening.h"
#include "dgx/manifest/fields.h"
#include "dgx/manifest/task.h"
#include "dgx/merkle/digests.h"
#include "dgx/program/number_text.h"

namespace dgx::manifest {
namespace {

constexpr std::size_t kStateBytes = 32;

RootReference read_root(json::Fields& in) {
  RootReference out;
  out.count = in.integer("count", 1, kMaxStates);
  out.root = read_digest(in, "root");
  return out;
}

Digest digest_of(float loss) {
  Tensor tensor(DType::kF32, {});
  tensor.as<float>()[0] = loss;
  return merkle::tensor_digest(tensor.view());
}

json::Object loss_json(const OpenedLoss& loss) {
  return {{"entry", entry_json(loss.entry)}, {"value", program::hex_float(loss.value)}};
}

OpenedLoss read_loss(json::Fields& in) {
  OpenedLoss out;
  out.entry = read_object(in, "entry", read_entry);
  out.value = read_float(in, "value");
  return out;
}

/// Checks count, ends and steps against each other: a run that diverged in its first step has one state.
void check_ends(json::Fields& in, const Proof& proof) {
  const std::int64_t least = proof.diverged ? 0 : 2;
  if (proof.steps < least) in.fail("steps", fmt::format("is {}, must be at least {}", proof.steps, least));
  if ((proof.states.count == 1) != (proof.steps == 0))
    in.fail("states", "count: must be 1 if and only if no step is committed");
  if (proof.states.count > 1) return;
  if (proof.final_state != proof.initial) in.fail("final", "is not `initial`, the only state");
  if (states_root({&proof.initial, 1}) != proof.states)
    in.fail("states", "root: does not follow from the only state");
}

}  // namespace

const Digest& diverged_end() {
  static const Digest kEnd = crypto::sha256(as_bytes(std::string_view("dgx-diverged")));
  return kEnd;
}

Result<OpenedLoss> open_loss(std::span<const merkle::NamedDigest> entries, float value) {
  DGX_TRY(auto entry, merkle::open_entry(entries, "loss"));
  if (entry.tensor != digest_of(value)) return malformed("the entry `loss` holds another number");
  return OpenedLoss{value, std::move(entry)};
}

Status check_loss(const OpenedLoss& loss, const Digest& state) {
  if (loss.entry.name != "loss") return malformed("entry: name: is not \"loss\"");
  if (loss.entry.tensor != digest_of(loss.value))
    return malformed("value: does not match the entry's digest");
  return merkle::check_opening(loss.entry, state);
}

json::Object Proof::predicate() const {
  return {{"task", task.hex()},
          {"states", json::Object{{"count", states.count}, {"root", states.root.hex()}}},
          {"initial", initial.hex()},
          {"final", final_state.hex()},
          {"steps", steps},
          {"diverged", diverged},
          {"loss", loss_json(loss)}};
}

Proof Proof::read(json::Fields& in) {
  Proof out;
  out.task = read_digest(in, "task");
  out.states = read_object(in, "states", read_root);
  out.initial = read_digest(in, "initial");
  out.final_state = read_digest(in, "final");
  out.steps = in.integer("steps", 0, program::kMostTaskSteps);
  out.diverged = in.boolean("diverged");
  out.loss = read_object(in, "loss", read_loss);
  if (const Status opened = check_loss(out.loss, out.final_state); !opened.ok())
    in.fail("loss", opened.error().message);
  check_ends(in, out);
  if (in.has("parent")) in.fail("parent", "proofs that continue another are not in this version");
  return out;
}

std::vector<Subject> Proof::subjects() const {
  return {{"states", states.root}, {"initial", initial}, {"final", final_state}};
}

RootReference states_root(std::span<const Digest> states) {
  merkle::TreeBuilder tree;
  for (const Digest& state : states) tree.add_hash(merkle::committed_state_leaf(state));
  return {tree.root(), static_cast<std::int64_t>(states.size())};
}

std::string encode_states(std::span<const Digest> states) {
  std::string out;
  out.reserve(states.size() * kStateBytes);
  for (const Digest& state : states) out += as_text(state.view());
  return out;
}

Result<std::vector<Digest>> decode_states(std::string_view bytes, const Proof& proof, Ends ends) {
  const auto count = static_cast<std::size_t>(proof.states.count);
  if (bytes.size() != count * kStateBytes) {
    return malformed(fmt::format("states: {} bytes, the proof has {} states of {} bytes", bytes.size(), count,
                                 kStateBytes));
  }
  std::vector<Digest> out;
  out.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    DGX_TRY(const Digest state, digest_from_bytes(as_bytes(bytes.substr(i * kStateBytes, kStateBytes))));
    out.push_back(state);
  }
  if (states_root(out) != proof.states) return malformed("states: their root is not the proof's");
  if (ends == Ends::kUnchecked) return out;
  if (out.front() != proof.initial) return malformed("states: 0: is not the proof's initial state");
  if (out.back() != proof.final_state) {
    return malformed(fmt::format("states: {}: is not the proof's final state", count - 1));
  }
  return out;
}

}  // namespace dgx::manifest
