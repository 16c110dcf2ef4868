// The scalar operation named in a ruling is the one that was wrong.
#include <catch2/catch.hpp>

#include "dgx/protocol/scalar_text.h"
#include "disputes.h"
#include "statements.h"

using namespace dgx;
using namespace dgx::test;
using namespace dgx::protocol;

namespace {

/// Flips bit `bit` of one element, with its consequences, and plays.
void check_element(TinyParty& honest, kernels::ValueIndex v, std::int64_t element, int bit) {
  const Scene& scene = honest.scene();
  const kernels::Primitive& line = scene.program.values[v];
  const std::int64_t value = to_number(v);
  TinyParty cheat(scene, {{Fault::Kind::kValue, 1, value, element, bit, true}}, &honest);
  const std::int64_t steps = scene.task.body.steps;
  if (cheat.state_record(2).digest == honest.state_record(2).digest) return;  // nothing follows from it
  if (cheat.state_record(steps).digest == honest.state_record(steps).digest) return;
  Setup setup;
  setup.prover = &cheat;
  const Played played = play(scene, dispute_of(scene, setup), cheat, honest);
  INFO(scene.name << " value " << value << " (" << kernels::name_of(line.kind) << ") element " << element
                  << " bit " << bit);
  REQUIRE(played.game.decision());
  INFO(played.game.decision()->words);
  REQUIRE(played.game.decision()->falls);
  const auto ruling = *played.game.ruling();
  CHECK(ruling.at.step == 1);
  CHECK(ruling.at.value == value);
  if (line.kind == kernels::Kind::kInput && line.source.kind == kernels::Source::Kind::kState) {
    CHECK(ruling.claim == manifest::Claim::kStateInput);
    return;
  }
  CHECK(ruling.at.element == element);
  REQUIRE(ruling.scalar);
  if (line.kind == kernels::Kind::kInput) {
    CHECK(ruling.claim == manifest::Claim::kInput);
    CHECK(ruling.scalar->operation == "input");
    return;
  }
  CHECK(ruling.claim == manifest::Claim::kOperation);
  const bool folds = line.kind != kernels::Kind::kMap;
  if (folds) CHECK(ruling.at.position == *element_count(line.fold) - 1);
  kernels::ByValue<TensorView> views;
  for (const auto& tensor : honest.step(1).values) views.push_back(tensor->view());
  const auto trace = *kernels::trace_element(*scene.compiled[v], views, element, {});
  if (!trace.last) CHECK(ruling.scalar->operation == "copy");
  if (!trace.last) return;
  CHECK(ruling.scalar->place == place_text(*trace.last, folds));
  auto expected = judged_scalar(*trace.last, trace.result);
  if (trace.last->place == kernels::Place::kWhen) {  // the condition is false: the accumulator is kept
    expected.operation = "keep";
    expected.operands = {{ruling.scalar->result, "accumulator"}};
  }
  CHECK(ruling.scalar->operation == expected.operation);
  REQUIRE(ruling.scalar->operands == expected.operands);
  CHECK(ruling.scalar->claimed != ruling.scalar->result);
  if (!folds) CHECK(ruling.scalar->result == bits_text(trace.result, line.dtype));
}

void check_scene(const Scene& scene, int elements, std::uint64_t seed) {
  TinyParty honest(scene);
  honest.look(0, scene.task.body.steps);
  Dice dice(seed);
  for (const kernels::ValueIndex v : scene.program.values.indices()) {
    const kernels::Primitive& line = scene.program.values[v];
    for (int i = 0; i < elements; ++i) {
      const std::int64_t element = dice.below(*element_count(line.shape));
      check_element(honest, v, element,
                    static_cast<int>(dice.below(static_cast<std::int64_t>(8 * size_of(line.dtype)))));
    }
  }
}

}  // namespace

TEST_CASE("A flipped bit leads to the element's last scalar operation: every kind") {
  check_scene(small_scene(4, 4), 20, 1);
}
TEST_CASE("A flipped bit leads to the element's last scalar operation: many blocks") {
  check_scene(large_scene(), 4, 2);
}
TEST_CASE("Rulings are compared by what they decide, not by their words") {
  const manifest::Ruling one = test::ruling();
  manifest::Ruling other = one;
  other.words = "in other words";
  other.scalar.reset();
  other.at = {};
  other.claim.reset();
  CHECK(same_ruling(one, other));
  const auto differs = [&](auto change) {
    manifest::Ruling changed = one;
    change(changed);
    return !same_ruling(one, changed);
  };
  CHECK(differs([](manifest::Ruling& r) { r.falls = !r.falls; }));
  CHECK(differs([](manifest::Ruling& r) { r.statement = r.game; }));
  CHECK(differs([](manifest::Ruling& r) { r.game = r.statement; }));
  CHECK(differs([](manifest::Ruling& r) { ++r.moves; }));
  CHECK(differs([](manifest::Ruling& r) { r.last = r.game; }));
  CHECK(differs([](manifest::Ruling& r) { r.reason = manifest::RulingReason::kLate; }));
}
TEST_CASE("A flipped bit leads to the element's last scalar operation: tiny") {
  for (int which = 0; which < 4; ++which) check_scene(tiny_scene(which), 20, 3);
}
