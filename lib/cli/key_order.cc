#include "key_order.h"

#include <algorithm>
#include <array>

namespace dgx::cli {
namespace {

/// Stands for all keys that are not named here, which are told in the order of their names.
constexpr std::string_view kOthers;

/// The keys of statements (dgx-manifest(5)) and of what programs find out, as they are told.
constexpr auto kKeys = std::to_array<std::string_view>(
    {// what it is, and who
     "kind", "name", "source", "model", "account", "defender", "challenger",
     // about what
     "task", "proof", "statement", "verdict", "audits", "game", "turn", "about", "segment", "step", "value",
     "bits", "element", "position", "from", "index", "line", "part", "place",
     // what is said
     "outcome", "draw", "falls", "agrees", "reason", "claim", "words", "at", "scalar", "operation",
     "operands", "result", "claimed", "first_disagreement", "denied", "say", "location", "amount",
     "reference", "payouts",
     // what is bought
     "dataset", "dtype", "shape", "range", "loss", "optimizer", "lr", "schedule", "groups", "freeze",
     "clip_norm", "accumulate", "workers", "ema", "instructions", "threads", "segments", "replayed",
     "miss_probability", "one_segment", "one_percent", "ten_percent", "batch", "steps", "seed", "numerics",
     "checkpoint_every", "price", "estimate", "step_operations", "train", "prove", "verify", "reward", "fee",
     "tax", "treasury", "margin", "escrow", "bonds", "jackpot_burned", "caps",
     // the market's rules
     "policy", "sample_ppm", "miss_ppm", "miss_share_ppm", "audit_ppm", "segment_operations", "store_bytes",
     "margin_ppm", "verifier_fee", "solver_bond", "solver_bond_ppm", "verifier_bond", "verifier_bond_ppm",
     "challenger_bond", "challenger_bond_ppm", "unsafe_bonds", "window_proof_ms", "window_reveal_ms",
     "window_challenge_ms", "window_move_ms", "window_delivery_ms", "split_submitter_ppm",
     "split_verifier_ppm", "split_jackpot_ppm", "jackpot_tax_ppm", "treasury_ppm", "forced_error_ppm",
     kOthers,
     // digests, and what leads to them
     "rows", "row", "states", "start", "end", "initial", "final", "program", "evaluation", "expected",
     "recomputed", "witness", "witnesses", "accepted", "rejected", "after", "previous", "last", "beacon",
     "commitment", "secret", "head", "ledger", "nonce", "lines", "count", "entry", "root", "digest", "path",
     "signer"});

std::size_t place_of(std::string_view key) {
  const auto found = std::find(kKeys.begin(), kKeys.end(), key);
  const auto place = found != kKeys.end() ? found : std::find(kKeys.begin(), kKeys.end(), kOthers);
  return static_cast<std::size_t>(place - kKeys.begin());
}

}  // namespace

std::vector<const json::Output::Object::value_type*> in_told_order(const json::Output::Object& object) {
  std::vector<const json::Output::Object::value_type*> out;
  for (const auto& member : object) out.push_back(&member);
  std::stable_sort(out.begin(), out.end(),
                   [](const auto* a, const auto* b) { return place_of(a->first) < place_of(b->first); });
  return out;
}

}  // namespace dgx::cli
