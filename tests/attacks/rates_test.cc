// dgx-threats(7), rows 1 to 5, 9 and 11: the rates at which honest segments are accepted, and forged ones
// refuted and convicted.

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <map>

#include "dgx/kernels/cpu/dispatch.h"
#include "dgx/protocol/verify.h"
#include "forgeries.h"
#include "lying_trainer.h"
#include "statements.h"

using namespace dgx;
using namespace dgx::test;
namespace cpu = kernels::cpu;

namespace {

constexpr std::int64_t kSteps = 180;
constexpr std::int64_t kEvery = 3;

/// A training, with its truth by kernels/ref and an executor.
struct Training {
  Scene scene;
  TinyParty honest;
  protocol::Segments segments;
  std::shared_ptr<const program::Program> program;

  explicit Training(Scene made)
      : scene(std::move(made)),
        honest(scene),
        segments(*protocol::Segments::of(kSteps, kEvery)),
        program(std::make_shared<const program::Program>(scene.program)) {}

  [[nodiscard]] std::unique_ptr<exec::ExactExecutor> executor(int threads) const {
    Result<std::unique_ptr<exec::ExactExecutor>> made =
        exec::ExactExecutor::create(program, inputs_of(scene), threads);
    REQUIRE(made.ok());
    return std::move(made).value();
  }
  /// The digests that an honest solver commits to.
  [[nodiscard]] std::vector<Digest> committed() {
    std::vector<Digest> states;
    for (std::int64_t i = 0; i <= segments.count(); ++i)
      states.push_back(honest.state_record(segments.boundary(i)).digest);
    return states;
  }
  /// An honest verifier's row about a segment that allegedly ends in `end`.
  [[nodiscard]] manifest::VerdictRow row(exec::ExactExecutor& executor, const protocol::Segment& segment,
                                         const Digest& end) {
    protocol::Assignment assignment;
    assignment.task = scene.task.id;
    assignment.proof = digest("proof");
    assignment.verifier = key_id(kJudge);
    const StateRecord& start = honest.state_record(segment.first);
    const auto made =
        protocol::replay_segment(executor, state_of(start), segment, start.digest, end, assignment);
    REQUIRE(made.ok());
    return *made;
  }
};

std::vector<std::unique_ptr<Training>>& trainings() {
  using program::Activation;
  static std::vector<std::unique_ptr<Training>> all;
  if (!all.empty()) return all;
  const std::vector<Recipe> recipes = {
      {},
      {{5, 6, 3}, Activation::kTanh, "adam:lr=0.01", {}},
      {{4, 6, 4, 3}, Activation::kGelu, "adamw:lr=0.01,weight-decay=0.1", 0.5},
      {{5, 7, 3}, Activation::kSigmoid, "sgd:lr=0.5,momentum=0.9,nesterov,weight-decay=0.001", {}},
      {{4, 5, 3}, Activation::kGeluTanh, "sgd:lr=0.1,momentum=0.5", 1.0},
      {{300, 4, 3}, Activation::kRelu, "sgd:lr=0.05,momentum=0.9", {}},
  };
  for (std::size_t i = 0; i < recipes.size(); ++i)
    all.push_back(std::make_unique<Training>(training_scene(recipes[i], kSteps, kEvery, 100 + i)));
  return all;
}

/// The number of attacks of each kind: DGX_ATTACKS, by default 200.
int attacks() {
  const char* text = std::getenv("DGX_ATTACKS");
  return text == nullptr ? 200 : std::max(200, std::atoi(text));
}

/// Counts of outcomes for one kind of forgery.
struct Tally {
  int mounted = 0;
  int refuted = 0;    ///< by the replay of the segment
  int convicted = 0;  ///< by a dispute
  int harmless = 0;   ///< gave the honest state: not a forgery, drawn again
  std::map<std::string, int> by;
};

std::string end_of(const protocol::Decision& decision) {
  std::string out = decision.claim ? manifest::name_of(*decision.claim) : "";
  if (decision.scalar) out += " " + decision.scalar->operation;
  return out.empty() ? std::string(manifest::name_of(decision.reason)) : out;
}

void mount(const Forgery& forgery, Tally& tally, Dice& dice) {
  Training& training = *dice.pick(trainings());
  const std::int64_t index = 1 + dice.below(training.segments.count() - 2);
  const protocol::Segment segment = training.segments[index];
  const auto lie = forgery.draw({training.scene, training.honest, segment}, dice);
  if (!lie) return;
  LyingTrainer cheat(training.honest, segment, *lie);
  if (cheat.end() == training.honest.state_record(segment.end).digest) {
    ++tally.harmless;
    return;
  }
  ++tally.mounted;
  static std::map<const Training*, std::unique_ptr<exec::ExactExecutor>> executors;
  auto& executor = executors[&training];
  if (!executor) executor = training.executor(1);
  const manifest::VerdictRow row = training.row(*executor, segment, cheat.end());
  if (!row.agrees && row.reason == manifest::RowReason::kDigest) ++tally.refuted;

  // The cheat commits to honest states up to the segment, and is challenged.
  std::vector<Digest> states = training.committed();
  states[static_cast<std::size_t>(index) + 1] = cheat.end();
  const Played played =
      play(training.scene, dispute_over(training.scene, states, index, manifest::About::kSegment), cheat,
           training.honest);
  INFO(forgery.name << ": " << played.error);
  REQUIRE(played.game.decision());
  CHECK(played.error.empty());
  if (!played.game.decision()->falls) return;
  ++tally.convicted;
  ++tally.by[end_of(*played.game.decision())];
}

std::string sentence(const std::map<std::string, int>& ends) {
  std::string out;
  for (const auto& [end, count] : ends) out += fmt::format("{}{}: {}", out.empty() ? "" : ", ", end, count);
  return out;
}

}  // namespace

TEST_CASE("every honest segment is accepted, on every instruction set, with any number of threads") {
  int segments = 0, accepted = 0;
  const cpu::InstructionSet before = cpu::current_instruction_set();
  for (const auto& training : trainings()) {
    for (const cpu::InstructionSet set : cpu::available_instruction_sets()) {
      REQUIRE(cpu::force_instruction_set(set).ok());
      for (const int threads : {1, 2, 3}) {
        const auto executor = training->executor(threads);
        for (std::int64_t i = 0; i < training->segments.count(); ++i) {
          const protocol::Segment segment = training->segments[i];
          const auto row =
              training->row(*executor, segment, training->honest.state_record(segment.end).digest);
          ++segments;
          accepted += row.agrees ? 1 : 0;
        }
      }
    }
  }
  REQUIRE(cpu::force_instruction_set(before).ok());
  fmt::print("honest segments: {} of {} accepted\n", accepted, segments);
  CHECK(accepted == segments);
  // Six trainings of 60 segments, with three thread counts, at least on the scalar code.
  CHECK(segments >= 1'000);
}

TEST_CASE("every forged segment is refuted by a replay, and convicted in a dispute") {
  Dice dice(20);
  fmt::print("{:48} mounted refuted convicted  at\n", "forgery");
  for (const Forgery& forgery : forgeries()) {
    Tally tally;
    for (int tries = 0; tally.mounted < attacks() && tries < 40 * attacks(); ++tries)
      mount(forgery, tally, dice);
    fmt::print("{:48} {:7} {:7} {:9}  {}{}\n", forgery.name, tally.mounted, tally.refuted, tally.convicted,
               sentence(tally.by), tally.harmless > 0 ? fmt::format(" ({} harmless)", tally.harmless) : "");
    CHECK(tally.mounted == attacks());
    CHECK(tally.refuted == tally.mounted);
    CHECK(tally.convicted == tally.mounted);
  }
}

TEST_CASE("no honest solver is convicted by whoever replayed a forged training") {
  Dice dice(22);
  const auto all = forgeries();
  int challenged = 0, stood = 0, given_up = 0;
  while (challenged < 5 * attacks()) {
    Training& training = *dice.pick(trainings());
    const std::int64_t index = 1 + dice.below(training.segments.count() - 2);
    const protocol::Segment segment = training.segments[index];
    const auto lie = dice.pick(all).draw({training.scene, training.honest, segment}, dice);
    if (!lie) continue;
    LyingTrainer liar(training.honest, segment, *lie);
    ++challenged;
    const auto dispute = dispute_over(training.scene, training.committed(), index, manifest::About::kSegment);
    const Played played = play(training.scene, dispute, training.honest, liar);
    REQUIRE(played.silent != protocol::Side::kDefender);
    if (!played.game.decision()) {
      ++given_up;
    } else {
      stood += played.game.decision()->falls ? 0 : 1;
    }
  }
  fmt::print("honest solvers challenged: {}, the proof stands {}, nothing to object {}\n", challenged, stood,
             given_up);
  CHECK(stood + given_up == challenged);
}

TEST_CASE("every crafted initial state is refused before anything is replayed, and convicted") {
  Dice dice(21);
  int refused = 0, convicted = 0;
  for (int i = 0; i < attacks(); ++i) {
    Training& training = *dice.pick(trainings());
    State crafted = training.scene.initial;
    Tensor& tensor = crafted[static_cast<std::size_t>(dice.below(std::ssize(crafted)))].tensor;
    const auto bytes = tensor.bytes();
    bytes[static_cast<std::size_t>(dice.below(std::ssize(bytes)))] ^=
        static_cast<std::uint8_t>(1 << dice.below(8));
    std::vector<Digest> states = training.committed();
    states[0] = merkle::state_digests(crafted)->state;
    const auto dispute = dispute_over(training.scene, states, 0, manifest::About::kInitial);
    refused += protocol::check_proof(dispute.task, dispute.proof).ok() ? 0 : 1;
    const auto game = protocol::Game::open(dispute);
    REQUIRE(game.ok());
    REQUIRE(game->decision());
    convicted +=
        game->decision()->falls && game->decision()->claim == manifest::Claim::kCommittedState ? 1 : 0;
  }
  fmt::print("{:48} {:7} {:7} {:9}  g\n", "crafted initial state", attacks(), refused, convicted);
  CHECK(refused == attacks());
  CHECK(convicted == attacks());
}
