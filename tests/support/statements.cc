#include "statements.h"

#include <algorithm>

#include "dgx/crypto/sha256.h"

namespace dgx::test {

using namespace manifest;

crypto::SecretKey key(std::uint8_t seed) {
  crypto::Seed bytes;
  bytes.fill(seed);
  return crypto::SecretKey::from_seed(bytes);
}

Digest key_id(std::uint8_t seed) { return crypto::key_id(key(seed).public_key()); }

Digest digest(std::string_view word) { return crypto::sha256(as_bytes(word)); }

Policy policy() {
  Policy out = standard_policy();
  out.sample_ppm = 300'000;
  out.solver_bond = 1'001;
  out.verifier_bond = 501;
  out.challenger_bond = 301;
  out.solver_bond_ppm = 0;
  out.verifier_bond_ppm = 0;
  out.verifier_fee = 7;
  out.treasury_ppm = 1'000;
  out.window_proof_ms = 1'000;
  out.window_reveal_ms = 1'000;
  out.window_challenge_ms = 1'000;
  out.window_delivery_ms = 1'000;
  out.window_move_ms = 400;
  return out;
}

LedgerPolicy ledger_policy() { return {policy(), digest("nonce of the ledger")}; }

Digest ledger_id() {
  static const Digest id = seal(ledger_policy(), key(1))->id;
  return id;
}

Task task() {
  Task out;
  out.program = {digest("program"), 40};
  out.evaluation = {digest("evaluation"), 12};
  out.initial = {digest("initial"), InitialSource::kSeed};
  out.dataset = {digest("dataset"), 1000, {{"x", {DType::kU8, {28, 28}}}, {"y", {DType::kI64, {}}}}};
  out.model = "mlp:784-256-128-10";
  out.optimizer.learning_rate = 0.1;
  out.optimizer.momentum = 0.9;
  out.batch = 128;
  out.steps = 100;
  out.seed = 0xfedcba9876543210;
  out.checkpoint_every = 10;
  out.policy = policy();
  out.price = 1'000'000;
  // In base units: reward 1000 · 100 · 10^6 / 10^9 + 11 · 4096 · 8 · 10^6 / 10^9 = 460; replay 30; fee 37.
  out.estimate = {1'000, 100'000, 360'448, 30'000, 460, 37, 9, 0, 49, 555};
  out.caps = {100, 4'096, 60'000};
  out.ledger = ledger_id();
  return out;
}

Challenge challenge() {
  const VerdictRow row{3,     digest("expected"), digest("recomputed"),
                       false, RowReason::kDigest, digest("witness")};
  return {digest("task"),
          digest("proof"),
          digest("verdict"),
          About::kSegment,
          3,
          {digest("start"), {digest("node 0"), digest("node 1")}},
          CommittedState{digest("expected"), {digest("node 2"), digest("node 1")}},
          OpenedRow{1, {digest("node 3")}, row},
          std::nullopt};
}

Ruling ruling() {
  Ruling out{digest("task"),
             digest("game"),
             digest("proof"),
             key_id(1),
             key_id(2),
             17,
             digest("last"),
             true,
             RulingReason::kClaim,
             manifest::Claim::kOperation,
             {3, 31, 40, 7, 2'100},
             std::nullopt,
             "lane 20 is not what follows"};
  out.scalar = JudgedScalar{
      4,           "add", "sum lane", {{"0x3f800000", "running result"}, {"0x40000000", "t2"}}, "0x40400001",
      "0x40400000"};
  return out;
}

manifest::OpenedLoss loss_in(const State& state) {
  std::vector<merkle::NamedDigest> entries;
  for (const Entry& entry : state)
    entries.push_back({entry.name, merkle::tensor_digest(entry.tensor.view())});
  return *manifest::open_loss(entries, find_entry(state, "loss")->tensor.as<float>()[0]);
}

Ending ending(std::string_view word, float loss) {
  State state;
  state.push_back({"loss", Tensor(DType::kF32, {})});
  state.push_back({"model/" + std::string(word), Tensor(DType::kF32, {})});
  state[0].tensor.as<float>()[0] = loss;
  return {merkle::state_digests(state)->state, loss_in(state)};
}

void say_an_end(manifest::Proof& proof) {
  if (manifest::check_loss(proof.loss, proof.final_state).ok()) return;
  const Ending end = ending("another");
  proof.final_state = end.state;
  proof.loss = end.loss;
}

manifest::Round round() {
  DelayChain chain{(std::int64_t{1} << 20) + 5, {digest("checkpoint"), digest("end")}};
  const Digest value = round_value(chain);
  return {digest("ledger"), 28'300'000, {digest("root"), 12}, std::move(chain), value};
}

manifest::Round pulse() {
  DrandPulse pulse{1'732'252, Bytes(kPulseBytes, 0x91)};
  const Digest value = round_value(pulse);
  return {digest("ledger"), 28'300'000, {digest("root"), 12}, std::move(pulse), value};
}

std::vector<Body> bodies() {
  Profile profile{digest("task"), {{"avx512", 2, 3, 30, 0, 1'300'000}, {"scalar", 1, 3, 30, 0, 9'000'000}},
                  0.75,           1'000'000'007,
                  4'096,          12};
  const Digest secret = digest("secret");
  const Digest proof = digest("proof");
  VerdictRow row{3, digest("expected"), digest("recomputed"), false, RowReason::kDigest, digest("witness")};
  Verdict verdict{
      digest("task"),      proof, digest("beacon"), Draw::kPolicy,         Outcome::kRefuted, 10, 3,
      {digest("rows"), 3}, row,   30'000,           {"0.7", "0.7", "0.7"}, digest("nonce")};
  std::vector<Payout> payouts{{key_id(1).hex(), 10}, {key_id(2).hex(), 20}, {"jackpot", 30}};
  std::sort(payouts.begin(), payouts.end(),
            [](const Payout& a, const Payout& b) { return a.account < b.account; });
  return {
      task(),
      ledger_policy(),
      profile,
      BeaconCommitment{digest("task"), beacon_commitment(secret), digest("dataset"), digest("initial"), 12},
      Beacon{digest("task"), digest("commitment"), proof, secret, beacon_value(secret, proof)},
      Assign{digest("task"), digest("commitment"), digest("dataset"), digest("initial"), 34},
      Deposit{key_id(1), 1'000'000, "payment 1", digest("ledger")},
      Withdrawal{key_id(1).hex(), 17, "payment 2", digest("ledger")},
      Proof{digest("task"),
            {digest("states"), 11},
            digest("initial"),
            ending("final").state,
            100,
            ending("final").loss},
      VerdictCommitment{digest("task"), proof, digest("verdict")},
      verdict,
      Delivery{digest("task"), proof, digest("final"), "run/final.h5"},
      Receipt{digest("ledger"), digest("statement"), 4, 1'700'000'000'000, {digest("root"), 5}},
      TreeHead{digest("ledger"), {digest("root"), 5}, 1'700'000'000'000, false},
      Settlement{digest("task"), Reason::kRefuted, payouts},
      challenge(),
      Move{digest("task"), digest("game"), 2, digest("previous"), {{"kind", "name"}, {"index", 3}}},
      ruling(),
      OfferEnd{digest("task"), digest("commitment")},
      Opening{digest("task"), proof, digest("beacon"), "task-1/opening"},
      round()};
}

}  // namespace dgx::test
