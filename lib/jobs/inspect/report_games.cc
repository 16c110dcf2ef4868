#include "inspect/report_games.h"

#include <fmt/format.h>

#include <algorithm>

#include "dgx/protocol/forced.h"

namespace dgx::jobs {
namespace {

using manifest::About;
using manifest::Signed;

constexpr std::size_t kMostDisputes = 32;

/// The moves of a game in the files, in the order of their turns.
std::vector<Signed<manifest::Move>> moves_in(const Evidence& evidence, const Digest& game) {
  auto out = evidence.all<manifest::Move>();
  std::erase_if(out, [&](const auto& move) { return move.body.game != game; });
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& a, const auto& b) { return a.body.turn < b.body.turn; });
  return out;
}

template <class T>
std::optional<Signed<T>> find(const Evidence& evidence, const std::optional<Digest>& id) {
  for (auto& statement : evidence.all<T>()) {
    if (statement.id == id) return std::move(statement);
  }
  return std::nullopt;
}

/// The statements that a challenge rests on, from the files. kMalformed names what is missing.
Result<protocol::Dispute> dispute_of(const Evidence& evidence, const Signed<manifest::Challenge>& challenge) {
  auto proof = find<manifest::Proof>(evidence, challenge.body.proof);
  if (!proof) return malformed("no file has its proof");
  auto verdict = find<manifest::Verdict>(evidence, challenge.body.verdict);
  if (challenge.body.verdict && !verdict) return malformed("no file has its verdict");
  std::optional<protocol::DrawSource> beacon;
  const bool draws = challenge.body.about == About::kWitness || challenge.body.about == About::kRow;
  if (draws && verdict && verdict->body.beacon) {
    if (const auto revealed = find<manifest::Beacon>(evidence, verdict->body.beacon)) beacon = *revealed;
    if (const auto round = find<manifest::Round>(evidence, verdict->body.beacon))
      beacon = protocol::DrawSource(*round, proof->id);
    if (!beacon) return malformed("no file has its beacon");
  }
  std::optional<Signed<manifest::Beacon>> secret;
  if (draws && verdict && protocol::may_be_forced(evidence.task.body, verdict->body)) {
    for (auto& one : evidence.all<manifest::Beacon>()) {
      if (one.body.proof == proof->id) secret = one;
    }
  }
  std::optional<Signed<manifest::BeaconCommitment>> offer;
  if (secret) offer = find<manifest::BeaconCommitment>(evidence, secret->body.commitment);
  return protocol::Dispute{evidence.task, *std::move(proof), std::move(verdict), std::move(beacon),
                           challenge,     std::move(secret), std::move(offer)};
}

/// The game of a challenge: the ledger's at its time or, if it is not logged, that of the files.
Result<ToldGame> play(const Evidence& evidence, const Signed<manifest::Challenge>& challenge) {
  if (const protocol::TaskRecord* record = evidence.record()) {
    const std::int64_t now = evidence.view->market.clock().now();
    for (const protocol::GameRecord& game : record->games) {
      if (game.id() != challenge.id) continue;
      DGX_TRY(auto moves, moves_of(evidence.view->log, game.game));
      return ToldGame{protocol::game_at(game, now), std::move(moves)};
    }
  }
  DGX_TRY(protocol::Dispute dispute, dispute_of(evidence, challenge));
  DGX_TRY(protocol::Game game, protocol::Game::open(std::move(dispute)));
  std::vector<Signed<manifest::Move>> moves = moves_in(evidence, challenge.id);
  for (const auto& move : moves) DGX_CHECK(game.apply(move));
  const bool is_chunk = game.dispute().challenge.body.about == manifest::About::kChunk;
  if (is_chunk && game.decision() && !game.decision()->falls)
    return Error{ErrorCode::kInconclusive, "only a ledger can say that its operator fetched the chunk", {}};
  return ToldGame{std::move(game), std::move(moves)};
}

/// A ruling in words, and whether it follows from the moves.
std::string judged(const Evidence& evidence, const ToldGame& told, const Signed<manifest::Ruling>& ruling,
                   const Cast& cast) {
  const std::string said = fmt::format(
      "{} ruled{} that the {} {}", sentence_case(cast.of(ruling.key_id)), evidence.on_date(ruling.id),
      told.game.dispute().verdict ? "verdict" : "proof", ruling.body.falls ? "falls" : "stands");
  const auto ours = told.game.ruling();
  if (!ours.ok()) return said + ", though the game is not over: the ruling is false.";
  if (protocol::same_ruling(*ours, ruling.body))
    return said + ": recomputed here from the moves, it is right.";
  return said + ": recomputed here from the moves, it is FALSE.";
}

}  // namespace

std::vector<ToldGame> games_of(const Evidence& evidence, std::vector<std::string>& left_out) {
  auto challenges = evidence.all<manifest::Challenge>();
  if (challenges.size() > kMostDisputes) {
    left_out.push_back(fmt::format("{} more disputes.", challenges.size() - kMostDisputes));
    challenges.erase(challenges.begin() + kMostDisputes, challenges.end());
  }
  std::vector<ToldGame> out;
  for (const auto& challenge : challenges) {
    auto told = play(evidence, challenge);
    if (told.ok()) {
      out.push_back(*std::move(told));
    } else {
      left_out.push_back(
          fmt::format("The challenge {} is not told: {}.", challenge.id.brief(), told.error().message));
    }
  }
  return out;
}

DisputeStory tell_game(const Evidence& evidence, const ToldGame& told, const Cast& cast) {
  DisputeStory out = tell_dispute({told.game, told.moves, evidence.logged_ms, evidence.program.get()}, cast);
  for (const auto& ruling : evidence.all<manifest::Ruling>()) {
    if (ruling.body.game == told.id()) out.end.push_back(judged(evidence, told, ruling, cast));
  }
  return out;
}

}  // namespace dgx::jobs
