// The work that an estimate states for the built-in models, compared with what the definition's evaluator
// counts while it runs them.
#include <catch2/catch.hpp>
#include <string>

#include "captured_text.h"
#include "dgx/lowering/lower.h"
#include "dgx/program/cost.h"
#include "dgx/program/initial.h"
#include "run_program.h"

namespace dgx::test {
namespace {

/// A built-in model, a batch for it, and how it is trained.
struct BuiltIn {
  std::string model;
  Shape x;
  DType x_type = DType::kU8;  ///< of the dataset
  Shape y = {};
  std::string loss = "cross-entropy";
  std::string optimizer = "sgd:lr=0.1,momentum=0.9";
  std::int64_t labels = 2;  ///< y is 0 to this, exclusive
};

template <class T>
T must(Result<T> result) {
  if (!result.ok()) FAIL(result.error().message);
  return std::move(result).value();
}

Tensor filled(DType dtype, const Shape& shape, std::int64_t below) {
  Tensor out(dtype, shape);
  for (std::int64_t n = 0; n < out.count(); ++n) {
    const std::int64_t number = n * 37 % below;
    const auto at = static_cast<std::size_t>(n);
    if (dtype == DType::kU8) out.bytes()[at] = static_cast<std::uint8_t>(number);
    if (dtype == DType::kI64) out.as<std::int64_t>()[at] = number;
    if (dtype == DType::kF32) out.as<float>()[at] = static_cast<float>(number);
  }
  return out;
}

Shape sample_of(const Shape& batch) { return {batch.begin() + 1, batch.end()}; }

lowering::CapturedGraph captured(const BuiltIn& one, bool training) {
  static lowering::CaptureBackend* const backend = open_capture_backend(DGX_TORCH_MODULE);
  REQUIRE(backend != nullptr);
  lowering::CaptureRequest request;
  request.model = one.model;
  request.fields = {{"x", one.x, one.x_type == DType::kI64 ? DType::kI64 : DType::kF32}};
  request.training = training;
  return must(backend->capture(request));
}

/// The operations counted in one run of the program, of which every line is compared with its estimate.
kernels::OperationCounts counted(const program::Program& program, const BuiltIn& one,
                                 const lowering::TrainingRecipe& recipe) {
  StepInputs inputs{filled(one.x_type, one.x, one.x_type == DType::kU8 ? 251 : 7),
                    filled(one.loss == "mse" ? DType::kF32 : DType::kU8, one.y, one.labels),
                    must(program::schedule_parameters(recipe.optimizer, {}, 100)), 0, 5};
  const State state = must(program::initial_state(program, 3, *program::model_kind(one.model)));
  kernels::OperationCounts out;
  run_program(program, state, inputs, &out);
  return out;
}

bool has_selects(const program::Program& program) {
  return std::ranges::any_of(program.values, [](const kernels::Primitive& line) {
    return std::ranges::any_of(
        line.steps, [](const kernels::Step& step) { return step.op == kernels::ScalarOp::kSelect; });
  });
}

/// Compares both programs of the model; returns true if an estimate of them is exact.
bool is_exact(const BuiltIn& one) {
  CAPTURE(one.model, one.loss, one.optimizer);
  lowering::TrainingRecipe recipe;
  recipe.fields["x"] = {one.x_type, sample_of(one.x)};
  recipe.fields["y"] = {one.loss == "mse" ? DType::kF32 : DType::kU8, sample_of(one.y)};
  if (one.x_type == DType::kU8) recipe.scale = 1.0F / 255;
  recipe.batch = one.x[0];
  recipe.loss = must(program::parse_loss_spec(one.loss));
  recipe.optimizer = must(program::parse_optimizer_spec(one.optimizer));
  bool all_exact = true;
  for (const auto& program : {must(lowering::lower_training_step(captured(one, true), recipe)),
                              must(lowering::lower_evaluation(captured(one, false), recipe))}) {
    const auto ours = counted(program, one, recipe).by_op;
    const program::Cost cost = program::cost_of(program);
    for (std::size_t op = 0; op < ours.size(); ++op) CHECK(ours[op] <= cost.operations[op]);
    if (!has_selects(program)) CHECK(ours == cost.operations);
    all_exact = all_exact && ours == cost.operations;
  }
  return all_exact;
}

}  // namespace

TEST_CASE("the estimate of a built-in model is what an evaluator counts, and never less") {
  const BuiltIn perceptron{"mlp:12-6-4,activation=tanh", {5, 12}, DType::kU8, {5, 4}, "mse"};
  CHECK(is_exact(perceptron));
  for (const std::string optimizer : {"adamw:lr=1e-3", "lion:lr=1e-4", "rmsprop:lr=1e-2,centered"}) {
    BuiltIn other = perceptron;
    other.optimizer = optimizer;
    is_exact(other);
  }
  BuiltIn labelled = perceptron;
  labelled.loss = "cross-entropy";
  labelled.y = {5};
  for (const std::string activation : {"relu", "gelu", "gelu-tanh", "tanh", "sigmoid"}) {
    labelled.model = "mlp:12-6-4,activation=" + activation;
    is_exact(labelled);
  }
  is_exact({"resnet20:classes=3", {2, 3, 16, 16}, DType::kU8, {2}});
  is_exact({"gpt:layers=2,width=16,heads=2,context=6,vocab=7,dropout=0.1,tied",
            {2, 6},
            DType::kI64,
            {2, 6},
            "cross-entropy",
            "adamw:lr=1e-3"});
  is_exact({"switch:layers=2,every=1,width=8,heads=2,context=6,vocab=7,experts=3",
            {2, 6},
            DType::kI64,
            {2, 6},
            "cross-entropy",
            "adamw:lr=1e-3"});
}

}  // namespace dgx::test
