// Small games explored exhaustively: whatever a liar chooses at every move, allowed by its stage or not, the
// honest side wins within the bound.

#include <catch2/catch.hpp>
#include <cstring>
#include <set>

#include "dgx/merkle/openings.h"
#include "dgx/merkle/tree.h"
#include "disputes.h"
#include "party_view.h"
#include "statements.h"

using namespace dgx;
using namespace dgx::test;
using namespace dgx::protocol;

namespace {

/// Everything that a liar with some stories may say.
class Choices {
 public:
  Choices(const Scene& scene, std::vector<Party*> stories) : scene_(scene), stories_(std::move(stories)) {
    for (Party* story : stories_) {
      players_.push_back(std::make_unique<Player>(scene.program, *story));
      views_.push_back(std::make_unique<PartyView>(scene.program, *story));
    }
  }

  std::vector<json::Object> of(const Game& game) {
    out_.clear();
    seen_.clear();
    for (const auto& player : players_) {
      auto message = player->next(game);
      if (message.ok() && *message) add(**message);
    }
    add(Accept{});
    add(Name{1'000, std::nullopt});
    if (game.due().side == Side::kDefender) {
      shows(game);
    } else {
      chooses(game);
    }
    return out_;
  }

 private:
  void add(const Message& message) {
    json::Object object = print_message(message);
    if (seen_.insert(json::Value(object).dump()).second) out_.push_back(std::move(object));
  }

  void shows(const Game& game) {
    if (game.stage<ShowStates>()) mixed_states(game.state());
    if (game.stage<ShowNumbers>()) {
      const auto message = players_[0]->next(game);
      if (message.ok()) changed_numbers(std::get<NumbersPost>(**message).numbers);
    }
  }
  /// Posts every combination of interior states, each from any story or invented.
  void mixed_states(const GameState& state) {
    std::vector<std::vector<Digest>> lists{{}};
    for (std::int64_t step = state.first_step + 1; step < state.end_step; ++step) {
      std::set<Digest> of_step{digest("none")};
      for (Party* story : stories_) of_step.insert(*story->state(step));
      std::vector<std::vector<Digest>> longer;
      for (const auto& list : lists) {
        for (const Digest& digest : of_step) {
          longer.push_back(list);
          longer.back().push_back(digest);
        }
      }
      lists = std::move(longer);
    }
    for (auto& list : lists) add(StatesPost{std::move(list)});
  }
  /// Posts the entries with any subset of them one up, or one down.
  void changed_numbers(const Bytes& numbers) {
    const std::size_t count = numbers.size() / 4;
    for (std::size_t subset = 1; subset < std::size_t{1} << std::min<std::size_t>(count, 5); ++subset) {
      for (const std::uint32_t by : {1U, 0xFFFFFFFFU}) {
        Bytes other = numbers;
        for (std::size_t i = 0; i < count; ++i) {
          if ((subset >> i & 1) == 0) continue;
          std::uint32_t bits = 0;
          std::memcpy(&bits, other.data() + 4 * i, 4);
          bits += by;
          std::memcpy(other.data() + 4 * i, &bits, 4);
        }
        add(NumbersPost{std::move(other)});
      }
    }
  }

  /// The number of things that the stage gives to choose from.
  static std::int64_t count_in(const Stage& stage) {
    return std::visit(
        [](const auto& at) -> std::int64_t {
          if constexpr (requires { at.states; }) {
            return std::ssize(at.states) + 1;
          } else if constexpr (requires { at.fold; }) {
            return std::ssize(at.fold.shown());
          } else if constexpr (requires { at.count(); }) {
            return at.count();
          } else if constexpr (requires { at.shown; }) {
            return 1;
          } else if constexpr (requires { at.entries; }) {
            return std::ssize(at.entries.last().children);
          } else if constexpr (requires { at.tensor; }) {
            return std::ssize(at.tensor.last().children);
          } else if constexpr (requires { at.table; }) {
            return std::ssize(at.table.last().children);
          } else {
            return 0;
          }
        },
        stage);
  }

  void chooses(const Game& game) {
    const std::int64_t step = game.state().first_step;
    const std::int64_t count = count_in(game.state().stage);
    for (std::int64_t index = 0; index <= count; ++index) {
      if (!game.stage<ChooseValue>()) add(Name{index, std::nullopt});
      if (game.stage<ChooseValue>() && index < count) values(step, index);
      if (game.stage<ChooseElement>() || game.stage<ChooseNumber>()) numbers(game, index, index < count);
    }
    entries(step);
  }
  void values(std::int64_t step, std::int64_t index) {
    const OpenedLine line = views_[0]->line(kernels::ValueIndex(index));
    add(Name{index, line});
    for (Party* story : stories_) {
      const auto entries = *story->entries(step);
      for (const merkle::NamedDigest& entry : entries) {
        auto opening = merkle::open_entry(entries, entry.name);
        if (opening.ok()) add(StateInputClaim{index, line, *std::move(opening)});
      }
    }
  }
  void numbers(const Game& game, std::int64_t index, bool there) {
    const std::int64_t step = game.state().first_step;
    add(InputClaim{index, std::nullopt});
    add(OperationClaim{index, {}});
    if (!there) return;
    for (const auto& view : views_) {
      if (const auto* stage = game.stage<ChooseNumber>()) {
        if (!stage->fold.at_position()) continue;
        auto operands = view->operands(step, stage->value, stage->element, stage->fold.position(index));
        if (operands.ok()) add(OperationClaim{index, *std::move(operands)});
      } else if (game.state().value()->line.kind == kernels::Kind::kMap) {
        auto operands = view->operands(step, *game.state().value(), index, std::nullopt);
        if (operands.ok()) add(OperationClaim{index, *std::move(operands)});
      }
    }
  }
  /// Claims b and f with every line, entry and value.
  void entries(std::int64_t step) {
    for (const kernels::ValueIndex v : scene_.program.values.indices()) {
      EntryClaim claim;
      claim.line = views_[0]->line(v);
      add(claim);
    }
    for (std::size_t s = 0; s < stories_.size(); ++s) {
      const auto entries = *stories_[s]->entries(step + 1);
      for (const merkle::NamedDigest& entry : entries) {
        const auto opening = merkle::open_entry(entries, entry.name);
        if (!opening.ok()) continue;
        EntryClaim claim;
        claim.before = *opening;
        add(claim);
        for (const kernels::ValueIndex v : scene_.program.values.indices()) {
          claim.line = views_[0]->line(v);
          add(claim);
        }
        const auto tensor = stories_[s]->entry(step + 1, entry.name);
        if (tensor.ok()) add(NonFiniteClaim{*opening, *merkle::open_tensor(tensor->view(), 0)});
      }
      const auto values = *stories_[s]->values(step);
      const auto leaves = *views_[s]->value_leaves(step);
      for (std::size_t v = 0; v < values.size(); ++v) {
        EntryClaim claim;
        claim.digest = values[v];
        claim.path = *merkle::inclusion_path(leaves, v);
        add(claim);
      }
    }
  }

  const Scene& scene_;
  std::vector<Party*> stories_;
  std::vector<std::unique_ptr<Player>> players_;
  std::vector<std::unique_ptr<PartyView>> views_;
  std::vector<json::Object> out_;
  std::set<std::string> seen_;
};

struct Explored {
  std::int64_t ends = 0;
  std::int64_t longest = 0;
};

/// Plays on from here for every choice of the liar.
void explore(const Game& game, Side honest, Player& player, Choices& liar, Explored& out) {
  if (const auto& decision = game.decision()) {
    ++out.ends;
    out.longest = std::max(out.longest, game.turn() - 1);
    if (decision->falls != (honest == Side::kChallenger)) {
      INFO(decision->words);
      FAIL("the honest side lost");
    }
    return;
  }
  if (game.due().side == honest) {
    const auto message = player.next(game);
    REQUIRE(message.ok());
    REQUIRE(*message);
    Game next = game;
    REQUIRE(next.apply(move_of(next, honest, print_message(**message))).ok());
    return explore(next, honest, player, liar, out);
  }
  const Side side = game.due().side;
  for (const json::Object& object : liar.of(game)) {
    Game next = game;
    REQUIRE(next.apply(move_of(next, side, object)).ok());
    explore(next, honest, player, liar, out);
  }
}

std::vector<Fault> all_faults(const Scene& scene, std::int64_t step) {
  std::vector<Fault> out;
  const std::int64_t values = std::ssize(scene.program.values);
  for (std::int64_t value = 0; value < values; ++value) {
    for (const bool consistent : {false, true})
      out.push_back({Fault::Kind::kValue, step, value, 1, 3, consistent});
    for (const Fault::Kind kind :
         {Fault::Kind::kNan, Fault::Kind::kShape, Fault::Kind::kType, Fault::Kind::kDigest})
      out.push_back({kind, step, value, 0, 1, false});
  }
  for (std::int64_t entry = 0; entry < std::ssize(scene.initial); ++entry) {
    for (int kind = static_cast<int>(Fault::Kind::kEntry); kind <= static_cast<int>(Fault::Kind::kState);
         ++kind)
      out.push_back({static_cast<Fault::Kind>(kind), step, entry, 0, 1, true});
  }
  return out;
}

/// Commits to every fault of every step; the liar tells that story, another one, or none, and varies it.
void explore_scene(int which) {
  const Scene scene = tiny_scene(which);
  const std::int64_t steps = scene.task.body.steps;
  TinyParty honest(scene);
  Player player(scene.program, honest);
  Explored all;
  for (std::int64_t step = 0; step < steps; ++step) {
    for (const Fault& fault : all_faults(scene, step)) {
      TinyParty story(scene, {fault}, &honest);
      TinyParty other(scene, {{Fault::Kind::kValue, (step + 1) % steps, 1, 0, 5, true}}, &honest);
      Choices liar(scene, {&story, &honest, &other});
      const bool wrong = story.state_record(steps).digest != honest.state_record(steps).digest;
      INFO(scene.name << ", " << to_string(fault));
      for (const Side side : {Side::kDefender, Side::kChallenger}) {
        if (side == Side::kChallenger && !wrong) continue;
        if (side == Side::kDefender && fault.kind != Fault::Kind::kValue) continue;  // the proof is right
        Setup setup;
        setup.prover = side == Side::kDefender ? &honest : &story;
        const auto game = Game::open(dispute_of(scene, setup));
        REQUIRE(game.ok());
        explore(*game, side, player, liar, all);
      }
    }
  }
  CHECK(all.longest <= most_moves(scene, steps));
  CHECK(all.ends > 5'000);
  UNSCOPED_INFO(all.ends << " ends, at most " << all.longest << " moves");
  CHECK(all.longest >= 6);
}

}  // namespace

TEST_CASE("Every game about a map ends well for whoever is right") { explore_scene(0); }
TEST_CASE("Every game about a dot ends well for whoever is right") { explore_scene(1); }
TEST_CASE("Every game about a sum ends well for whoever is right") { explore_scene(2); }
TEST_CASE("Every game about a chain ends well for whoever is right") { explore_scene(3); }
