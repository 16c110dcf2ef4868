#include <fmt/format.h>

#include <algorithm>

#include "dgx/protocol/forced.h"
#include "game_terms.h"
#include "rules.h"

namespace dgx::protocol {
namespace {

/// The game of the task that a challenge with this id began.
Result<GameRecord*> game_of(TaskRecord& record, const Digest& game) {
  for (GameRecord& one : record.games) {
    if (one.id() == game) return &one;
  }
  return not_allowed(fmt::format("game {} is not in the ledger", game.brief()));
}

/// The game's end, if it has come by `now`.
std::optional<GameEnd> end_of(const TaskRecord& record, const GameRecord& game, std::int64_t now) {
  return ends_of(record, now)[static_cast<std::size_t>(&game - record.games.data())];
}

/// Open games of the ledger, other than `game`, in which it is the same defender's turn to move at `now`.
std::int64_t waiting_beside(const MarketState& market, const Game& game, std::int64_t now) {
  std::int64_t out = 0;
  for (const Digest& task : market.unsettled) {
    const TaskRecord& record = market.tasks.at(task);
    if (record.games.empty()) continue;
    const auto ends = ends_of(record, now);
    for (std::size_t i = 0; i < ends.size(); ++i) {
      const Game& other = record.games[i].game;
      const bool awaited = !ends[i] && other.due().side == Side::kDefender;
      if (awaited && record.games[i].id() != game.dispute().challenge.id &&
          other.dispute().defender() == game.dispute().defender())
        ++out;
    }
  }
  return out;
}

/// The deadline, in market time, of the move that a game awaits at `now`. A defender's moves fall due one
/// after another over all games in which the ledger awaits that key, so opening many games at once cannot
/// make them late. `queued_ms` is the delay that this game has had already; it gets only what is left of its
/// limit.
std::int64_t move_deadline(const MarketState& market, const Game& game, std::int64_t queued_ms,
                           std::int64_t now) {
  constexpr std::int64_t kMostWaiting = 63;
  const std::int64_t window = game.dispute().task.body.policy.window_move_ms;
  if (game.decision() || game.due().side == Side::kChallenger) return now + window;
  const std::int64_t left = std::max<std::int64_t>(0, kMostWaiting * window - queued_ms);
  return now + window + std::min(waiting_beside(market, game, now) * window, left);
}

/// The proof can be challenged while its verdict is re-checked, too; the verdict itself not before everybody
/// has shown what they committed to, since a challenge would tell others which rows are false.
Status check_challengeable(const TaskRecord& record, std::int64_t now, const manifest::Challenge& challenge) {
  if (challenge.verdict) {
    DGX_CHECK(check_state(record, now, {TaskState::kChallengeWindow}));
    const bool of_verdict = record.verdict && *challenge.verdict == record.verdict->id;
    if (of_verdict && secret_fate(record, now) == SecretFate::kWithheld)
      return not_allowed("the verdict counts as none: its verifier has not revealed the secret");
    return {};
  }
  return check_state(record, now, {TaskState::kRecheck, TaskState::kReveal, TaskState::kChallengeWindow});
}

}  // namespace

Status apply(MarketState& market, const Entry& entry, const manifest::Challenge& challenge) {
  DGX_TRY(TaskRecord* const record, record_of(market, challenge.task));
  DGX_CHECK(check_about(*record, challenge.proof));
  DGX_CHECK(check_challengeable(*record, entry.now, challenge));
  DGX_TRY(const GameTerms terms, terms_of(*record, challenge, entry.signer(), entry.now));
  DGX_CHECK(check_balance(market, entry.account(), terms.bond, "the challenger's bond"));
  Dispute dispute{record->task, *record->proof, std::nullopt, std::nullopt, entry.with(challenge)};
  if (challenge.verdict) {
    const auto* const named = verdict_of(*record, *challenge.verdict);
    dispute.verdict = named != nullptr ? std::optional(*named) : record->verdict;
  }
  const bool draws = challenge.about == manifest::About::kWitness || challenge.about == manifest::About::kRow;
  if (draws && dispute.verdict && dispute.verdict->body.beacon) dispute.beacon = source_of(*record);
  if (draws && dispute.verdict && may_be_forced(record->task.body, dispute.verdict->body) && record->secret) {
    dispute.secret = record->secret->statement;
    dispute.offer = record->offers.at(dispute.secret->body.commitment).statement;
  }
  DGX_TRY(Game game, Game::open(std::move(dispute)));
  const std::int64_t deadline = move_deadline(market, game, 0, entry.now);
  record->games.push_back({std::move(game), terms.bond, terms.counted, entry.now, deadline, 0, std::nullopt});
  transfer(market, entry.account(), "bonds", terms.bond);
  return {};
}

Status apply(MarketState& market, const Entry& entry, const manifest::Move& turn) {
  DGX_TRY(TaskRecord* const record, record_of(market, turn.task));
  DGX_TRY(GameRecord* const game, game_of(*record, turn.game));
  if (const auto end = end_of(*record, *game, entry.now)) {
    return not_allowed(fmt::format("game {} is over: the {} {}", game->id().brief(),
                                   word_of(game->challenged()),
                                   end->result == GameResult::kFalls    ? "falls"
                                   : end->result == GameResult::kStands ? "stands"
                                                                        : "has fallen in another"));
  }
  const Side mover = game->game.due().side;
  DGX_CHECK(game->game.apply(entry.with(turn)));
  // The time of an answer beyond one window was queueing, of which a game has a limited amount.
  if (mover == Side::kDefender) {
    const std::int64_t window = record->task.body.policy.window_move_ms;
    game->queued_ms += std::max<std::int64_t>(0, entry.now - game->last_ms - window);
  }
  game->last_ms = entry.now;
  game->deadline_ms = move_deadline(market, game->game, game->queued_ms, entry.now);
  return {};
}

/// Rulings are for people: the game is decided by its statements.
Status apply(TaskRecord& record, const Entry& entry, const manifest::Ruling& ruling) {
  DGX_TRY(GameRecord* const game, game_of(record, ruling.game));
  const auto end = end_of(record, *game, entry.now);
  if (!end) return not_allowed(fmt::format("game {} is not over", game->id().brief()));
  if (end->result == GameResult::kReturned)
    return not_allowed(
        fmt::format("game {} was not decided: its statement fell in another", game->id().brief()));
  DGX_TRY(const manifest::Ruling follows, game_at(*game, entry.now).ruling());
  if (!same_ruling(ruling, follows)) {
    return malformed(
        fmt::format("is not the ruling that follows from the ledger, which is: {}", follows.words));
  }
  if (game->ruling) return not_allowed(fmt::format("game {} already has its ruling", game->id().brief()));
  game->ruling = entry.statement.id;
  return {};
}

}  // namespace dgx::protocol
