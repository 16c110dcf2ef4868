#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "captured_mlp.h"
#include "dgx/exec/executor.h"
#include "dgx/kernels/order.h"
#include "dgx/lowering/lower.h"
#include "dgx/program/initial.h"
#include "run_program.h"

namespace dgx::test {

/// A small network with data to train.
struct Network {
  std::vector<std::int64_t> sizes = {7, 5, 3};
  program::Activation activation = program::Activation::kRelu;
  program::LossKind loss = program::LossKind::kCrossEntropy;
  std::string optimizer = "sgd:lr=0.1,momentum=0.9";
  std::optional<double> clip_norm;
  std::int64_t batch = 4;
  std::int64_t samples = 23;
  DType x_dtype = DType::kU8;
  std::vector<std::string> frozen = {};  ///< patterns of parameters

  [[nodiscard]] lowering::TrainingRecipe recipe() const {
    lowering::TrainingRecipe recipe;
    recipe.fields["x"] = {x_dtype, {sizes.front()}};
    const bool classifies = loss == program::LossKind::kCrossEntropy;
    recipe.fields["y"] = {classifies ? DType::kU8 : DType::kF32, classifies ? Shape{} : Shape{sizes.back()}};
    recipe.scale = x_dtype == DType::kU8 ? 1.0F / 255 : 1.0F;
    recipe.batch = batch;
    recipe.loss = loss;
    recipe.optimizer = *program::parse_optimizer_spec(optimizer);
    recipe.clip_norm = clip_norm;
    recipe.update.frozen = frozen;
    return recipe;
  }
  [[nodiscard]] lowering::CapturedGraph graph(bool training) const {
    MlpCapture capture(sizes, {batch, sizes.front()}, activation);
    return training ? capture.training() : capture.evaluation();
  }
  [[nodiscard]] std::shared_ptr<const program::Program> step_program() const {
    auto lowered = lowering::lower_training_step(graph(true), recipe());
    if (!lowered.ok()) FAIL(lowered.error().message);
    return std::make_shared<const program::Program>(*lowered);
  }
};

/// Random samples and labels of a network's fields.
struct Samples {
  Tensor x, y;

  explicit Samples(const Network& network, unsigned seed = 5)
      : x(network.x_dtype, {network.samples, network.sizes.front()}),
        y(network.recipe().fields["y"].dtype, y_shape(network)) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    if (network.x_dtype == DType::kU8) {
      for (auto& byte : x.bytes()) byte = static_cast<std::uint8_t>(random() % 3 == 0 ? 0 : random());
    } else {
      for (float& number : x.as<float>()) number = normal(random);
    }
    if (y.dtype() == DType::kU8) {
      for (auto& byte : y.bytes())
        byte = static_cast<std::uint8_t>(random() % static_cast<unsigned>(network.sizes.back()));
    } else {
      for (float& number : y.as<float>()) number = normal(random);
    }
  }

  static Shape y_shape(const Network& network) {
    Shape shape = network.recipe().fields["y"].sample_shape;
    shape.insert(shape.begin(), network.samples);
    return shape;
  }
};

/// The rows of one step's batch, chosen by the definition of the data order.
inline Tensor pick(const Tensor& field, const std::vector<std::int64_t>& rows) {
  Shape shape = field.shape();
  const std::size_t size = field.bytes().size() / static_cast<std::size_t>(shape[0]);
  shape[0] = static_cast<std::int64_t>(rows.size());
  Tensor out(field.dtype(), shape);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto* from = field.bytes().data() + static_cast<std::size_t>(rows[i]) * size;
    std::copy(from, from + size, out.bytes().begin() + static_cast<std::ptrdiff_t>(i * size));
  }
  return out;
}

constexpr std::uint64_t kSeed = 11;

inline exec::StepInputs step_inputs(const Network& network, const Samples& data) {
  const auto schedule = program::schedule_parameters(network.recipe().optimizer, {}, 100);
  REQUIRE(schedule.ok());
  return {*schedule, kSeed, network.batch, {{"x", data.x.view()}, {"y", data.y.view()}}};
}

/// The inputs of step `step`, for the reference.
inline StepInputs reference_inputs(const Network& network, const Samples& data, std::int64_t step) {
  const auto order = kernels::DataOrder::create(kSeed, network.samples, network.batch);
  const auto rows = order->batch_indices(step);
  return {pick(data.x, rows), pick(data.y, rows), step_inputs(network, data).schedule, step};
}

inline bool same_bits(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() && std::ranges::equal(a.bytes(), b.bytes());
}

inline void require_same(const State& ours, const State& reference, const std::string& when) {
  REQUIRE(ours.size() == reference.size());
  for (std::size_t e = 0; e < ours.size(); ++e) {
    INFO(when << ", entry " << ours[e].name);
    REQUIRE(ours[e].name == reference[e].name);
    REQUIRE(same_bits(ours[e].tensor, reference[e].tensor));
  }
}

}  // namespace dgx::test
