// Disputes about random programs: whatever a line says, its evidence suffices.
#include <catch2/catch.hpp>

#include "../../matrix/families.h"
#include "dgx/program/check.h"
#include "disputes.h"

using namespace dgx;
using namespace dgx::test;
using namespace dgx::protocol;

namespace {

/// Two steps of a random program whose last value is kept; nullopt if the draw is not a valid program.
std::optional<Scene> drawn_scene(std::uint64_t seed) {
  matrix::Random random(seed);
  matrix::Form form;
  form.keep_last = true;
  const auto program = matrix::program_of(matrix::random_group(random), form);
  if (!program.ok() || !program::check_program(**program).ok()) return std::nullopt;
  return scene_of("drawn", **program, 2, 2, seed);
}

/// Checks a fault of one value, alone or with its consequences; true if there was anything to dispute.
bool check_fault(TinyParty& honest, const Fault& fault) {
  const Scene& scene = honest.scene();
  honest.look(0, 2);
  TinyParty cheat(scene, {fault}, &honest);
  cheat.ignores_non_finite = true;
  const bool broken = (*honest.non_finite_after()).has_value();
  if (!broken && cheat.state_record(2).digest == honest.state_record(2).digest) return false;
  Setup setup;
  setup.prover = &cheat;
  const Played played = play(scene, dispute_of(scene, setup), cheat, honest);
  INFO(to_string(fault) << played.error);
  REQUIRE(played.game.decision());
  INFO(played.game.decision()->words);
  CHECK(played.game.decision()->falls);
  CHECK(std::ssize(played.moves) <= most_moves(scene, 2));
  return true;
}

}  // namespace

TEST_CASE("A false element of a line of any form is proven") {
  int disputes = 0;
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    const auto scene = drawn_scene(seed);
    if (!scene) continue;
    INFO("program " << seed << "\n" << program::print_program(scene->program));
    TinyParty honest(*scene);
    Dice dice(seed);
    const std::int64_t kept =
        to_number(*scene->program.values[*program::find_state_input(scene->program, "model/z")].next);
    for (int i = 0; i < 4; ++i) {
      Fault fault = draw_fault(*scene, 0, 2, dice);
      fault.kind = Fault::Kind::kValue;
      if (i < 2) fault.value = kept;
      if (i == 2) fault.value = dice.below(kept + 1);
      fault.element =
          dice.below(*element_count(scene->program.values[kernels::ValueIndex(fault.value)].shape));
      fault.consistent = i != 1;
      disputes += check_fault(honest, fault) ? 1 : 0;
    }
  }
  CHECK(disputes > 100);
}
