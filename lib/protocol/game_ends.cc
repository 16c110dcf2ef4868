
#include "dgx/protocol/settlement.h"

namespace dgx::protocol {
namespace {

/// The end of a game by its own statements and deadlines; nullopt if it is open.
std::optional<GameEnd> own_end(const GameRecord& record, std::int64_t now) {
  if (const auto& decision = record.game.decision())
    return GameEnd{decision->falls ? GameResult::kFalls : GameResult::kStands, record.last_ms};
  if (now <= record.deadline_ms) return std::nullopt;
  const bool falls = record.game.due().side == Side::kDefender;
  return GameEnd{falls ? GameResult::kFalls : GameResult::kStands, record.deadline_ms};
}

/// The fall of a statement: its earliest game that was won, the one logged first if several were won at once.
struct Fall {
  std::size_t game = 0;
  std::int64_t milliseconds = 0;
};

std::optional<Fall> first_fall(const TaskRecord& record, const std::vector<std::optional<GameEnd>>& ends,
                               const Digest& statement) {
  std::optional<Fall> out;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (!ends[i] || ends[i]->result != GameResult::kFalls || record.games[i].statement() != statement)
      continue;
    if (!out || ends[i]->milliseconds < out->milliseconds) out = Fall{i, ends[i]->milliseconds};
  }
  return out;
}

/// Adjusts the end of another game about a statement that fell. If it was open it goes on, whatever it is
/// about, and its challenger can lose nothing any more: otherwise a cheat could end it, and its challenger's
/// share, by convicting themselves elsewhere.
void end_beside(const Fall& fall, std::optional<GameEnd>& end) {
  const bool was_open = !end || end->milliseconds > fall.milliseconds;
  if (was_open && end && end->result == GameResult::kStands) end->result = GameResult::kReturned;
}

}  // namespace

std::vector<std::optional<GameEnd>> ends_of(const TaskRecord& record, std::int64_t now) {
  std::vector<std::optional<GameEnd>> out;
  for (const GameRecord& game : record.games) out.push_back(own_end(game, now));
  std::set<Digest> statements;
  for (const GameRecord& game : record.games) statements.insert(game.statement());
  for (const Digest& statement : statements) {
    const auto fall = first_fall(record, out, statement);
    if (!fall) continue;
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (i != fall->game && record.games[i].statement() == statement) end_beside(*fall, out[i]);
    }
  }
  return out;
}

bool has_fallen(const TaskRecord& record, const Digest& statement, std::int64_t now) {
  return first_fall(record, ends_of(record, now), statement).has_value();
}

Game game_at(const GameRecord& record, std::int64_t now) {
  Game out = record.game;
  if (!out.decision() && now > record.deadline_ms) out.miss_turn();
  return out;
}

}  // namespace dgx::protocol
