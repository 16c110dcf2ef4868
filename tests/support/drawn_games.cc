#include <fmt/format.h>

#include <algorithm>

#include "dgx/protocol/draw.h"
#include "dgx/protocol/segments.h"
#include "liars.h"
#include "statements.h"

namespace dgx::test {

using namespace protocol;
using manifest::Move;
using manifest::RulingReason;
using manifest::Signed;

namespace {

Side other(Side side) { return side == Side::kDefender ? Side::kChallenger : Side::kDefender; }

/// Plays moves that are not valid next moves, and checks the fate of each.
class Interference {
 public:
  Interference(Game& game, Side liar, Dice& dice) : game_(game), liar_(liar), dice_(dice) {}

  void note(const Signed<Move>& move) { moves_.push_back(move); }

  /// Plays one such move; returns the rule that was broken, or an empty string.
  std::string play() {
    Move move{game_.dispute().task.id,
              game_.dispute().challenge.id,
              game_.turn(),
              game_.last(),
              {{"kind", "accept"}}};
    std::uint8_t key = key_of(game_, liar_);
    switch (dice_.below(8)) {
      case 0:
        if (moves_.empty()) return {};
        return refused(dice_.pick(moves_), "a move again");
      case 1:
        move.game = digest("another game");
        return refused(stated(move, key, false), "a move of another game");
      case 2:
        move.task = digest("another task");
        return refused(stated(move, key, false), "a move of another task");
      case 3:
        move.previous = digest("nothing");
        move.turn += dice_.below(5) - 2;
        return refused(stated(move, key, false), "an answer to nothing");
      case 4: key = 7; return refused(stated(move, key, false), "a stranger's move");
      case 5:
        move.turn += dice_.one_in(2) ? 1 + dice_.below(9) : -1 - dice_.below(3);
        return convicted(stated(move, key, false), RulingReason::kMalformed);
      case 6: {
        if (game_.due().side != liar_) return convicted(stated(move, key, false), RulingReason::kOutOfTurn);
        if (game_.turn() == 1) return {};
        move.turn = game_.turn() - 1;
        move.previous = moves_.back().body.previous;
        return convicted(stated(move, key, false), RulingReason::kOutOfTurn);
      }
      default: {
        const auto own = std::find_if(moves_.begin(), moves_.end(),
                                      [&](const auto& taken) { return taken.key_id == game_.party(liar_); });
        if (own == moves_.end()) return {};
        move = own->body;
        move.say.emplace("more", 1);
        return convicted(stated(move, key, false), RulingReason::kTwoMoves);
      }
    }
  }

 private:
  std::string refused(const Signed<Move>& move, const char* what) {
    const std::int64_t turn = game_.turn();
    if (game_.apply(move).ok()) return fmt::format("{} is taken", what);
    if (game_.turn() != turn || game_.decision()) return fmt::format("{} changes the game", what);
    return {};
  }
  std::string convicted(const Signed<Move>& move, RulingReason reason) {
    if (!game_.apply(move).ok()) return fmt::format("\"{}\" is refused", manifest::name_of(reason));
    if (!game_.decision()) return fmt::format("\"{}\" is taken", manifest::name_of(reason));
    if (game_.decision()->reason != reason)
      return fmt::format("\"{}\" ends as \"{}\"", manifest::name_of(reason), game_.decision()->words);
    return {};
  }

  Game& game_;
  Side liar_;
  Dice& dice_;
  std::vector<Signed<Move>> moves_;
};

std::string check_end(const Game& game, Side honest, std::int64_t moves, std::int64_t most) {
  const Decision& decision = *game.decision();
  if (decision.falls != (honest == Side::kChallenger)) return "the honest side lost: " + decision.words;
  if (moves > most) return fmt::format("{} moves, at most {}", moves, most);
  const auto ruling = game.ruling();
  if (!ruling.ok()) return "no ruling: " + ruling.error().message;
  if (ruling->words.empty() || ruling->words.size() > 1024) return "a ruling without words, or of too many";
  return {};
}

}  // namespace

DrawnGame play_drawn(Dispute dispute, Side honest, Player& player, Liar& liar, std::int64_t most,
                     bool statement_is_wrong, Dice& dice) {
  DrawnGame out;
  auto opened = Game::open(std::move(dispute));
  if (!opened.ok()) {
    out.problem = "void: " + opened.error().message;
    return out;
  }
  Game& game = *opened;
  Interference interference(game, other(honest), dice);
  while (!game.decision() && out.problem.empty()) {
    const Side side = game.due().side;
    if (dice.one_in(40)) out.problem = interference.play();
    if (game.decision() || !out.problem.empty()) break;
    json::Object object;
    if (side == honest) {
      auto message = player.next(game);
      if (message.ok() && !*message && honest == Side::kChallenger && !statement_is_wrong) return out;
      if (!message.ok() || !*message) {
        out.problem = fmt::format("the honest {} has nothing to say to: {}{}", name_of(side),
                                  game.due().words, message.ok() ? "" : ": " + message.error().message);
        return out;
      }
      object = print_message(**message);
    } else {
      auto said = liar.say(game);
      if (!said) return out;
      object = *std::move(said);
    }
    const auto move = move_of(game, side, std::move(object));
    const std::size_t bytes = payload_bytes(move, key_of(game, side));
    if (bytes > manifest::kMaxMoveBytes) {
      if (side == honest) out.problem = fmt::format("a move of {} bytes", bytes);
      return out;
    }
    out.longest = std::max(out.longest, bytes);
    interference.note(move);
    ++out.moves;
    if (const Status status = game.apply(move); !status.ok()) out.problem = status.error().message;
  }
  out.decision = game.decision();
  if (out.problem.empty() && out.decision) out.problem = check_end(game, honest, out.moves, most);
  return out;
}

DrawnGames::DrawnGames(std::uint64_t seed) : dice_(seed) {
  add(small_scene(), 60);
  for (int which = 0; which < 4; ++which) add(tiny_scene(which), 10);
  add(growing_scene(), 20);
  add(long_scene(), 2);
  add(wide_scene(), 1);
  add(large_scene(), 1);
}
DrawnGames::~DrawnGames() = default;

void DrawnGames::add(Scene scene, std::int64_t weight) {
  auto setting = std::make_unique<Setting>(Setting{std::move(scene), {}, {}, weight});
  setting->honest = std::make_unique<TinyParty>(setting->scene);
  setting->player = std::make_unique<Player>(setting->scene.program, *setting->honest);
  weights_ += weight;
  settings_.push_back(std::move(setting));
}

DrawnGames::Setting& DrawnGames::draw() {
  std::int64_t at = dice_.below(weights_);
  for (const auto& setting : settings_) {
    at -= setting->weight;
    if (at < 0) return *setting;
  }
  return *settings_.back();
}

DrawnGame DrawnGames::play(std::string& about) {
  Setting& setting = draw();
  const Scene& scene = setting.scene;
  TinyParty& honest = *setting.honest;
  const auto segments = *Segments::of(scene.task.body.steps, scene.task.body.checkpoint_every);
  const Segment segment = segments[dice_.below(segments.count())];
  honest.look(segment.first, segment.end);
  std::vector<Fault> faults;
  for (std::int64_t n = dice_.one_in(4) ? 0 : 1 + dice_.below(3); n > 0; --n)
    faults.push_back(draw_fault(scene, segment.first, segment.end, dice_));
  TinyParty story(scene, faults, &honest);
  story.ignores_non_finite = true;
  ChangingParty changing({&story, &story, &honest}, dice_);
  const auto style = static_cast<Liar::Style>(dice_.below(4));
  Party& told = dice_.one_in(6) ? static_cast<Party&>(changing) : story;
  Liar liar(scene, told, honest, style, dice_);

  const bool defends = dice_.one_in(2);  // the honest side is the defender
  const bool non_finite = (*honest.non_finite_after()).has_value();
  Setup setup;
  setup.segment = segment.index;
  setup.policy_draw = dice_.one_in(2);
  TinyParty& stated_by = defends ? honest : story;
  const bool of_verdict = (defends && non_finite) || dice_.one_in(2);
  // The committed states: about a proof the defender's; about a verdict the liar's if the honest side gave
  // it, else the right ones.
  setup.prover = of_verdict && defends ? &story : of_verdict ? &honest : &stated_by;
  setup.verifier = of_verdict ? &stated_by : nullptr;
  if (of_verdict && !non_finite && dice_.one_in(3)) setup.about = manifest::About::kWitness;
  about = fmt::format("{}, segment {}, honest {}, {}, style {}{}", scene.name, segment.index,
                      defends ? "defender" : "challenger",
                      setup.about == manifest::About::kWitness ? "witness"
                      : of_verdict                             ? "verdict"
                                                               : "proof",
                      static_cast<int>(style), &told == &story ? "" : ", changing");
  for (const Fault& fault : faults) about += "; " + to_string(fault);
  const bool witness = setup.about == manifest::About::kWitness;
  Dispute dispute = dispute_of(scene, setup);
  if (witness && setup.policy_draw && dice_.one_in(2)) {  // the row itself is demanded, if it was drawn
    setup.about = manifest::About::kRow;
    Dispute of_row = dispute_of(scene, setup);
    if (Game::open(of_row).ok()) dispute = std::move(of_row);
  }
  const bool row = dispute.challenge.body.about == manifest::About::kRow;
  about += row ? "; the row" : "";
  bool wrong =
      story.state_record(segment.end).digest != honest.state_record(segment.end).digest || non_finite;
  if (witness) {
    const std::int64_t step = witness_step(segment);
    const bool false_witness = story.state_record(step).digest != honest.state_record(step).digest;
    wrong = row ? wrong || false_witness : false_witness;
  }
  DrawnGame out = play_drawn(
      dispute, defends ? Side::kDefender : Side::kChallenger, *setting.player, liar,
      most_moves(scene, segment.length(), (row ? 1 : 0) + (witness || (of_verdict && non_finite) ? 1 : 0)),
      wrong, dice_);
  out.scene = &scene;
  return out;
}

}  // namespace dgx::test
