#include "ruled_games.h"

#include "dgx/merkle/digests.h"
#include "dgx/merkle/tree.h"

namespace dgx::test {

using namespace manifest;
using protocol::Dispute;
using protocol::Game;
using protocol::Side;

Result<Ruling> ruled(const std::string& transcript, const std::optional<Digest>& operator_key) {
  DGX_TRY(const protocol::Transcript played, protocol::play_transcript(transcript, operator_key));
  DGX_TRY(Ruling ruling, played.game.ruling());
  DGX_TRY(const auto sealed, seal(ruling, key(kStranger)));
  return sealed.body;
}

Ruling ruled(const Scene& scene, const Dispute& dispute, protocol::Party& defender,
             protocol::Party& challenger) {
  const Played played = play(scene, dispute, defender, challenger, true);
  INFO(played.error);
  REQUIRE((played.game.decision() || played.silent == Side::kDefender));
  const std::string transcript = transcript_of(dispute, played.moves);
  if (!played.game.decision()) {
    const auto stalled = ruled(transcript);
    REQUIRE_FALSE(stalled.ok());
    CHECK(stalled.error().code == ErrorCode::kInconclusive);
    Game missed = played.game;
    missed.miss_turn();
    return *missed.ruling();
  }
  const auto ruling = ruled(transcript, key_id(kLedgerOperator));
  INFO((ruling.ok() ? ruling->words : ruling.error().message));
  REQUIRE(ruling.ok());
  CHECK(*ruling == *played.game.ruling());
  return *ruling;
}

Moves moves_of(const Scene& scene, const Dispute& dispute, protocol::Party& defender,
               protocol::Party& challenger, std::size_t count) {
  Moves moves = play(scene, dispute, defender, challenger, true).moves;
  if (moves.size() > count) moves.erase(moves.begin() + static_cast<std::ptrdiff_t>(count), moves.end());
  return moves;
}

Game game_after(const Dispute& dispute, const Moves& moves) {
  auto game = Game::open(dispute);
  REQUIRE(game.ok());
  for (const auto& move : moves) REQUIRE(game->apply(move).ok());
  return *std::move(game);
}

protocol::Message next_message(protocol::Player& player, const Game& game) {
  auto message = player.next(game);
  INFO((message.ok() ? "" : message.error().message));
  REQUIRE(message.ok());
  REQUIRE(message->has_value());
  return **message;
}

Signed<Move> instead(const Game& game, json::Object message, std::optional<std::uint8_t> seed) {
  const Side side = game.decision() ? Side::kDefender : game.due().side;
  const Move move{game.dispute().task.id, game.dispute().challenge.id, game.turn(), game.last(),
                  std::move(message)};
  auto sealed = seal(move, key(seed.value_or(key_of(game, side))));
  REQUIRE(sealed.ok());
  return *std::move(sealed);
}
Signed<Move> instead(const Game& game, const protocol::Message& message, std::optional<std::uint8_t> seed) {
  return instead(game, protocol::print_message(message), seed);
}

Dispute about_proof(TinyParty& prover, std::int64_t segment) {
  Setup setup;
  setup.prover = &prover;
  setup.segment = segment;
  setup.sealed = true;
  return dispute_of(prover.scene(), setup);
}

Dispute about_verdict(TinyParty& prover, TinyParty& verifier, About about, std::int64_t segment) {
  Setup setup;
  setup.prover = &prover;
  setup.verifier = &verifier;
  setup.about = about;
  setup.segment = segment;
  setup.sealed = true;
  return dispute_of(prover.scene(), setup);
}

Dispute with_row(Dispute dispute, const VerdictRow& row) {
  Verdict verdict = dispute.verdict->body;
  verdict.rows = rows_root(std::span(&row, 1));
  verdict.outcome = row.agrees ? Outcome::kAccepted : Outcome::kRefuted;
  verdict.first_disagreement.reset();
  if (!row.agrees) verdict.first_disagreement = row;
  dispute.verdict = *seal(verdict, key(kJudge));
  Challenge challenge = dispute.challenge.body;
  challenge.verdict = dispute.verdict->id;
  challenge.row = OpenedRow{0, {}, row};
  dispute.challenge = *seal(challenge, key(kChallenges));
  return dispute;
}

Dispute over_states(Dispute dispute, const std::vector<Digest>& states) {
  std::vector<Digest> leaves;
  for (const Digest& state : states) leaves.push_back(merkle::committed_state_leaf(state));
  Proof proof = dispute.proof.body;
  proof.states = states_root(states);
  proof.initial = states.front();
  proof.final_state = states.back();
  say_an_end(proof);
  dispute.proof = *seal(proof, key(kProver));
  Challenge challenge = dispute.challenge.body;
  challenge.proof = dispute.proof.id;
  const auto segment = static_cast<std::size_t>(challenge.segment);
  challenge.start = {states[segment], *merkle::inclusion_path(leaves, segment)};
  challenge.end = CommittedState{states[segment + 1], *merkle::inclusion_path(leaves, segment + 1)};
  if (dispute.verdict) {
    Verdict verdict = dispute.verdict->body;
    verdict.proof = dispute.proof.id;
    dispute.verdict = *seal(verdict, key(kJudge));
    challenge.verdict = dispute.verdict->id;
  }
  dispute.challenge = *seal(challenge, key(kChallenges));
  return dispute;
}

OpenedLine opened_line(const program::Program& program, std::int64_t value) {
  const std::string text = program::print_program(program);
  const auto index = static_cast<std::size_t>(value);
  return {value, *merkle::inclusion_path(*merkle::program_leaves(text), index),
          std::string(program::lines_of(text)[index])};
}

std::string receipt_line(const Digest& statement, std::int64_t milliseconds, std::uint8_t seed,
                         const Digest& ledger) {
  const auto index = static_cast<std::int64_t>(statement.bytes[0]);
  const Receipt receipt{ledger, statement, index, milliseconds, {digest("root"), index + 1}};
  return seal(receipt, key(seed))->envelope + "\n";
}

std::string head_line(std::int64_t milliseconds) {
  return seal(TreeHead{ledger_id(), {digest("root"), 1000}, milliseconds}, key(kLedgerOperator))->envelope +
         "\n";
}

Fault fault(Fault::Kind kind, std::int64_t step, std::int64_t value, std::int64_t element, int bit) {
  Fault out;
  out.kind = kind;
  out.step = step;
  out.value = value;
  out.element = element;
  out.bit = bit;
  return out;
}

}  // namespace dgx::test
