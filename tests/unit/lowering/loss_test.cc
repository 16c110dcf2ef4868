#include <catch2/catch.hpp>
#include <cmath>

#include "dgx/lowering/lower.h"
#include "dgx/program/initial.h"
#include "run_program.h"

using namespace dgx;
using namespace dgx::lowering;
using namespace dgx::program;
using namespace dgx::test;

namespace {

/// A model whose output is a parameter, so that one step of gradient descent with rate 1 reveals the
/// gradient.
CapturedGraph identity_of(const Shape& shape, std::int64_t batch) {
  CapturedGraph graph;
  graph.inputs = {{"x", 0}};
  graph.tensors = {{DType::kF32, {batch}}, {DType::kF32, shape}, {DType::kF32, shape}};
  AtenSource source;
  source.name = "z";
  source.tensor = 1;
  source.value = Tensor(DType::kF32, shape);
  std::size_t n = 0;
  for (float& number : source.value.as<float>()) number = static_cast<float>(n++ * 37 % 29) / 8 - 1.5F;
  graph.sources = {source};
  graph.output = 1;
  graph.output_gradient = 2;
  graph.gradients = {TensorId{2}};
  return graph;
}

struct Case {
  Shape output;
  Shape targets;          ///< batch first
  std::size_t dimension;  ///< of the classes
  const char* loss;
};

/// torch's definition in double arithmetic: sum over targets, divided by the sum of their weights.
class Reference {
 public:
  Reference(const Case& which, const Tensor& labels)
      : output_(which.output), dimension_(which.dimension), spec_(*parse_loss_spec(which.loss)) {
    for (const std::uint8_t label : labels.bytes()) labels_.push_back(label);
  }
  [[nodiscard]] double loss(const std::vector<double>& z) const {
    double sum = 0, weights = 0;
    for (std::size_t row = 0; row < labels_.size(); ++row) {
      if (is_ignored(row)) continue;
      sum += (1 - spec_.label_smoothing) * weight(labels_[row]) * surprise(z, row, labels_[row]);
      for (std::size_t c = 0; c < classes(); ++c)
        sum += spec_.label_smoothing / static_cast<double>(classes()) * weight(c) * surprise(z, row, c);
      weights += weight(labels_[row]);
    }
    return sum / weights;
  }
  [[nodiscard]] bool is_ignored(std::size_t row) const {
    return spec_.ignore == static_cast<std::int64_t>(labels_[row]);
  }
  /// Minus the logarithm of the class's probability.
  [[nodiscard]] double surprise(const std::vector<double>& z, std::size_t row, std::size_t label) const {
    double sum = 0;
    for (std::size_t c = 0; c < classes(); ++c) sum += std::exp(z[at(row, c)]);
    return std::log(sum) - z[at(row, label)];
  }
  [[nodiscard]] bool is_hit(const std::vector<double>& z, std::size_t row) const {
    for (std::size_t c = 0; c < classes(); ++c) {
      if (z[at(row, c)] > z[at(row, labels_[row])]) return false;
    }
    return true;
  }
  [[nodiscard]] std::size_t label(std::size_t row) const { return labels_[row]; }

 private:
  [[nodiscard]] std::size_t classes() const { return static_cast<std::size_t>(output_[dimension_]); }
  [[nodiscard]] double weight(std::size_t c) const { return spec_.weights.empty() ? 1 : spec_.weights[c]; }
  [[nodiscard]] std::size_t at(std::size_t row, std::size_t c) const {
    std::size_t inner = 1;
    for (std::size_t n = dimension_ + 1; n < output_.size(); ++n)
      inner *= static_cast<std::size_t>(output_[n]);
    return (row / inner * classes() + c) * inner + row % inner;
  }
  Shape output_;
  std::size_t dimension_;
  LossSpec spec_;
  std::vector<std::size_t> labels_;
};

TrainingRecipe recipe_of(const Case& which) {
  TrainingRecipe recipe;
  recipe.fields["x"] = {DType::kF32, {}};
  recipe.fields["y"] = {DType::kU8, Shape(which.targets.begin() + 1, which.targets.end())};
  recipe.batch = which.targets[0];
  recipe.loss = *parse_loss_spec(which.loss);
  recipe.optimizer = *parse_optimizer_spec("sgd:lr=1");
  return recipe;
}

StepInputs inputs_of(const Case& which) {
  StepInputs inputs;
  inputs.x = Tensor(DType::kF32, {which.targets[0]});
  inputs.y = Tensor(DType::kU8, which.targets);
  const auto classes = static_cast<std::size_t>(which.output[which.dimension]);
  std::size_t n = 0;
  for (std::uint8_t& label : inputs.y.bytes()) label = static_cast<std::uint8_t>(n++ * 5 % classes);
  if (recipe_of(which).loss.ignore == 255) inputs.y.bytes()[1] = inputs.y.bytes()[2] = 255;
  inputs.schedule = *schedule_parameters(recipe_of(which).optimizer, {}, 10);
  return inputs;
}

const Case kCases[] = {
    {{4, 3}, {4}, 1, "cross-entropy"},
    {{4, 3}, {4, 1}, 1, "cross-entropy:label-smoothing=0.2"},
    {{4, 3}, {4}, 1, "cross-entropy:weights=1/2/0.5"},
    {{4, 3}, {4}, 1, "cross-entropy:ignore=255"},
    {{4, 3}, {4}, 1, "cross-entropy:label-smoothing=0.1,ignore=255,weights=1/2/0.5"},
    {{4, 3}, {4}, 1, "cross-entropy:label-smoothing=0.1,ignore=1"},
    {{2, 5, 3}, {2, 5}, 2, "cross-entropy"},
    {{2, 5, 3}, {2, 5}, 2, "cross-entropy:label-smoothing=0.1,ignore=255,weights=1/2/0.5"},
    {{2, 3, 3}, {2, 3}, 2, "cross-entropy:label-smoothing=0.1"},
    {{2, 3, 5}, {2, 5}, 1, "cross-entropy"},
    {{2, 3, 4, 5}, {2, 4, 5}, 1, "cross-entropy:label-smoothing=0.3,ignore=255,weights=3/2/1"},
    {{10, 3}, {2, 5}, 1, "cross-entropy:ignore=255,weights=3/2/1"},
};

}  // namespace

TEST_CASE("cross entropy and its gradient are torch's definition in double arithmetic") {
  for (const Case& which : kCases) {
    INFO(to_string(which.output) << ' ' << to_string(which.targets) << ' ' << which.loss);
    const auto graph = identity_of(which.output, which.targets[0]);
    const auto program = lower_training_step(graph, recipe_of(which));
    if (!program.ok()) FAIL(program.error().message);
    const StepInputs inputs = inputs_of(which);
    const State before = *initial_state(*program, graph);
    const State after = next_state(*program, before, inputs);
    const Reference reference(which, inputs.y);
    const auto numbers = find_entry(before, "model/z")->tensor.as<float>();
    std::vector<double> z(numbers.begin(), numbers.end());
    CHECK(static_cast<double>(find_entry(after, "loss")->tensor.as<float>()[0]) ==
          Approx(reference.loss(z)).epsilon(1e-5));
    for (std::size_t n = 0; n < z.size(); ++n) {
      // A central difference, which depends on no formula for the derivative.
      constexpr double kStep = 1e-5;
      const double at = z[n];
      z[n] = at + kStep;
      const double above = reference.loss(z);
      z[n] = at - kStep;
      const double slope = (above - reference.loss(z)) / (2 * kStep);
      z[n] = at;
      const auto change = static_cast<double>(numbers[n]) -
                          static_cast<double>(find_entry(after, "model/z")->tensor.as<float>()[n]);
      REQUIRE(change == Approx(slope).epsilon(1e-4).margin(1e-6));
    }
  }
}

TEST_CASE("evaluation gives the plain loss of each sample's targets, its hits, and how many count") {
  for (const Case& which : kCases) {
    INFO(to_string(which.output) << ' ' << to_string(which.targets) << ' ' << which.loss);
    auto graph = identity_of(which.output, which.targets[0]);
    const auto program = lower_evaluation(graph, recipe_of(which));
    if (!program.ok()) FAIL(program.error().message);
    const StepInputs inputs = inputs_of(which);
    const State state = *initial_state(*program, graph);
    const auto values = run_program(*program, state, inputs);
    const Reference reference(which, inputs.y);
    const auto numbers = graph.sources[0].value.as<float>();
    const std::vector<double> z(numbers.begin(), numbers.end());
    const bool ignores = recipe_of(which).loss.ignore.has_value();
    const auto batch = static_cast<std::size_t>(which.targets[0]);
    const std::size_t each = inputs.y.bytes().size() / batch;
    for (std::size_t sample = 0; sample < batch; ++sample) {
      double loss = 0;
      std::int64_t hits = 0, counted = 0;
      for (std::size_t row = sample * each; row < (sample + 1) * each; ++row) {
        if (reference.is_ignored(row)) continue;
        ++counted;
        loss += reference.surprise(z, row, reference.label(row));
        hits += reference.is_hit(z, row) ? 1 : 0;
      }
      const Tensor* last = &values.back();
      CHECK(static_cast<double>(last[0].as<float>()[sample]) ==
            Approx(ignores ? loss : loss / static_cast<double>(each)).epsilon(1e-5));
      CHECK(last[-1].as<std::int64_t>()[sample] == hits);
      if (ignores) CHECK(last[-2].as<std::int64_t>()[sample] == counted);
    }
  }
}

TEST_CASE("an output that does not fit the targets or the weights is refused") {
  const Case wrong[] = {{{4, 3}, {4, 2}, 1, "cross-entropy"},
                        {{4, 3}, {4}, 1, "cross-entropy:weights=1/2"},
                        {{4, 3, 5}, {4, 6}, 1, "cross-entropy"}};
  for (const Case& which : wrong) {
    const auto program = lower_training_step(identity_of(which.output, which.targets[0]), recipe_of(which));
    REQUIRE(!program.ok());
    CHECK(program.error().code == ErrorCode::kUsage);
  }
}

namespace {

struct NumbersCase {
  Shape shape;
  const char* loss;
  DType y = DType::kF32;
};

/// torch's definitions in double arithmetic, of one number.
double number_loss(const LossSpec& spec, double x, double t, std::size_t place) {
  const double z = std::abs(x - t);
  if (spec.kind == LossKind::kL1) return z;
  if (spec.kind == LossKind::kHuber) return z <= spec.delta ? z * z / 2 : spec.delta * (z - spec.delta / 2);
  if (spec.kind == LossKind::kMeanSquaredError) return z * z;
  const double weight =
      spec.weights.empty() ? 1 : spec.weights[spec.weights.size() == 1 ? 0 : place % spec.weights.size()];
  return weight * t * std::log1p(std::exp(-x)) + (1 - t) * std::log1p(std::exp(x));
}

}  // namespace

TEST_CASE("losses of numbers and their gradients are torch's definitions in double arithmetic") {
  const NumbersCase cases[] = {{{4, 3}, "bce"},
                               {{4, 3}, "bce", DType::kU8},
                               {{4, 3}, "bce:pos-weights=0.5/1/3", DType::kU8},
                               {{2, 5, 3}, "bce:pos-weights=0.5/1/3"},
                               {{4}, "bce:pos-weights=2.5"},
                               {{4, 3}, "huber"},
                               {{4, 3, 2}, "huber:delta=0.25"},
                               {{4, 3}, "l1"},
                               {{4, 3}, "mse"}};
  for (const NumbersCase& which : cases) {
    INFO(to_string(which.shape) << ' ' << which.loss);
    const auto graph = identity_of(which.shape, which.shape[0]);
    TrainingRecipe recipe;
    recipe.fields["x"] = {DType::kF32, {}};
    recipe.fields["y"] = {which.y, Shape(which.shape.begin() + 1, which.shape.end())};
    recipe.batch = which.shape[0];
    recipe.loss = *parse_loss_spec(which.loss);
    recipe.optimizer = *parse_optimizer_spec("sgd:lr=1");
    StepInputs inputs;
    inputs.x = Tensor(DType::kF32, {which.shape[0]});
    inputs.y = Tensor(which.y, which.shape);
    inputs.schedule = *schedule_parameters(recipe.optimizer, {}, 10);
    std::vector<double> targets;
    for (std::int64_t n = 0; n < inputs.y.count(); ++n) {
      const auto at = static_cast<std::size_t>(n);
      if (which.y == DType::kU8) {
        inputs.y.bytes()[at] = static_cast<std::uint8_t>(n * 5 % 3 % 2);
        targets.push_back(inputs.y.bytes()[at]);
      } else {
        inputs.y.as<float>()[at] = static_cast<float>(n * 7 % 11) / 10;
        targets.push_back(static_cast<double>(inputs.y.as<float>()[at]));
      }
    }
    const auto program = lower_training_step(graph, recipe);
    if (!program.ok()) FAIL(program.error().message);
    const State before = *initial_state(*program, graph);
    const State after = next_state(*program, before, inputs);
    const auto numbers = find_entry(before, "model/z")->tensor.as<float>();
    const auto count = static_cast<double>(numbers.size());
    double sum = 0;
    for (std::size_t n = 0; n < numbers.size(); ++n) {
      const auto x = static_cast<double>(numbers[n]);
      sum += number_loss(recipe.loss, x, targets[n], n);
      constexpr double kStep = 1e-6;
      const double slope = (number_loss(recipe.loss, x + kStep, targets[n], n) -
                            number_loss(recipe.loss, x - kStep, targets[n], n)) /
                           (2 * kStep * count);
      const auto change = x - static_cast<double>(find_entry(after, "model/z")->tensor.as<float>()[n]);
      CHECK(change == Approx(slope).epsilon(1e-4).margin(1e-6));
    }
    CHECK(static_cast<double>(find_entry(after, "loss")->tensor.as<float>()[0]) ==
          Approx(sum / count).epsilon(1e-5));

    // Evaluation has no weights; bce counts the numbers on the target's side.
    const auto evaluation = lower_evaluation(graph, recipe);
    if (!evaluation.ok()) FAIL(evaluation.error().message);
    const auto values = run_program(*evaluation, *initial_state(*evaluation, graph), inputs);
    LossSpec plain = recipe.loss;
    plain.weights.clear();
    const std::size_t each = numbers.size() / static_cast<std::size_t>(which.shape[0]);
    for (std::size_t sample = 0; sample < static_cast<std::size_t>(which.shape[0]); ++sample) {
      double own = 0;
      std::int64_t hits = 0;
      for (std::size_t n = sample * each; n < (sample + 1) * each; ++n) {
        own += number_loss(plain, static_cast<double>(numbers[n]), targets[n], n);
        hits += (numbers[n] > 0) == (targets[n] > 0.5) ? 1 : 0;
      }
      const Tensor* last = &values.back();
      CHECK(static_cast<double>(last[0].as<float>()[sample]) ==
            Approx(own / static_cast<double>(each)).epsilon(1e-5));
      if (plain.kind == LossKind::kBinaryCrossEntropy) CHECK(last[-1].as<std::int64_t>()[sample] == hits);
    }
  }
}

TEST_CASE("positive weights that do not fit the output, and integer targets of a regression, are refused") {
  const auto refused = [](const Shape& shape, const char* loss, DType y) {
    TrainingRecipe recipe;
    recipe.fields["x"] = {DType::kF32, {}};
    recipe.fields["y"] = {y, Shape(shape.begin() + 1, shape.end())};
    recipe.batch = shape[0];
    recipe.loss = *parse_loss_spec(loss);
    return !lower_training_step(identity_of(shape, shape[0]), recipe).ok();
  };
  CHECK(refused({4, 3}, "bce:pos-weights=1/2", DType::kF32));
  CHECK(refused({4}, "bce:pos-weights=1/2/3/4", DType::kF32));
  CHECK(refused({4, 3}, "huber", DType::kU8));
  CHECK(refused({4, 3}, "l1", DType::kI64));
  CHECK_FALSE(refused({4, 3}, "bce", DType::kI64));
}
