#include <catch2/catch.hpp>

#include "captured_mlp.h"
#include "dgx/lowering/lower.h"

using namespace dgx;
using namespace dgx::lowering;

TEST_CASE("a graph brings its own numbers, and must have them all") {
  auto graph = test::captured_mlp({4, 3, 2}, 8);
  TrainingRecipe recipe;
  recipe.fields["x"] = {DType::kF32, {4}};
  recipe.fields["y"] = {DType::kU8, {}};
  recipe.batch = 8;
  recipe.optimizer = *program::parse_optimizer_spec("adam:lr=1e-3");
  const auto program = *lower_training_step(graph, recipe);
  const auto state = initial_state(program, graph);
  REQUIRE(state.ok());
  CHECK(find_entry(*state, "model/2.weight")->tensor.as<float>()[3] == graph.sources[3].value.as<float>()[3]);
  graph.sources[3].name = "other.weight";
  CHECK_THAT(initial_state(program, graph).error().message, Catch::Contains("model/2.weight"));
}
