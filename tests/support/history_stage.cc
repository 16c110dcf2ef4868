#include "history_stage.h"

#include <cstdlib>
#include <string>

#include "dgx/protocol/estimate.h"
#include "statements.h"

namespace dgx::test {
namespace {

manifest::Policy policy_of(MarketKind kind, std::int64_t window_ms) {
  constexpr std::int64_t kLeastSlot = 1'000;
  manifest::Policy out = policy();
  out.window_proof_ms = out.window_reveal_ms = out.window_challenge_ms = out.window_delivery_ms = window_ms;
  out.window_move_ms = window_ms * 2 / 5;
  if (window_ms < out.beacon_slot_ms) {
    out.beacon_slot_ms = kLeastSlot;
    out.beacon_steps = 65'536;
  }
  out.sample_ppm = 500'000;
  out.solver_bond_ppm = 200'000;
  out.verifier_bond_ppm = 100'000;
  out.beacon_source = kind == MarketKind::kNamed ? 0 : 1;
  out.audit_ppm = kind == MarketKind::kAudited || kind == MarketKind::kForced ? 500'000 : 0;
  if (kind == MarketKind::kForced) {
    out.forced_error_ppm = 500'000;
    out.jackpot = 1'000;
    out.jackpot_tax_ppm = 100'000;
  }
  return out;
}

}  // namespace

const crypto::PublicKey& public_key(std::uint8_t who) {
  static const std::vector<crypto::PublicKey> keys = [] {
    std::vector<crypto::PublicKey> out;
    for (std::uint8_t i = 0; i < kAllKeys; ++i) out.push_back(key(i).public_key());
    return out;
  }();
  return keys[who];
}

const Digest& id_of(std::uint8_t who) {
  static const std::vector<Digest> ids = [] {
    std::vector<Digest> out;
    for (std::uint8_t i = 0; i < kAllKeys; ++i) out.push_back(key_id(i));
    return out;
  }();
  return ids[who];
}

Digest secret_of(std::uint8_t who) { return digest("secret of key " + std::to_string(who)); }

Stage::Stage(MarketKind kind, std::int64_t window_ms)
    : scene(small_scene(kSteps, kEvery)),
      ledger(said(manifest::LedgerPolicy{policy_of(kind, window_ms), digest("nonce of the histories")},
                  kOperator)) {
  manifest::Task task = scene.task.body;
  task.policy = ledger.body.policy;
  task.ledger = ledger.id;
  task.price = 100'000'000;
  task.caps.bytes = 1'000;
  const auto estimated =
      protocol::estimate({1'000, task.caps.bytes, kSteps, kEvery, task.price}, task.policy);
  if (!estimated.ok()) std::abort();
  task.estimate = *estimated;
  scene.task = said(task, kSubmitter);
  honest = std::make_unique<TinyParty>(scene);
  const auto all = *protocol::Segments::of(kSteps, kEvery);
  for (std::int64_t i = 0; i < all.count(); ++i) segments.push_back(all[i]);
}

std::vector<Digest> committed(const Stage& stage, TinyParty& party) {
  std::vector<Digest> out{party.state_record(0).digest};
  for (const protocol::Segment& segment : stage.segments)
    out.push_back(party.state_record(segment.end).digest);
  return out;
}

}  // namespace dgx::test
