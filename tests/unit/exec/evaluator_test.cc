#include <algorithm>
#include <catch2/catch.hpp>

#include "dgx/exec/executor.h"
#include "forms.h"
#include "networks.h"

namespace dgx::exec {
namespace {

TEST_CASE("an evaluation gives the losses and hits of the definition") {
  const test::Network network;
  const auto lowered = lowering::lower_evaluation(network.graph(false), network.recipe());
  REQUIRE(lowered.ok());
  const auto program = std::make_shared<const program::Program>(*lowered);
  const test::Samples data(network);
  const State state = *program::initial_state(*network.step_program(), test::kSeed);
  const auto inputs = test::reference_inputs(network, data, 0);
  const auto values = test::run_program(*program, state, inputs);
  auto evaluator = Evaluator::create(program, 2);
  REQUIRE(evaluator.ok());
  REQUIRE((*evaluator)->load(state).ok());
  REQUIRE((*evaluator)->run({{"x", inputs.x.view()}, {"y", inputs.y.view()}}).ok());
  for (const kernels::ValueIndex v : values.indices(kernels::ValueIndex(values.size() - 2)))
    CHECK(std::ranges::equal((*evaluator)->value(v).bytes, values[v].bytes()));
}

TEST_CASE("values that nothing depends on are not made, whatever they read") {
  const auto explained =
      test::check_form({{DType::kF32, {33, 65}}, {DType::kF32, {65, 17}}},
                       {R"({"do":["neg x0"],"k":"map","s":[33,65],"t":"f32","v":@V,"x":["0[i0,i1]"]})",
                        R"({"f":[65],"k":"sum","s":[33],"t":"f32","v":@V,"x":["2[i0,k0]"]})",
                        R"({"f":[65],"k":"dot","s":[33,17],"t":"f32","v":@V,"x":["2[i0,k0]","1[k0,i1]"]})",
                        R"({"do":["exp x0"],"k":"map","s":[33,65],"t":"f32","v":@V,"x":["0[i0,i1]"]})",
                        R"({"do":["abs x0"],"k":"map","s":[33,65],"t":"f32","v":@V,"x":["0[i0,i1]"]})",
                        R"({"do":["tanh x0"],"k":"map","s":[33,65],"t":"f32","v":@V,"x":["0[i0,i1]"]})"});
  INFO(explained);
  CHECK(explained.find("fold") == std::string::npos);
  CHECK(explained.find("product") == std::string::npos);
}

TEST_CASE("every value that an evaluation keeps is still there when it ends, though a later one read it") {
  const auto program = test::program_of({{DType::kF32, {17, 33}}},
                                        {R"({"f":[33],"k":"sum","s":[17],"t":"f32","v":@V,"x":["0[i0,k0]"]})",
                                         R"({"f":[17],"k":"sum","s":[],"t":"f32","v":@V,"x":["1[k0]"]})",
                                         R"({"f":[1],"k":"max","s":[17],"t":"f32","v":@V,"x":["2[]"]})"});
  std::mt19937 random(1);
  const State state = {{"model/a", test::random_tensor({DType::kF32, {17, 33}}, random)}};
  const auto values = test::run_program(*program, state, {});
  auto evaluator = Evaluator::create(program, 1);
  REQUIRE(evaluator.ok());
  REQUIRE((*evaluator)->load(state).ok());
  REQUIRE((*evaluator)->run({}).ok());
  for (const kernels::ValueIndex v : values.indices(kernels::ValueIndex{1}))
    CHECK(std::ranges::equal((*evaluator)->value(v).bytes, values[v].bytes()));
}

TEST_CASE("an evaluation keeps the values that it is asked for besides the last three") {
  const auto program =
      test::program_of({{DType::kF32, {17, 33}}},
                       {R"({"do":["neg x0"],"k":"map","s":[17,33],"t":"f32","v":@V,"x":["0[i0,i1]"]})",
                        R"({"f":[33],"k":"sum","s":[17],"t":"f32","v":@V,"x":["1[i0,k0]"]})",
                        R"({"f":[17],"k":"sum","s":[],"t":"f32","v":@V,"x":["2[k0]"]})",
                        R"({"f":[1],"k":"max","s":[17],"t":"f32","v":@V,"x":["3[]"]})"});
  std::mt19937 random(1);
  const State state = {{"model/a", test::random_tensor({DType::kF32, {17, 33}}, random)}};
  const auto values = test::run_program(*program, state, {});
  auto evaluator = Evaluator::create(program, 1, {kernels::ValueIndex{0}, kernels::ValueIndex{1}});
  REQUIRE(evaluator.ok());
  REQUIRE((*evaluator)->load(state).ok());
  REQUIRE((*evaluator)->run({}).ok());
  for (const kernels::ValueIndex v : values.indices())
    CHECK(std::ranges::equal((*evaluator)->value(v).bytes, values[v].bytes()));
}

TEST_CASE("integers saturate in a u8 value that is a copy of them, for its readers too") {
  test::check_form({{DType::kI64, {300}, 1000}},
                   {R"({"k":"map","s":[300],"t":"u8","v":@V,"x":["0[i0]"]})",
                    R"({"do":["f32 x0"],"k":"map","s":[300],"t":"f32","v":@V,"x":["1[i0]"]})"});
}

TEST_CASE("an evaluation refuses a batch of another shape and a state without an entry") {
  const test::Network network;
  const auto lowered = lowering::lower_evaluation(network.graph(false), network.recipe());
  const auto program = std::make_shared<const program::Program>(*lowered);
  auto evaluator = Evaluator::create(program, 1);
  REQUIRE(evaluator.ok());
  CHECK_FALSE((*evaluator)->load({}).ok());
  const Tensor wrong(DType::kU8, {1, 7});
  CHECK_FALSE((*evaluator)->run({{"x", wrong.view()}, {"y", wrong.view()}}).ok());
}

TEST_CASE("a program too large for memory is refused with the bytes it needs, before any are taken") {
  const auto program = test::program_of(
      {{DType::kF32, {1}}}, {R"({"k":"map","s":[1048576,4194304],"t":"f32","v":@V,"x":["0[0]"]})",
                             R"({"f":[1048576],"k":"max","s":[4194304],"t":"f32","v":@V,"x":["1[k0,i0]"]})"});
  const auto evaluator = Evaluator::create(program, 1);
  REQUIRE_FALSE(evaluator.ok());
  CHECK(evaluator.error().code == ErrorCode::kUsage);
  const std::string& message = evaluator.error().message;
  CHECK(message.starts_with("a step needs 17592"));  // slightly more than 2^44 bytes
  CHECK(message.find(" bytes of memory, this process may have ") != std::string::npos);
}

}  // namespace
}  // namespace dgx::exec
