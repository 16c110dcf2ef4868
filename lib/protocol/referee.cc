#include "dgx/protocol/referee.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace dgx::protocol {

using manifest::Body;
using manifest::Signed;

namespace {

/// When statements were logged, as the operator of one ledger says.
class Clock {
 public:
  explicit Clock(const std::optional<Digest>& operator_key) : operator_(operator_key) {}

  Status take(const Signed<Body>& statement) {
    if (!operator_) return {};
    if (statement.key_id != *operator_) return unauthorised("is not by the operator named");
    if (const auto* receipt = std::get_if<manifest::Receipt>(&statement.body)) {
      DGX_CHECK(of_ledger(receipt->ledger));
      if (!logged_.emplace(receipt->statement, receipt->milliseconds).second)
        return malformed("is a second receipt of one statement");
      return {};
    }
    const auto& head = std::get<manifest::TreeHead>(statement.body);
    DGX_CHECK(of_ledger(head.ledger));
    now_ = std::max(now_.value_or(head.milliseconds), head.milliseconds);
    return {};
  }
  [[nodiscard]] std::optional<std::int64_t> logged(const Digest& statement) const {
    const auto found = logged_.find(statement);
    if (found == logged_.end()) return std::nullopt;
    return found->second;
  }
  [[nodiscard]] std::optional<std::int64_t> now() const { return now_; }

 private:
  Status of_ledger(const Digest& ledger) {
    if (ledger_ && *ledger_ != ledger) return malformed("is of another ledger than the one before");
    ledger_ = ledger;
    return {};
  }

  std::optional<Digest> operator_;
  std::optional<Digest> ledger_;
  std::map<Digest, std::int64_t> logged_;
  std::optional<std::int64_t> now_;
};

/// The statements of a transcript by what they are.
struct Parts {
  std::optional<Signed<manifest::Task>> task;
  std::optional<Signed<manifest::Proof>> proof;
  std::optional<Signed<manifest::Verdict>> verdict;
  std::optional<Signed<manifest::Beacon>> beacon;
  std::optional<Signed<manifest::Challenge>> challenge;
  std::vector<std::pair<std::size_t, Signed<manifest::Move>>> moves;  // with their lines
};

std::string line_text(std::size_t line) { return fmt::format("line {}", line + 1); }

template <class T>
Status place(std::optional<Signed<T>>& where, Signed<Body> statement, bool in_order) {
  if (where || !in_order)
    return malformed(fmt::format("a {} where none belongs", manifest::name_of(T::kKind)));
  DGX_TRY(where, manifest::as<T>(std::move(statement)));
  return {};
}

Status take(Parts& parts, Clock& clock, std::size_t line, Signed<Body> statement) {
  const bool challenged = parts.challenge.has_value();
  switch (manifest::kind_of(statement.body)) {
    case manifest::Kind::kTask:
      return place(parts.task, std::move(statement), line == 0);
    case manifest::Kind::kProof:
      return place(parts.proof, std::move(statement), parts.task && !challenged);
    case manifest::Kind::kVerdict:
      return place(parts.verdict, std::move(statement), parts.proof && !challenged);
    case manifest::Kind::kBeacon:
      return place(parts.beacon, std::move(statement), parts.verdict && !challenged);
    case manifest::Kind::kChallenge:
      return place(parts.challenge, std::move(statement), parts.proof.has_value());
    case manifest::Kind::kReceipt:
    case manifest::Kind::kTreeHead:
      return clock.take(statement);
    case manifest::Kind::kMove: {
      if (!challenged) return malformed("a move before the challenge");
      DGX_TRY(auto move, manifest::as<manifest::Move>(std::move(statement)));
      parts.moves.emplace_back(line, std::move(move));
      return {};
    }
    default:
      return malformed(fmt::format("a {}, which has no place in a transcript",
                                   manifest::name_of(manifest::kind_of(statement.body))));
  }
}

/// Whether a move is the one that is awaited, whatever it says: nobody else's can be late.
bool is_next(const Game& game, const Signed<manifest::Move>& move) {
  return !game.decision() && move.body.turn == game.turn() && move.body.previous == game.last() &&
         move.body.task == game.dispute().task.id && move.body.game == game.dispute().challenge.id &&
         move.key_id == game.party(side_of(game.stage()));
}

/// Whether a move comes too late: judged by receipts alone.
std::optional<std::string> late(const Game& game, const Clock& clock, const Signed<manifest::Move>& move) {
  const auto then = clock.logged(game.last());
  const auto now = clock.logged(move.id);
  const std::int64_t window = game.dispute().task.body.policy.window_move_ms;
  if (!then || !now || *now <= *then + window) return std::nullopt;
  return fmt::format("turn {} was logged {} ms after the statement it answers, {} are allowed",
                     move.body.turn, *now - *then, window);
}

bool missed(const Game& game, const Clock& clock) {
  const auto then = clock.logged(game.last());
  return then && clock.now() && *clock.now() > *then + game.dispute().task.body.policy.window_move_ms;
}

/// The answer to a demanded chunk counts once the operator has logged it: he looked.
Status check_fetched(const Game& game, const Clock& clock) {
  const bool answered = game.dispute().challenge.body.about == manifest::About::kChunk && game.decision() &&
                        !game.decision()->falls;
  if (!answered || clock.logged(game.last())) return {};
  return Error{ErrorCode::kInconclusive, "the chunk's answer has no receipt by the ledger's operator",
               "name him, and add his receipt"};
}

Status play(Game& game, const Parts& parts, const Clock& clock) {
  for (const auto& [line, move] : parts.moves) {
    if (const auto words = is_next(game, move) ? late(game, clock, move) : std::nullopt) {
      game.time_out(*words);
      return {};
    }
    if (Status status = game.apply(move); !status.ok()) return within(line_text(line), status.error());
  }
  if (game.decision()) return check_fetched(game, clock);
  if (missed(game, clock)) game.miss_turn();
  return {};
}

}  // namespace

Result<Transcript> play_transcript(std::string_view text, const std::optional<Digest>& operator_key) {
  if (text.size() > kMaxTranscriptBytes)
    return malformed(fmt::format("has {} bytes, at most {} allowed", text.size(), kMaxTranscriptBytes));
  Parts parts;
  Clock clock(operator_key);
  std::vector<TranscriptLine> lines;
  std::set<Digest> seen;
  while (!text.empty()) {
    const std::size_t line = lines.size();
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return malformed(line_text(line) + ": no newline at its end");
    if (line == kMaxTranscriptLines) return malformed(fmt::format("more than {} lines", kMaxTranscriptLines));
    auto statement = manifest::open_any(text.substr(0, end));
    if (!statement.ok()) return within(line_text(line), statement.error());
    if (!seen.insert(statement->id).second)
      return malformed(line_text(line) + ": a statement that is there already");
    lines.push_back({manifest::kind_of(statement->body), statement->id, statement->key_id, end + 1});
    if (Status status = take(parts, clock, line, *std::move(statement)); !status.ok())
      return within(line_text(line), status.error());
    text.remove_prefix(end + 1);
  }
  if (!parts.challenge) return malformed("has no challenge: task, proof and challenge come first");
  DGX_TRY(Game game, Game::open({*std::move(parts.task), *std::move(parts.proof), std::move(parts.verdict),
                                 std::move(parts.beacon), *std::move(parts.challenge)}));
  DGX_CHECK(play(game, parts, clock));
  return Transcript{std::move(game), std::move(lines)};
}

}  // namespace dgx::protocol
