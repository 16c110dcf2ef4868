#include "dgx/protocol/game.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <tuple>

#include "claims.h"
#include "dgx/merkle/digests.h"
#include "dgx/merkle/tree.h"
#include "dgx/protocol/draw.h"
#include "dgx/protocol/forced.h"
#include "dgx/protocol/segments.h"
#include "dgx/protocol/verify.h"
#include "turn.h"

namespace dgx::protocol {

using manifest::About;
using manifest::Claim;
using manifest::RulingReason;
using manifest::Signed;

namespace {

Status opens(const manifest::CommittedState& state, std::int64_t index, const manifest::Proof& proof,
             std::string_view field) {
  const Digest leaf = merkle::committed_state_leaf(state.digest);
  const auto root = merkle::root_from_path(leaf, static_cast<std::uint64_t>(index),
                                           static_cast<std::uint64_t>(proof.states.count), state.path);
  if (!root.ok()) return within(fmt::format("{}: path", field), root.error());
  if (*root != proof.states.root)
    return malformed(fmt::format("{}: is not committed state {} of the proof", field, index));
  return {};
}

/// Checks that the proof fits the task, and returns its segments. Not that its first and last state are
/// right: claim g is about these.
Result<Segments> check_proof_of(const Dispute& dispute) {
  if (dispute.proof.body.task != dispute.task.id) return malformed("proof: belongs to another task");
  return segments_of(dispute.task.body, dispute.proof.body);
}

/// The proof's segments, once check_proof_of() has accepted it.
Segments segments_in(const Dispute& dispute) { return *segments_of(dispute.task.body, dispute.proof.body); }

/// An honest verdict has a row for each segment that its beacon draws.
Status check_drawn(const Dispute& dispute) {
  const manifest::Verdict& verdict = dispute.verdict->body;
  if (verdict.draw == manifest::Draw::kChosen)
    return malformed("challenge: only a verdict of the policy's draw must have a row");
  DGX_TRY(const auto drawn, drawn_segments(dispute));
  if (!std::binary_search(drawn.begin(), drawn.end(), dispute.challenge.body.segment)) {
    return malformed(fmt::format("challenge: segment {} is not drawn", dispute.challenge.body.segment));
  }
  return {};
}

/// True if the verdict states the row's witness: it accepts, and gives the witnesses of the segments drawn,
/// in their order. So whoever states witnesses other than their rows' is bound by both.
bool states_witness(const Dispute& dispute, const manifest::OpenedRow& opened) {
  const manifest::Verdict& verdict = dispute.verdict->body;
  const auto place = static_cast<std::size_t>(opened.index);
  if (place >= verdict.witnesses.size() || !opened.path.empty() || !dispute.beacon) return false;
  const auto& end = dispute.challenge.body.end;
  const Digest& expected = end ? end->digest : manifest::diverged_end();
  const auto drawn = drawn_segments(dispute);
  return drawn.ok() && place < drawn->size() && (*drawn)[place] == opened.row.index && opened.row.agrees &&
         opened.row.expected == expected && opened.row.witness == verdict.witnesses[place];
}

/// The verdict itself states its first disagreement, and may state its witnesses; any other row must be
/// opened in its tree.
Status check_bound(const Dispute& dispute, const manifest::OpenedRow& opened) {
  const manifest::Verdict& verdict = dispute.verdict->body;
  if (verdict.first_disagreement == opened.row) return {};
  if (states_witness(dispute, opened)) return {};
  const Digest leaf = merkle::leaf_hash(as_bytes(opened.row.to_json().dump()));
  const auto root = merkle::root_from_path(leaf, static_cast<std::uint64_t>(opened.index),
                                           static_cast<std::uint64_t>(verdict.rows.count), opened.path);
  if (!root.ok()) return within("row: path", root.error());
  if (*root != verdict.rows.root) return malformed("row: is not a row of the verdict");
  return {};
}

Status check_row(const Dispute& dispute) {
  const manifest::Challenge& challenge = dispute.challenge.body;
  const manifest::OpenedRow& opened = *challenge.row;
  DGX_CHECK(check_bound(dispute, opened));
  if (opened.row.index != challenge.segment) return malformed("row: belongs to another segment");
  if (challenge.about != About::kWitness || has_witness(dispute, opened.row)) return {};
  return malformed(fmt::format("row: has no witness, since its reason is \"{}\" and the segment has {} steps",
                               manifest::name_of(opened.row.reason),
                               segments_in(dispute)[challenge.segment].length()));
}

/// Checks that the secret is the one to which the verdict's signer has committed. So nobody else can say what
/// their witnesses had to be.
Status check_committed(const Dispute& dispute) {
  const Signed<manifest::BeaconCommitment>& offer = *dispute.offer;
  const manifest::Beacon& secret = dispute.secret->body;
  if (offer.key_id != dispute.verdict->key_id)
    return malformed("offer: is not signed by whoever gave the verdict");
  if (offer.body.task != dispute.task.id) return malformed("offer: belongs to another task");
  if (secret.task != dispute.task.id || secret.proof != dispute.proof.id)
    return malformed("secret: belongs to another proof");
  if (secret.commitment == offer.id && manifest::beacon_commitment(secret.secret) == offer.body.commitment)
    return {};
  return malformed("secret: is not the one of the offer");
}

/// Checks that secret and offer are there exactly if they say what the witness must be.
Status check_secret_of(const Dispute& dispute, bool draws) {
  const bool needed = draws && may_be_forced(dispute.task.body, dispute.verdict->body);
  if (needed != dispute.secret.has_value())
    return malformed(needed ? "the verifier's secret is missing" : "has a secret that is not needed");
  if (needed != dispute.offer.has_value())
    return malformed(needed ? "the verifier's offer is missing" : "has an offer that is not needed");
  if (!needed) return {};
  if (!dispute.beacon->is_round) return malformed("beacon: this market draws by rounds");
  return check_committed(dispute);
}

Status check_verdict_of(const Dispute& dispute) {
  const manifest::Challenge& challenge = dispute.challenge.body;
  if (challenge.verdict.has_value() != dispute.verdict.has_value())
    return malformed("challenge: verdict: is not the given verdict");
  if (!dispute.verdict) return {};
  const Signed<manifest::Verdict>& verdict = *dispute.verdict;
  if (*challenge.verdict != verdict.id) return malformed("challenge: is about another verdict");
  if (verdict.body.task != dispute.task.id || verdict.body.proof != dispute.proof.id)
    return malformed("verdict: belongs to another proof");
  const bool draws = challenge.about == About::kWitness || challenge.about == About::kRow;
  const bool needs_beacon = draws && verdict.body.beacon.has_value();
  if (needs_beacon != dispute.beacon.has_value()) {
    return malformed(needs_beacon ? "the beacon is missing" : "has a beacon that is not needed");
  }
  if (dispute.beacon &&
      (dispute.beacon->id != *verdict.body.beacon || dispute.beacon->proof != dispute.proof.id)) {
    return malformed("beacon: is not the verdict's");
  }
  DGX_CHECK(check_secret_of(dispute, draws));
  return challenge.about == About::kRow ? check_drawn(dispute) : check_row(dispute);
}

/// Checks that the part demanded is of an entry that the program has.
Status check_chunk(const Dispute& dispute) {
  const manifest::ChunkReference& chunk = *dispute.challenge.body.chunk;
  DGX_TRY(const kernels::Primitive line, open_line(chunk.line, dispute.task.body));
  if (!is_state_input(line))
    return malformed(fmt::format("chunk: line {} is not a state input", chunk.line.index));
  const auto parts = static_cast<std::int64_t>(merkle::tensor_part_count(tensor_bytes(line)));
  if (chunk.part >= parts) return malformed(fmt::format("chunk: part: is {} of {}", chunk.part, parts));
  return {};
}

/// Checks that the segment or state challenged is one that such a challenge may be about.
Status check_place(const Dispute& dispute, const Segments& segments) {
  const manifest::Challenge& challenge = dispute.challenge.body;
  const std::int64_t most = challenge.about == About::kChunk ? segments.states() - 1 : segments.count() - 1;
  if (challenge.segment > most)
    return malformed(fmt::format("challenge: segment: is {}, the last is {}", challenge.segment, most));
  if (challenge.about == About::kInitial && challenge.segment != 0)
    return malformed("challenge: segment: the initial state belongs to segment 0");
  if (challenge.about == About::kFinal && challenge.segment != segments.between() - 1)
    return malformed("challenge: segment: the final state ends the last one");
  const bool ends = challenge.about != About::kChunk && !segments.diverges(challenge.segment);
  if (ends != challenge.end.has_value())
    return malformed("challenge: end: must be present if and only if the state after the segment exists");
  return {};
}

Status check_parts(const Dispute& dispute, const Segments& segments) {
  const manifest::Challenge& challenge = dispute.challenge.body;
  if (challenge.task != dispute.task.id) return malformed("challenge: belongs to another task");
  if (challenge.proof != dispute.proof.id) return malformed("challenge: is about another proof");
  DGX_CHECK(check_place(dispute, segments));
  DGX_CHECK(opens(challenge.start, challenge.segment, dispute.proof.body, "start"));
  if (challenge.end) DGX_CHECK(opens(*challenge.end, challenge.segment + 1, dispute.proof.body, "end"));
  if (challenge.chunk) DGX_CHECK(check_chunk(dispute));
  return check_verdict_of(dispute);
}

}  // namespace

bool was_replayed(const manifest::VerdictRow& row) {
  return row.reason == manifest::RowReason::kEqual || row.reason == manifest::RowReason::kDigest;
}

bool has_witness(const Dispute& dispute, const manifest::VerdictRow& row) {
  return was_replayed(row) && segments_in(dispute)[dispute.challenge.body.segment].length() > 1;
}

Digest witness_due(const Dispute& dispute, const Digest& interior) {
  const Digest honest = witness_of(dispute.defender(), interior);
  if (!dispute.secret) return honest;
  const auto forced =
      forced_segment(dispute.task.body, segments_in(dispute), *dispute.beacon, dispute.secret->body.secret);
  return forced == dispute.challenge.body.segment ? false_witness(honest) : honest;
}

bool says_diverged(const Dispute& dispute, const manifest::VerdictRow& row) {
  return row.agrees && !dispute.challenge.body.end;
}

manifest::RowReason fault_shown(const GameState& state) {
  const bool diverges = !state.row || was_replayed(*state.row);
  return diverges ? manifest::RowReason::kNonFinite : state.row->reason;
}

Result<std::vector<std::int64_t>> drawn_segments(const Dispute& dispute) {
  return policy_draw(dispute.task.body, segments_in(dispute), dispute.beacon->value, dispute.proof.id,
                     dispute.verdict->key_id);
}

std::optional<Decision> check_expected(const Dispute& dispute, const manifest::VerdictRow& row) {
  const auto& committed = dispute.challenge.body.end;
  const Digest& end = committed ? committed->digest : manifest::diverged_end();
  const auto falls = [](std::string words) {
    return Decision{true, RulingReason::kPost, std::nullopt, std::nullopt, std::move(words)};
  };
  if (row.expected != end)
    return falls(fmt::format("the row expects {}, the proof has {}", row.expected.hex(), end.hex()));
  if (!committed && row.reason == manifest::RowReason::kNonFinite)
    return falls("the row objects that the step diverges, which is what the proof says");
  return std::nullopt;
}

Stage show_interval(const GameState& state) {
  if (state.steps() == 1) return ShowValues{};
  return ShowStates{};
}

Stage play_on(const Dispute& dispute, manifest::About about, GameState& state) {
  if (about != About::kWitness) {
    state.rejected = state.row->recomputed;
    if (!was_replayed(*state.row) || says_diverged(dispute, *state.row)) return ShowFault{};
    return show_interval(state);
  }
  state.end_step = witness_step(segments_in(dispute)[dispute.challenge.body.segment]);
  return ShowInterior{};
}

Result<Game> Game::open(Dispute dispute) {
  DGX_TRY(const Segments segments, check_proof_of(dispute));
  DGX_CHECK(check_parts(dispute, segments));
  if (dispute.defender() == dispute.challenger())
    return malformed("challenge: is signed by the signer of what it challenges");
  Game game(std::move(dispute));
  game.begin();
  return game;
}

void Game::begin() {
  const manifest::Task& task = dispute_.task.body;
  const manifest::Proof& proof = dispute_.proof.body;
  const manifest::Challenge& challenge = dispute_.challenge.body;
  const auto decide = [&](bool falls, std::string_view what, const Digest& is, const Digest& must) {
    decision_ = Decision{falls, RulingReason::kClaim, Claim::kCommittedState, std::nullopt,
                         falls ? fmt::format("{} is {}, must be {}", what, is.hex(), must.hex())
                               : fmt::format("{} is what it must be", what)};
  };
  if (challenge.about == About::kInitial) {
    const bool opened_is = challenge.start.digest == task.initial.digest;
    decide(!opened_is || proof.initial != task.initial.digest, "the initial state",
           opened_is ? proof.initial : challenge.start.digest, task.initial.digest);
    return;
  }
  if (challenge.about == About::kFinal) {
    decide(challenge.end->digest != proof.final_state, "the last committed state", challenge.end->digest,
           proof.final_state);
    return;
  }
  state_.accepted = challenge.start.digest;
  if (challenge.about == About::kChunk) {
    state_.stage = ShowChunk{};
    return;
  }
  state_.first_step = segment().first;
  state_.end_step = segment().end;
  if (challenge.end) state_.rejected = challenge.end->digest;
  if (challenge.row) {
    state_.row = challenge.row->row;
    decision_ = check_expected(dispute_, *state_.row);
    if (!decision_) state_.stage = play_on(dispute_, challenge.about, state_);
  } else if (challenge.about == About::kRow) {
    state_.stage = ShowRow{};
  } else if (challenge.end) {
    state_.stage = show_interval(state_);
  } else {
    state_.stage = ShowFault{};
  }
}

Segment Game::segment() const { return segments_in(dispute_)[dispute_.challenge.body.segment]; }

Status Game::apply(const Signed<manifest::Move>& move) {
  const std::string where = fmt::format("move {}", move.body.turn);
  if (move.body.task != dispute_.task.id || move.body.game != dispute_.challenge.id)
    return malformed(where + ": belongs to another game");
  const bool defends = move.key_id == dispute_.defender();
  if (!defends && move.key_id != dispute_.challenger())
    return unauthorised(where + ": is signed by neither side of the game");
  if (std::find(moves_.begin(), moves_.end(), move.id) != moves_.end())
    return malformed(where + ": repeats an earlier move");
  const auto convict = [&](RulingReason reason, std::optional<Claim> claim, std::string words) {
    moves_.push_back(move.id);
    decision_ = Decision{defends, reason, claim, std::nullopt, std::move(words)};
  };
  if (decision_) return {};  // what is said after the end counts for nothing
  const auto answered = turn_of(move.body.previous);
  if (!answered) return malformed(where + ": answers a statement that is not in this game");
  const std::string_view who = name_of(defends ? Side::kDefender : Side::kChallenger);
  if (*answered + 1 != move.body.turn) {
    convict(RulingReason::kMalformed, std::nullopt,
            fmt::format("turn {} answers the statement of turn {}", move.body.turn, *answered));
    return {};
  }
  if (defends != (move.body.turn % 2 == 1)) {
    convict(RulingReason::kOutOfTurn, std::nullopt,
            fmt::format("the {} signed a move for turn {}, which is not theirs", who, move.body.turn));
    return {};
  }
  if (move.body.turn < turn()) {  // it answers the statement that a move already taken answers
    convict(RulingReason::kTwoMoves, Claim::kTwoMoves,
            fmt::format("the {} signed two moves for turn {}", who, move.body.turn));
    return {};
  }
  const auto message = parse_message(move.body.say);
  if (!message.ok()) {
    convict(RulingReason::kMalformed, std::nullopt,
            fmt::format("turn {} is not a move: {}", move.body.turn, message.error().message));
    return {};
  }
  moves_.push_back(move.id);
  Outcome outcome = take({dispute_, state_}, *message);
  if (auto* next = std::get_if<Stage>(&outcome)) {
    state_.stage = std::move(*next);
  } else {
    decision_ = std::get<Decision>(std::move(outcome));
  }
  return {};
}

const Due& Game::due() const {
  assert(!decision_);
  return due_of(state_.stage);
}

manifest::DisputePlace Game::place() const {
  manifest::DisputePlace out = decision_ ? decision_->at : manifest::DisputePlace{};
  out.segment = dispute_.challenge.body.segment;
  if (state_.steps() == 1) out.step = state_.first_step;
  if (const NamedValue* value = state_.value()) out.value = to_number(value->index);
  std::visit(
      [&](const auto& stage) {
        if constexpr (requires { stage.element; }) out.element = stage.element;
      },
      state_.stage);
  return out;
}

std::optional<std::int64_t> Game::turn_of(const Digest& statement) const {
  if (statement == dispute_.challenge.id) return 0;
  for (std::size_t i = 0; i < moves_.size(); ++i) {
    if (moves_[i] == statement) return static_cast<std::int64_t>(i) + 1;
  }
  return std::nullopt;
}

namespace {

/// Makes words fit a ruling: cuts them, and replaces what is not printable ASCII, since they may quote a
/// side.
std::string ruling_words(std::string words) {
  words.resize(std::min<std::size_t>(words.size(), manifest::kMaxRulingWords));
  std::replace_if(
      words.begin(), words.end(), [](char c) { return c < 0x20 || c > 0x7e; }, '?');
  return words;
}

}  // namespace

void Game::time_out(std::string words) {
  decision_ = Decision{due().side == Side::kDefender, RulingReason::kLate, std::nullopt, std::nullopt,
                       std::move(words)};
}

void Game::miss_turn() {
  time_out(
      fmt::format("turn {} was not taken within {} ms", turn(), dispute_.task.body.policy.window_move_ms));
}

Result<manifest::Ruling> Game::ruling() const {
  if (!decision_) {
    return Error{ErrorCode::kInconclusive,
                 fmt::format("the game is not over: the {} must {}", name_of(due().side), due().words),
                 {}};
  }
  manifest::Ruling out;
  out.task = dispute_.task.id;
  out.game = dispute_.challenge.id;
  out.statement = dispute_.challenge.body.statement();
  out.defender = dispute_.defender();
  out.challenger = dispute_.challenger();
  out.moves = static_cast<std::int64_t>(moves_.size());
  out.last = last();
  out.falls = decision_->falls;
  out.reason = decision_->reason;
  out.claim = decision_->claim;
  out.scalar = decision_->scalar;
  out.words = ruling_words(decision_->words);
  out.at = place();
  return out;
}

bool same_ruling(const manifest::Ruling& a, const manifest::Ruling& b) {
  const auto compared = [](const manifest::Ruling& ruling) {
    return std::tie(ruling.falls, ruling.statement, ruling.game, ruling.moves, ruling.last, ruling.reason);
  };
  return compared(a) == compared(b);
}

std::string standing_in_words(const Game& game) {
  if (const auto& decision = game.decision()) {
    return fmt::format("over: the {} {}: {}", game.dispute().verdict ? "verdict" : "proof",
                       decision->falls ? "falls" : "stands", decision->words);
  }
  return fmt::format("turn {}: the {} must {}", game.turn(), name_of(game.due().side), game.due().words);
}

}  // namespace dgx::protocol
