#include "dgx/lowering/lower.h"

#include <catch2/catch.hpp>

#include "captured_mlp.h"
#include "dgx/program/check.h"
#include "dgx/program/cost.h"
#include "dgx/program/initial.h"
#include "dgx/program/line.h"
#include "double_mlp.h"
#include "run_program.h"

using namespace dgx;
using namespace dgx::lowering;
using namespace dgx::program;
using namespace dgx::test;

namespace {

TrainingRecipe recipe_for(std::int64_t inputs, std::int64_t batch, const char* optimizer) {
  TrainingRecipe recipe;
  recipe.fields["x"] = {DType::kU8, {inputs}};
  recipe.fields["y"] = {DType::kU8, {}};
  recipe.scale = 1.0F / 255;
  recipe.batch = batch;
  recipe.optimizer = *parse_optimizer_spec(optimizer);
  return recipe;
}

const std::vector<std::int64_t> kTiny = {5, 4, 3};
constexpr std::int64_t kTinyBatch = 6;

StepInputs tiny_inputs(const TrainingRecipe& recipe) {
  StepInputs inputs;
  inputs.x = Tensor(recipe.fields.at("x").dtype, {kTinyBatch, kTiny.front()});
  for (std::size_t n = 0; n < inputs.x.bytes().size(); ++n)
    inputs.x.bytes()[n] = static_cast<std::uint8_t>(n * 53 % 256);
  if (recipe.loss == LossKind::kCrossEntropy) {
    inputs.y = Tensor(DType::kU8, {kTinyBatch});
    for (std::size_t n = 0; n < kTinyBatch; ++n) inputs.y.bytes()[n] = static_cast<std::uint8_t>(n * 2 % 3);
  } else {
    inputs.y = Tensor(DType::kF32, {kTinyBatch, kTiny.back()});
    for (std::size_t n = 0; n < 18; ++n) inputs.y.as<float>()[n] = static_cast<float>(n % 5) / 4 - 0.5F;
  }
  inputs.schedule = *schedule_parameters(recipe.optimizer, {}, 100);
  return inputs;
}

/// Runs three steps of the lowered program and of plain double arithmetic, and compares all parameters and
/// losses.
void compare_with_doubles(Activation activation, LossKind loss, const char* optimizer,
                          std::optional<double> clip_norm = std::nullopt) {
  INFO(name_of(activation) << ' ' << name_of(loss) << ' ' << optimizer);
  auto recipe = recipe_for(kTiny.front(), kTinyBatch, optimizer);
  recipe.loss = loss;
  if (loss == LossKind::kMeanSquaredError) recipe.fields["y"] = {DType::kF32, {kTiny.back()}};
  recipe.clip_norm = clip_norm;
  const auto graph = captured_mlp(kTiny, kTinyBatch, activation);
  const auto program = lower_training_step(graph, recipe);
  if (!program.ok()) FAIL(program.error().message);
  auto inputs = tiny_inputs(recipe);
  State state = *initial_state(*program, graph);
  DoubleMlp doubles(graph, kTiny, activation, recipe);
  for (inputs.step = 0; inputs.step < 3; ++inputs.step) {
    state = next_state(*program, state, inputs);
    const double expected_loss = doubles.step(inputs.x, inputs.y);
    CHECK(step_of(state).value() == inputs.step + 1);
    CHECK(static_cast<double>(find_entry(state, "loss")->tensor.as<float>()[0]) ==
          Approx(expected_loss).epsilon(1e-5));
    for (const auto& [name, numbers] : doubles.parameters()) {
      const Entry* entry = find_entry(state, "model/" + name);
      REQUIRE(entry);
      for (std::size_t n = 0; n < numbers.size(); ++n) {
        REQUIRE(static_cast<double>(entry->tensor.as<float>()[n]) ==
                Approx(numbers[n]).epsilon(1e-4).margin(2e-6));
      }
    }
  }
}

std::vector<std::string> texts_of(const Program& program) {
  std::vector<std::string> lines;
  for (const auto value : program.values.indices()) lines.push_back(print_line(program.values[value], value));
  return lines;
}

}  // namespace

TEST_CASE("a step of the lowered perceptron is the step of plain double arithmetic") {
  for (const auto activation : {Activation::kRelu, Activation::kGelu, Activation::kGeluTanh,
                                Activation::kTanh, Activation::kSigmoid}) {
    compare_with_doubles(activation, LossKind::kCrossEntropy, "sgd:lr=0.5,momentum=0.9");
    compare_with_doubles(activation, LossKind::kMeanSquaredError, "sgd:lr=0.5");
  }
}

TEST_CASE("every optimiser's update is torch's in double arithmetic") {
  for (const char* optimizer :
       {"sgd:lr=0.3,weight-decay=0.01", "sgd:lr=0.3,momentum=0.9,nesterov,weight-decay=0.01", "adam:lr=0.01",
        "adam:lr=0.01,weight-decay=0.1", "adamw:lr=0.01,betas=0.8/0.95,weight-decay=0.1",
        "adamw:lr=0.01,weight-decay=0"}) {
    compare_with_doubles(Activation::kRelu, LossKind::kCrossEntropy, optimizer);
  }
}

TEST_CASE("gradients are scaled when their global norm is above the bound, and only then") {
  compare_with_doubles(Activation::kTanh, LossKind::kCrossEntropy, "sgd:lr=0.5,momentum=0.9", 0.05);
  compare_with_doubles(Activation::kTanh, LossKind::kCrossEntropy, "sgd:lr=0.5,momentum=0.9", 1e6);
}

TEST_CASE("the perceptron 784-256-128-10 costs 1,007,104 matrix product FLOP a sample") {
  for (const std::int64_t batch : {1, 32, 128}) {
    const auto program = lower_training_step(captured_mlp({784, 256, 128, 10}, batch),
                                             recipe_for(784, batch, "sgd:lr=0.1,momentum=0.9"));
    REQUIRE(program.ok());
    const Cost cost = cost_of(*program);
    CHECK(cost.matrix_product_flop == 1'007'104 * batch);
    // Weights, biases and their momenta, the step and the loss.
    CHECK(cost.state_bytes == 2 * 4 * (784 * 256 + 256 + 256 * 128 + 128 + 128 * 10 + 10) + 8 + 4);
  }
}

TEST_CASE("a lowered program is a text that reads back, and is the same every time") {
  const auto graph = captured_mlp({784, 256, 128, 10}, 128);
  const auto recipe = recipe_for(784, 128, "adamw:lr=1e-3");
  const auto program = lower_training_step(graph, recipe);
  REQUIRE(program.ok());
  const std::string text = print_program(*program);
  const auto again = parse_program(text);
  if (!again.ok()) FAIL(again.error().message);
  CHECK(*again == *program);
  CHECK(check_program(*again).ok());
  CHECK(print_program(*lower_training_step(graph, recipe)) == text);
}

TEST_CASE("the program of a small perceptron reads as the page says") {
  const auto program =
      lower_training_step(captured_mlp({4, 3, 2}, 8), recipe_for(4, 8, "sgd:lr=0.1,momentum=0.9"));
  REQUIRE(program.ok());
  const std::vector<std::string> expected = {
#include "small_program.inc"
  };
  const auto lines = texts_of(*program);
  REQUIRE(lines.size() == expected.size());
  for (std::size_t n = 0; n < lines.size(); ++n) CHECK(lines[n] == expected[n]);
}

TEST_CASE("the evaluation program ends with each sample's hit and loss") {
  const auto recipe = recipe_for(5, kTinyBatch, "sgd:lr=0.1");
  const auto graph = captured_mlp_evaluation(kTiny, kTinyBatch, Activation::kGelu);
  const auto program = lower_evaluation(graph, recipe);
  if (!program.ok()) FAIL(program.error().message);
  CHECK(check_program(*program, ProgramRole::kEvaluation).ok());
  CHECK(!check_program(*program, ProgramRole::kTraining).ok());
  const auto inputs = tiny_inputs(recipe);
  const auto values = run_program(*program, *initial_state(*program, graph), inputs);
  DoubleMlp doubles(graph, kTiny, Activation::kGelu, recipe);
  const auto expected = doubles.evaluate(inputs.x, inputs.y);
  const Tensor &hits = values[kernels::ValueIndex(values.size() - 2)], &losses = values.back();
  REQUIRE(hits.dtype() == DType::kI64);
  REQUIRE(losses.shape() == Shape{kTinyBatch});
  for (std::size_t n = 0; n < kTinyBatch; ++n) {
    CHECK(hits.as<std::int64_t>()[n] == (expected[n].hit ? 1 : 0));
    CHECK(static_cast<double>(losses.as<float>()[n]) == Approx(expected[n].loss).epsilon(1e-5));
  }
}

TEST_CASE("an op without a lowering is refused by name and place") {
  auto graph = captured_mlp({4, 3, 2}, 8);
  graph.calls[2].name = "aten::digamma";
  graph.calls[2].place = "forward, layer1 (model.py:12)";
  const auto program = lower_training_step(graph, recipe_for(4, 8, "sgd:lr=0.1"));
  REQUIRE(!program.ok());
  CHECK(program.error().code == ErrorCode::kUsage);
  CHECK_THAT(program.error().message,
             Catch::StartsWith("no exact lowering for aten::digamma (forward, layer1 (model.py:12))"));
  CHECK(program.error().hint == "--numerics native");
  CHECK(!has_lowering("aten::digamma"));
  CHECK(has_lowering("aten::view_copy"));
  CHECK(!has_lowering("relu"));
}

TEST_CASE("a call that nothing needs is not lowered") {
  auto graph = captured_mlp({4, 3, 2}, 8);
  const auto recipe = recipe_for(4, 8, "sgd:lr=0.1");
  const auto before = print_program(*lower_training_step(graph, recipe));
  graph.tensors.push_back({DType::kF32, {8, 3}});
  AtenCall dead;
  dead.name = "aten::digamma";
  dead.argument_names = {"self"};
  dead.arguments = {std::optional<TensorId>(graph.calls[2].results[0])};
  dead.results = {static_cast<TensorId>(graph.tensors.size() - 1)};
  graph.calls.push_back(dead);
  CHECK(print_program(*lower_training_step(graph, recipe)) == before);
}

TEST_CASE("a frozen parameter becomes itself, and nothing is computed for it") {
  const auto graph = captured_mlp({4, 3, 2}, 8);
  auto recipe = recipe_for(4, 8, "sgd:lr=0.1,momentum=0.9");
  const auto whole = *lower_training_step(graph, recipe);
  recipe.update.frozen = {"0.*"};
  const auto program = *lower_training_step(graph, recipe);
  for (const char* name : {"model/0.weight", "model/0.bias"}) {
    const auto entry = find_state_input(program, name);
    REQUIRE(entry);
    CHECK(program.values[*entry].next == *entry);
  }
  CHECK(program.values[*find_state_input(program, "model/2.weight")].next !=
        find_state_input(program, "model/2.weight"));
  CHECK_FALSE(find_state_input(program, "optimizer/momentum/0.weight"));
  CHECK(find_state_input(program, "optimizer/momentum/2.weight"));
  // The only products left are the two of the forward pass and the last weight's gradient.
  CHECK(cost_of(program).matrix_product_flop == 2 * 8 * (4 * 3 + 3 * 2 + 3 * 2));
  CHECK(cost_of(whole).matrix_product_flop > cost_of(program).matrix_product_flop);
}

TEST_CASE("a parameter takes the rate and the decay of the first group that matches it") {
  const auto graph = captured_mlp({4, 3, 2}, 8);
  auto recipe = recipe_for(4, 8, "adamw:lr=0.1,weight-decay=0.5");
  recipe.update.groups = {{"rank<2", 1, 0.0}, {"0.*", 0.5, std::nullopt}};
  const auto program = *lower_training_step(graph, recipe);
  const auto reads = [&](const char* name, const std::string& of) {
    const auto& line = program.values[*program.values[*find_state_input(program, name)].next];
    for (const auto& access : line.accesses) {
      const auto& source = program.values[access.value].source;
      if (source.kind != kernels::Source::Kind::kSchedule) continue;
      if (source.of[static_cast<std::size_t>(access.coordinates[0].constant)] == of) return true;
    }
    return false;
  };
  CHECK(reads("model/0.bias", "lr/(1-b1^t):1"));
  CHECK_FALSE(reads("model/0.bias", "1-lr*wd"));
  CHECK(reads("model/0.weight", "lr/(1-b1^t):2"));
  CHECK(reads("model/0.weight", "1-lr*wd:2"));
  CHECK(reads("model/2.weight", "lr/(1-b1^t)"));
  CHECK(reads("model/2.weight", "1-lr*wd"));
}

TEST_CASE("patterns that take no parameter are refused") {
  const auto graph = captured_mlp({4, 3, 2}, 8);
  const auto refused = [&](std::vector<ParameterGroup> groups, std::vector<std::string> frozen) {
    auto recipe = recipe_for(4, 8, "sgd:lr=0.1");
    recipe.update = {std::move(groups), std::move(frozen)};
    const auto program = lower_training_step(graph, recipe);
    REQUIRE(!program.ok());
    CHECK(program.error().code == ErrorCode::kUsage);
    return program.error();
  };
  CHECK(refused({{"0.weigth", 2, std::nullopt}}, {}).hint == "did you mean 0.weight?");
  CHECK_THAT(refused({{"*", 2, std::nullopt}, {"0.*", 3, std::nullopt}}, {}).message,
             Catch::Contains("0.*: takes no"));
  CHECK_THAT(refused({{"0.*", 2, std::nullopt}}, {"0.*"}).message, Catch::Contains("takes no parameter"));
  CHECK_THAT(refused({}, {"3.*"}).message, Catch::Contains("--freeze 3.*: matches no"));
  CHECK_THAT(refused({}, {"*"}).message, Catch::Contains("leaves no parameter"));
}

TEST_CASE("a recipe that does not fit the model is refused") {
  const auto graph = captured_mlp({4, 3, 2}, 8);
  auto wrong_batch = recipe_for(4, 7, "sgd:lr=0.1");
  auto wrong_sample = recipe_for(5, 8, "sgd:lr=0.1");
  auto float_labels = recipe_for(4, 8, "sgd:lr=0.1");
  float_labels.fields["y"] = {DType::kF32, {}};
  auto many_labels = recipe_for(4, 8, "sgd:lr=0.1");
  many_labels.fields["y"] = {DType::kU8, {2}};
  auto integer_target = recipe_for(4, 8, "sgd:lr=0.1");
  integer_target.loss = LossKind::kMeanSquaredError;
  integer_target.fields["y"] = {DType::kI64, {2}};
  for (const auto& recipe : {wrong_batch, wrong_sample, float_labels, many_labels, integer_target}) {
    const auto program = lower_training_step(graph, recipe);
    REQUIRE(!program.ok());
    CHECK(program.error().code == ErrorCode::kUsage);
  }
}
