#include "disputes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "dgx/merkle/digests.h"
#include "dgx/merkle/tree.h"
#include "dgx/protocol/draw.h"
#include "dgx/protocol/opened_tree.h"
#include "dgx/protocol/segments.h"
#include "statements.h"

namespace dgx::test {

using namespace manifest;
using protocol::Game;
using protocol::Side;

namespace {

/// Keys are derived once: deriving one costs as much as a small game.
const crypto::SecretKey& kept_key(std::uint8_t seed) {
  static const std::vector<crypto::SecretKey> kKeys = [] {
    std::vector<crypto::SecretKey> keys;
    for (int i = 0; i < 16; ++i) keys.push_back(key(static_cast<std::uint8_t>(i)));
    return keys;
  }();
  return kKeys[seed];
}

const Digest& kept_id(std::uint8_t seed) {
  static const std::vector<Digest> kIds = [] {
    std::vector<Digest> ids;
    for (int i = 0; i < 16; ++i) ids.push_back(key_id(static_cast<std::uint8_t>(i)));
    return ids;
  }();
  return kIds[seed];
}

}  // namespace

template <class T>
Signed<T> stated(const T& body, std::uint8_t seed, bool sealed) {
  const crypto::SecretKey& by = kept_key(seed);
  if (sealed) {
    auto out = seal(body, by);
    if (out.ok()) return *std::move(out);
    fmt::print(stderr, "{}\n", out.error().message);
    std::abort();
  }
  const Digest id = statement_id(payload_of(Body(body), by.public_key()));
  return {body, id, by.public_key(), kept_id(seed), {}};
}
template Signed<Move> stated(const Move&, std::uint8_t, bool);
template Signed<Proof> stated(const Proof&, std::uint8_t, bool);
template Signed<Verdict> stated(const Verdict&, std::uint8_t, bool);
template Signed<Challenge> stated(const Challenge&, std::uint8_t, bool);
template Signed<Beacon> stated(const Beacon&, std::uint8_t, bool);

namespace {

Signed<Beacon> beacon_for(const Digest& task, const Signed<Proof>& proof, bool sealed) {
  const Digest secret = digest("secret");
  return stated(Beacon{task, digest("offer"), proof.id, secret, beacon_value(secret, proof.id)}, kJudge,
                sealed);
}

/// The row of `setup`'s verifier for the segment that ends in the committed state `end`, with the witness at
/// `step`.
VerdictRow row_of(const Setup& setup, const protocol::Segment& segment, const CommittedState& end,
                  std::int64_t step) {
  VerdictRow row;
  row.index = setup.segment;
  row.expected = end.digest;
  row.recomputed = setup.verifier->state_record(segment.end).digest;
  row.agrees = row.expected == row.recomputed;
  row.reason = row.agrees ? RowReason::kEqual : RowReason::kDigest;
  if (const auto broken = *setup.verifier->non_finite_after(); broken && *broken < segment.end) {
    row.recomputed = {};
    row.agrees = false;
    row.reason = RowReason::kNonFinite;
  }
  row.witness = protocol::witness_of(kept_id(kJudge), setup.verifier->state_record(step).digest);
  return row;
}

/// Adds the verifier's verdict of that single row, and the beacon that drew it if the dispute needs one.
void add_verdict(const Scene& scene, const Setup& setup, const protocol::Segments& segments,
                 const CommittedState& end, protocol::Dispute& out) {
  Verdict verdict;
  Digest value;
  if (setup.policy_draw) {
    const Signed<Beacon> beacon = beacon_for(scene.task.id, out.proof, setup.sealed);
    verdict.beacon = beacon.id;
    verdict.draw = Draw::kPolicy;
    value = beacon.body.value;
    if (setup.about == About::kWitness || setup.about == About::kRow) out.beacon = beacon;
  }
  const protocol::Segment segment = segments[setup.segment];
  const VerdictRow row = row_of(setup, segment, end, protocol::witness_step(segment));
  verdict.task = scene.task.id;
  verdict.proof = out.proof.id;
  verdict.outcome = row.agrees ? Outcome::kAccepted : Outcome::kRefuted;
  verdict.segments = segments.count();
  verdict.replayed = 1;
  verdict.rows = rows_root(std::span(&row, 1));
  if (!row.agrees) verdict.first_disagreement = row;
  verdict.miss_probability = protocol::miss_probabilities(verdict.segments, 1);
  verdict.nonce = digest("nonce");
  out.verdict = stated(verdict, kJudge, setup.sealed);
  setup.verifier->own_row = OpenedRow{0, {}, row};
}

}  // namespace

protocol::Dispute dispute_of(const Scene& scene, const Setup& setup) {
  return dispute_of(scene, setup, *setup.prover);
}

/// The opened loss of the last state, if it has one: a state that is only played, and never read, may not.
OpenedLoss loss_at_end(const Task& task, protocol::Party& prover) {
  const auto loss = prover.entry(task.steps, "loss");
  const auto entries = prover.entries(task.steps);
  if (!loss.ok() || !entries.ok() || !std::isfinite(loss->as<float>()[0])) return {};
  const auto opened = open_loss(*entries, loss->as<float>()[0]);
  return opened.ok() ? *opened : OpenedLoss{};
}

protocol::Dispute dispute_of(const Scene& scene, const Setup& setup, protocol::Party& prover) {
  const Task& task = scene.task.body;
  const auto segments = *protocol::Segments::of(task.steps, task.checkpoint_every);
  std::vector<Digest> states, leaves;
  for (std::int64_t i = 0; i <= segments.count(); ++i) {
    states.push_back(*prover.state(segments.boundary(i)));
    leaves.push_back(merkle::committed_state_leaf(states.back()));
  }
  Proof proof{scene.task.id, states_root(states), states.front(),
              states.back(), task.steps,          loss_at_end(task, prover)};
  if (setup.sealed) say_an_end(proof);
  protocol::Dispute out;
  out.task = scene.task;
  out.proof = stated(proof, kProver, setup.sealed);
  const auto opened = [&](std::int64_t i) {
    const auto index = static_cast<std::size_t>(i);
    return CommittedState{states[index], *merkle::inclusion_path(leaves, index)};
  };
  Challenge challenge;
  challenge.task = scene.task.id;
  challenge.proof = out.proof.id;
  challenge.about = setup.about;
  challenge.segment = setup.segment;
  challenge.start = opened(setup.segment);
  challenge.end = opened(setup.segment + 1);
  if (setup.verifier != nullptr) {
    add_verdict(scene, setup, segments, *challenge.end, out);
    challenge.verdict = out.verdict->id;
    if (setup.about != About::kRow) challenge.row = setup.verifier->own_row;
  }
  out.challenge = stated(challenge, kChallenges, setup.sealed);
  return out;
}

std::uint8_t key_of(const Game& game, Side side) {
  if (side == Side::kChallenger) return kChallenges;
  return game.dispute().verdict ? kJudge : kProver;
}

Signed<Move> move_of(const Game& game, Side side, json::Object message, bool sealed) {
  Move move{game.dispute().task.id, game.dispute().challenge.id, game.turn(), game.last(),
            std::move(message)};
  return stated(move, key_of(game, side), sealed);
}

std::size_t payload_bytes(const Signed<Move>& move, std::uint8_t seed) {
  return payload_of(Body(move.body), kept_key(seed).public_key()).size();
}

std::string transcript_of(const protocol::Dispute& dispute, const std::vector<Signed<Move>>& moves) {
  std::string out = dispute.task.envelope + "\n" + dispute.proof.envelope + "\n";
  if (dispute.verdict) out += dispute.verdict->envelope + "\n";
  if (dispute.beacon) out += beacon_for(dispute.task.id, dispute.proof, true).envelope + "\n";
  out += dispute.challenge.envelope + "\n";
  for (const Signed<Move>& move : moves) out += move.envelope + "\n";
  return out;
}

namespace {

std::int64_t levels(std::int64_t leaves) {
  std::int64_t lists = 0;
  do {
    ++lists;
    leaves = static_cast<std::int64_t>(protocol::Node{0, static_cast<std::uint64_t>(leaves)}.child_size());
  } while (leaves > 1);
  return lists;
}

/// Number of lists until intervals are single positions; at least one.
std::int64_t intervals(std::int64_t n, std::int64_t limit) {
  std::int64_t lists = 1;
  for (; n > limit; ++lists) n = (n + limit - 1) / limit;
  return lists;
}

std::int64_t fold_lists(const kernels::Primitive& line) {
  const std::int64_t n = *element_count(line.fold);
  switch (line.kind) {
    case kernels::Kind::kInput:
    case kernels::Kind::kMap: return 0;
    case kernels::Kind::kSum: return intervals(n, 2048);
    case kernels::Kind::kDot: {
      const std::int64_t blocks = (n + 255) / 256, groups = (blocks + 15) / 16;
      return (groups > 1 ? intervals(groups, 2048) : 0) + (blocks > 1 ? 1 : 0) + 1;
    }
    case kernels::Kind::kArgmax: return intervals(n, 1024);
    default: return intervals(n, 2048);
  }
}

}  // namespace

std::int64_t most_moves(const Scene& scene, std::int64_t steps, std::int64_t first_lists) {
  std::int64_t lists = first_lists;
  for (; steps > 1; ++lists) steps = (steps + 254) / 255;
  const std::int64_t lines = std::ssize(scene.program.values);
  // The lists of entries (at most as many as lines) and one entry.
  std::int64_t last = levels(lines) + 1;
  for (const kernels::Primitive& line : scene.program.values) {
    const auto bytes = static_cast<std::uint64_t>(*element_count(line.shape)) * size_of(line.dtype);
    const auto leaves = static_cast<std::int64_t>(merkle::tensor_leaf_count(bytes));
    last = std::max(last, (leaves == 1 ? 1 : levels(leaves) + 1) + fold_lists(line));
  }
  return 2 * (lists + levels(lines) + last);
}

Played play(const Scene& scene, protocol::Dispute dispute, protocol::Party& defender,
            protocol::Party& challenger, bool sealed) {
  protocol::Player shows(scene.program, defender), objects(scene.program, challenger);
  auto opened = Game::open(std::move(dispute));
  if (!opened.ok()) {
    fmt::print(stderr, "{}\n", opened.error().message);
    std::abort();
  }
  Played out{*std::move(opened), {}, 0, 0, {}, {}};
  while (!out.game.decision()) {
    const Side side = out.game.due().side;
    const auto message = (side == Side::kDefender ? shows : objects).next(out.game);
    if (!message.ok()) out.error = message.error().message;
    if (!message.ok() || !*message) {
      out.silent = side;
      return out;
    }
    out.moves.push_back(move_of(out.game, side, protocol::print_message(**message), sealed));
    out.evidence = payload_bytes(out.moves.back(), key_of(out.game, side));
    out.longest = std::max(out.longest, out.evidence);
    if (const Status status = out.game.apply(out.moves.back()); !status.ok()) {
      out.error = status.error().message;
      return out;
    }
  }
  return out;
}

}  // namespace dgx::test
