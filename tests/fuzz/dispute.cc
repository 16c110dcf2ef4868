// Disputes, in two ways: a transcript as text, for the referee's whole reader; and lines of messages,
// after a first line with the number of the challenge, which get past the signatures. The game never forgets
// its decision, a ruling can be signed, and its story has every move and an end.

#include "dgx/jobs/dispute_story.h"
#include "dgx/protocol/referee.h"
#include "dispute_vectors.h"
#include "played.h"
#include "statements.h"
#include "target.h"

using namespace dgx;
using namespace dgx::test;

namespace {

void check_ruling(const protocol::Game& game) {
  const auto ruling = game.ruling();
  fuzz::require(ruling.ok() == game.decision().has_value(), "a game that is over has a ruling");
  if (!ruling.ok()) return;
  fuzz::require(manifest::seal(*ruling, key(9)).ok(), "a ruling can be signed");
}

void tell(const protocol::Game& game, std::span<const manifest::Signed<manifest::Move>> moves) {
  static const std::map<Digest, std::int64_t> no_times;
  jobs::Cast cast;
  jobs::cast_dispute(game.dispute(), cast);
  const jobs::DisputeStory story = jobs::tell_dispute({game, moves, no_times}, cast);
  const bool over = story.ending != jobs::DisputeStory::Ending::kOpen;
  fuzz::require(over == game.decision().has_value() && !story.end.empty(), "a story has the game's end");
  fuzz::require(story.moves.size() == moves.size(), "a story has every move");
  fuzz::require(jobs::print_text(story).ends_with('\n'), "a story is lines");
}

void play_lines(std::string_view text) {
  const std::size_t end = text.find('\n');
  if (end != 1 && end != 2) return;
  std::size_t number = 0;
  for (const char digit : text.substr(0, end))
    number = number * 10 + static_cast<std::size_t>(digit - '0') % 10;
  text.remove_prefix(end + 1);
  auto game = protocol::Game::open(examples()[number % examples().size()].dispute);
  fuzz::require(game.ok(), "the challenge is good");
  std::vector<manifest::Signed<manifest::Move>> moves;
  while (!text.empty() && !game->decision()) {
    const std::size_t line = text.find('\n');
    const auto say = json::parse(text.substr(0, line));
    if (!say.ok() || say->as_object() == nullptr) break;
    const auto move = move_of(*game, game->due().side, *say->as_object());
    fuzz::require(game->apply(move).ok(), "the next turn is taken, whatever it says");
    fuzz::require(game->turn() <= 60, "a game ends");
    moves.push_back(move);
    text.remove_prefix(line == std::string_view::npos ? text.size() : line + 1);
  }
  check_ruling(*game);
  tell(*game, moves);
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < examples().size(); ++i) {
    const Example& example = examples()[i];
    std::string lines = std::to_string(i) + "\n";
    for (const auto& move : example.moves) lines += json::Value(move.body.say).dump() + "\n";
    out.push_back(lines);
    out.push_back(transcript_of(example.dispute, example.moves));
  }
  // Rounds, offers and secrets, in their places and elsewhere.
  for (const DisputeVector& vector : dispute_vectors(DGX_VECTORS "/dispute.json")) {
    if (vector.name.find("forced") != std::string::npos) out.push_back(vector.transcript);
  }
  return out;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  if (const auto transcript = protocol::play_transcript(text); transcript.ok()) {
    check_ruling(transcript->game);
    tell(transcript->game, transcript->moves);
  }
  play_lines(text);
  return 0;
}
