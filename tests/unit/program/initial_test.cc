#include "dgx/program/initial.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "captured_mlp.h"
#include "dgx/kernels/philox.h"
#include "dgx/program/lower.h"

using namespace dgx;
using namespace dgx::program;

namespace {

Program small_program(const CapturedGraph& graph) {
  TrainingRecipe recipe;
  recipe.x = {DType::kF32, {4}};
  recipe.y = {DType::kU8, {}};
  recipe.batch = 8;
  recipe.optimizer = *parse_optimizer_spec("adam:lr=1e-3");
  return *lower_training_step(graph, recipe);
}

}  // namespace

TEST_CASE("the initial state is a function of program and seed") {
  const auto program = small_program(test::captured_mlp({4, 3, 2}, 8));
  const auto state = initial_state(program, 7);
  REQUIRE(state.ok());
  CHECK(check_state(program, *state).ok());
  // Sorted model entries: 0.bias, 0.weight, 2.bias, 2.weight are streams 0 to 3; fan-ins 4 and 3.
  const std::pair<const char*, float> entries[] = {
      {"model/0.bias", 4.0F}, {"model/0.weight", 4.0F}, {"model/2.bias", 3.0F}, {"model/2.weight", 3.0F}};
  std::uint32_t ordinal = 0;
  for (const auto& [name, fan_in] : entries) {
    const float bound = 1.0F / std::sqrt(fan_in);
    const auto numbers = find_entry(*state, name)->tensor.as<float>();
    for (std::size_t n = 0; n < numbers.size(); ++n) {
      const float u = kernels::uniform(7, {kernels::StreamKind::kInitialWeights, ordinal}, 0,
                                       static_cast<std::int64_t>(n));
      CHECK(numbers[n] == (2 * u - 1) * bound);
      CHECK(std::fabs(numbers[n]) <= bound);
    }
    ++ordinal;
  }
  for (const Entry& entry : *state) {
    if (entry.name.starts_with("model/")) continue;
    for (const std::uint8_t byte : entry.tensor.bytes()) CHECK(byte == 0);
  }
  CHECK(find_entry(*initial_state(program, 8), "model/0.weight")->tensor.as<float>()[0] !=
        find_entry(*state, "model/0.weight")->tensor.as<float>()[0]);
}

TEST_CASE("a graph brings its own numbers, and must have them all") {
  auto graph = test::captured_mlp({4, 3, 2}, 8);
  const auto program = small_program(graph);
  const auto state = initial_state(program, graph);
  REQUIRE(state.ok());
  CHECK(find_entry(*state, "model/2.weight")->tensor.as<float>()[3] == graph.sources[3].value.as<float>()[3]);
  graph.sources[3].name = "other.weight";
  CHECK_THAT(initial_state(program, graph).error().message, Catch::Contains("model/2.weight"));
}

TEST_CASE("a state of other entries is not the program's") {
  const auto program = small_program(test::captured_mlp({4, 3, 2}, 8));
  const auto state = *initial_state(program, 7);
  auto missing = state;
  missing.erase(missing.begin() + 2);
  CHECK_THAT(check_state(program, missing).error().message,
             Catch::Contains(state[2].name) && Catch::Contains("missing"));
  auto extra = state;
  extra.push_back({"zebra", Tensor(DType::kF32, {1})});
  CHECK_THAT(check_state(program, extra).error().message, Catch::Contains("zebra"));
  auto reshaped = state;
  reshaped[1].tensor = Tensor(DType::kF32, {1});
  CHECK_THAT(check_state(program, reshaped).error().message, Catch::Contains(state[1].name));
}

TEST_CASE("a weight that no rule covers does not start from a seed") {
  auto graph = test::captured_mlp({4, 3, 2}, 8);
  graph.sources[0].name = "scale";
  CHECK(initial_state(small_program(graph), 7).error().code == ErrorCode::kUsage);
}
