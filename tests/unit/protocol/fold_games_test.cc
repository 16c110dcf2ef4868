// Whole signed games about folds of sizes around every limit of dgx-dispute(7), "Numbers": the honest side
// wins, whatever anyone says at any point.
#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "dgx/protocol/referee.h"
#include "disputes.h"
#include "party_view.h"

using namespace dgx;
using namespace dgx::test;
using namespace dgx::protocol;

namespace {

constexpr std::int64_t kInputs = 7;

struct Form {
  const char* kind;
  const char* type;
  std::vector<std::string> steps;
};

const Form kDot{"dot", "f32", {}};
const Form kSum{"sum", "f32", {"mul x0 0x1.1p0"}};
const Form kSum64{"sum", "i64", {"add x0 k0"}};
const Form kSum8{"sum", "u8", {"abs x0"}};
const Form kMax{"max", "f32", {"abs x0"}};
const Form kMax64{"max", "i64", {}};
const Form kMax8{"max", "u8", {}};
const Form kArgmax{"argmax", "f32", {"mul x0 x0"}};
const Form kArgmax64{"argmax", "i64", {"mul x0 x0"}};
const Form kChain{"chain", "f32", {"mul acc 0x1.fp-1", "add t0 x0"}};
const Form kChain64{"chain", "i64", {"mul acc 3", "add t0 x0"}};

/// Two steps of a program whose value 1 is a fold of `n` positions; each of seven numbers is read at n / 7 of
/// them.
Scene fold_scene(const Form& form, std::int64_t n) {
  Sketch s;
  const std::string kind = form.kind;
  const bool argmax = kind == "argmax";
  s.state("model/w", form.type, {kInputs});
  Sketch::Line line{form.kind, {}, {}, form.steps, {n}, argmax ? "i64" : form.type};
  line.x = {fmt::format("0[k0//{}]", n / kInputs + 2)};
  if (kind == "dot") line.x.push_back(fmt::format("0[k0//{}]", n / 5 + 2));
  if (kind == "chain") line.init = std::string(form.type) == "f32" ? "0x1p0" : "1";
  const int fold = s.add(line);
  s.next(s.state("model/z", argmax ? "i64" : form.type, {}), fold);
  return scene_of(fmt::format("{} {} of {}", form.kind, form.type, n), s.finish(), 2, 2, 1);
}

/// A cheat who computes with another number `at` of the input but shows the right input: the fold is wrong
/// from the first position that reads it on, and every list follows consistently.
class Misreader : public Party {
 public:
  Misreader(const Scene& scene, TinyParty& honest, std::size_t at)
      : honest_(honest), other_(altered(scene, at)), wrong_(other_) {}

  Result<std::optional<std::int64_t>> non_finite_after() override { return std::optional<std::int64_t>(); }
  Result<Digest> state(std::int64_t step) override { return party(step).state(step); }
  Result<std::vector<merkle::NamedDigest>> entries(std::int64_t step) override {
    return party(step).entries(step);
  }
  Result<std::vector<Digest>> values(std::int64_t step) override {
    std::vector<Digest> out = *wrong_.values(step);
    out[0] = honest_.values(step)->at(0);
    return out;
  }
  Result<Tensor> value(std::int64_t step, kernels::ValueIndex v) override { return wrong_.value(step, v); }
  Result<DataOpening> data(std::string_view field, std::int64_t element) override {
    return honest_.data(field, element);
  }
  Result<Tensor> entry(std::int64_t step, std::string_view name) override { return wrong_.entry(step, name); }

 private:
  Party& party(std::int64_t step) { return step == 0 ? static_cast<Party&>(honest_) : wrong_; }
  static Scene altered(Scene scene, std::size_t at) {
    Tensor& w = find_entry(scene.initial, "model/w")->tensor;
    if (w.dtype() == DType::kF32) w.as<float>()[at] = 50.0F;
    if (w.dtype() == DType::kI64) w.as<std::int64_t>()[at] = 500;
    if (w.dtype() == DType::kU8) w.bytes()[at] = 255;
    return scene;
  }

  TinyParty& honest_;
  Scene other_;
  TinyParty wrong_;
};

/// The next message of a challenger who descends to entry `which` of every list (the last, if it is shorter)
/// and makes the claim there.
Message named(const Game& game, PartyView& view, std::int64_t which) {
  if (game.stage<ChooseState>() || game.stage<ChooseElement>()) return Name{0, std::nullopt};
  if (game.stage<ChooseValue>()) return Name{1, view.line(kernels::ValueIndex{1})};
  const auto* stage = game.stage<ChooseNumber>();
  REQUIRE(stage);
  const std::int64_t entry = std::min(which, std::ssize(stage->fold.shown()) - 1);
  if (!stage->fold.at_position()) return Name{entry, std::nullopt};
  auto operands =
      view.operands(game.state().first_step, stage->value, stage->element, stage->fold.position(entry));
  REQUIRE(operands.ok());
  return OperationClaim{entry, *std::move(operands)};
}

/// A signed game played to its end and read again as a transcript, as a referee would.
struct Ended {
  bool falls = false;
  manifest::Ruling ruling;
};
Ended end_of(const Game& game, const std::vector<manifest::Signed<manifest::Move>>& moves) {
  REQUIRE(game.decision());
  const auto transcript = play_transcript(transcript_of(game.dispute(), moves));
  REQUIRE(transcript.ok());
  const auto ruling = transcript->game.ruling();
  REQUIRE(ruling.ok());
  CHECK(*ruling == *game.ruling());
  return {ruling->falls, *ruling};
}

void defend(const Scene& scene, TinyParty& honest, std::int64_t which) {
  INFO("entry " << which << " of every list is challenged");
  Setup setup;
  setup.prover = &honest;
  setup.sealed = true;
  auto game = Game::open(dispute_of(scene, setup));
  REQUIRE(game.ok());
  Player player(scene.program, honest);
  PartyView view(scene.program, honest);
  std::vector<manifest::Signed<manifest::Move>> moves;
  while (!game->decision()) {
    const Side side = game->due().side;
    const auto shown =
        side == Side::kDefender ? player.next(*game) : std::optional(named(*game, view, which));
    REQUIRE(shown.ok());
    moves.push_back(move_of(*game, side, print_message(**shown), true));
    REQUIRE(game->apply(moves.back()).ok());
  }
  const Ended ended = end_of(*game, moves);
  INFO(ended.ruling.words);
  CHECK(!ended.falls);
  CHECK(ended.ruling.claim == manifest::Claim::kOperation);
  CHECK(std::ssize(moves) <= most_moves(scene, 2));
}

/// Checks that the fold is convicted, at the first position that reads the number.
void convict(const Scene& scene, TinyParty& honest, std::size_t at) {
  INFO("the cheat reads another number " << at);
  Misreader cheat(scene, honest, at);
  if (cheat.values(0)->at(1) == honest.values(0)->at(1)) return;  // another number is the maximum
  Setup setup;
  setup.sealed = true;
  const Played played = play(scene, dispute_of(scene, setup, cheat), cheat, honest, true);
  INFO(played.error);
  const Ended ended = end_of(played.game, played.moves);
  INFO(ended.ruling.words);
  CHECK(ended.falls);
  CHECK(ended.ruling.reason == manifest::RulingReason::kClaim);
  CHECK(ended.ruling.at.value == 1);
  const std::int64_t n = scene.program.values[kernels::ValueIndex{1}].fold[0];
  if (at == 0) CHECK(ended.ruling.at.position == 0);
  CHECK(*ended.ruling.at.position >= static_cast<std::int64_t>(at) * (n / kInputs + 2) / 2);
}

void play_all(const Form& form, std::int64_t n, const std::vector<std::int64_t>& places, std::size_t inputs) {
  const Scene scene = fold_scene(form, n);
  INFO(scene.name);
  TinyParty honest(scene);
  for (const std::int64_t place : places) defend(scene, honest, place);
  const auto last = static_cast<std::size_t>((n - 1) / (n / kInputs + 2));
  for (std::size_t at = 0; at <= last; at += std::max<std::size_t>(1, last / inputs))
    convict(scene, honest, at);
}

constexpr std::int64_t kLast = std::int64_t{1} << 40;

}  // namespace

TEST_CASE("Every fold of a size around a limit can be defended and attacked, at every place") {
  for (const Form* form :
       {&kDot, &kSum, &kSum64, &kSum8, &kMax, &kMax64, &kMax8, &kArgmax, &kArgmax64, &kChain, &kChain64}) {
    for (const std::int64_t n :
         {1, 2, 31, 32, 33, 255, 256, 257, 1023, 1024, 1025, 2047, 2048, 2049, 4095, 4096, 4097})
      play_all(*form, n, {0, 1, 31, 32, 1023, kLast}, 3);
  }
}

TEST_CASE("Sums at the limit of their second level can be defended and attacked") {
  for (const Form* form : {&kSum, &kSum64, &kSum8}) {
    for (const std::int64_t n : {2047 * 2048, 2047 * 2048 + 1, 2048 * 2048 - 1, 2048 * 2048, 2048 * 2048 + 1})
      play_all(*form, n, {kLast}, 1);
  }
}

TEST_CASE("Folds whose lists are narrowed twice can be defended and attacked") {
  for (const Form* form : {&kMax, &kChain64}) {
    for (const std::int64_t n : {2048 * 2048, 2048 * 2048 + 1}) play_all(*form, n, {kLast}, 1);
  }
  for (const Form* form : {&kArgmax, &kArgmax64}) {
    for (const std::int64_t n : {1024 * 1024, 1024 * 1024 + 1}) play_all(*form, n, {kLast}, 1);
  }
  for (const std::int64_t n : {2048 * 4096, 2048 * 4096 + 1}) play_all(kDot, n, {kLast}, 1);
}
