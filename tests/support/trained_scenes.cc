#include "trained_scenes.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string>

#include "captured_mlp.h"
#include "dgx/lowering/lower.h"
#include "dgx/program/specs.h"
#include "statements.h"

namespace dgx::test {
namespace {

constexpr std::int64_t kSteps = 6, kEvery = 3, kBatch = 2, kSamples = 11, kInputs = 2, kOutputs = 2,
                       kHidden = 3;

struct Choice {
  const char* name;
  const char* loss;
  const char* optimizer;
  const char* schedule = "constant";
  std::int64_t accumulate = 1;
  std::optional<double> ema = {};
  std::optional<double> clip_norm = {};
  std::vector<const char*> groups = {};
  std::vector<std::string> frozen = {};
  std::int64_t workers = 1;
  const char* cut = nullptr;
};

// Every loss, optimiser and schedule is there, and every part of an update alone and beside others.
const std::vector<Choice>& choices() {
  static const std::vector<Choice> kChoices = {
      {"rmsprop", "bce:pos-weights=0.5/2", "rmsprop:centered,momentum=0.9,weight-decay=0.1",
       "wsd:warmup=1,decay=2,min=1e-4"},
      {"lion", "huber:delta=0.5", "lion:lr=1e-2,weight-decay=0.1", "one-cycle:up=0.5"},
      {"adagrad", "l1", "adagrad:lr-decay=0.1,initial=0.1", "polynomial:power=1.5,warmup=20%"},
      {"groups",
       "mse",
       "adamw:lr=1e-2",
       "cosine:cycles=2",
       1,
       {},
       {},
       {"rank<2:weight-decay=0", "*:lr=0.3x"}},
      {"frozen",
       "mse",
       "sgd:lr=0.1,momentum=0.9,nesterov",
       "inverse-sqrt:warmup=2",
       1,
       0.5,
       {},
       {},
       {"0.bias"}},
      {"averaged", "bce", "adam:lr=1e-2", "linear:warmup=1", 1, 0.9},
      {"accumulated", "mse", "sgd:lr=0.1,momentum=0.9", "step:every=1,gamma=0.5", 2},
      {"clipped", "huber", "rmsprop", "constant", 3, 0.9, 0.1, {"rank<2:weight-decay=0.1"}},
      {"plateau", "l1", "lion:lr=1e-2,weight-decay=0.1",
       "plateau:every=1,patience=0,threshold=0.9,factor=0.5,warmup=1"},
      {"plateau of updates",
       "mse",
       "adamw:lr=1e-2",
       "plateau:every=1,patience=0,threshold=0.9,cooldown=1,min=1e-3",
       2,
       0.9,
       1.0,
       {"rank<2:lr=0.5x,weight-decay=0"}},
      {"compressed",
       "mse",
       "dgc:lr=0.1,density=0.2,warmup=3,clip=0.1,bits=8,weight-decay=0.1",
       "linear:warmup=1",
       1,
       {},
       {},
       {},
       {},
       2},
      {"classes", "cross-entropy:label-smoothing=0.1,ignore=0", "sgd:lr=0.1"},
      {"cut", "mse", "sgd:lr=0.1", "constant", 1, {}, {}, {}, {}, 1, "1:forward=2,backward=3,first=2"},
      {"cut at once", "mse", "adamw:lr=1e-2", "constant", 2, 0.9, 0.1, {}, {}, 2, "1:forward=8,first=0"},
  };
  return kChoices;
}

template <class T>
T must(Result<T> result, const char* name) {
  if (result.ok()) return std::move(result).value();
  fmt::print(stderr, "scene {}: {}\n", name, result.error().message);
  std::abort();
}

lowering::TrainingRecipe recipe_of(const Choice& choice) {
  lowering::TrainingRecipe out;
  out.batch = kBatch;
  out.loss = must(program::parse_loss_spec(choice.loss), choice.name);
  out.optimizer = must(program::parse_optimizer_spec(choice.optimizer), choice.name);
  out.clip_norm = choice.clip_norm;
  out.update.accumulate = choice.accumulate;
  out.update.ema = choice.ema;
  out.update.frozen = choice.frozen;
  out.update.workers = choice.workers;
  for (const char* group : choice.groups)
    out.update.groups.push_back(must(program::parse_group(group), choice.name));
  out.samples = kSamples;
  if (choice.cut != nullptr) out.cut = must(program::parse_cut_spec(choice.cut), choice.name).spec;
  out.schedule = must(program::fix_schedule(must(program::parse_schedule_text(choice.schedule), choice.name),
                                            out.optimizer.learning_rate, kSteps / choice.accumulate),
                      choice.name);
  out.fields["x"] = {DType::kF32, {kInputs}};
  const program::LossKind kind = out.loss.kind;
  if (kind == program::LossKind::kCrossEntropy) out.fields["y"] = {DType::kU8, {}};
  if (kind == program::LossKind::kBinaryCrossEntropy) out.fields["y"] = {DType::kU8, {kOutputs}};
  if (kind == program::LossKind::kOutput) out.fields["mask"] = {DType::kU8, {kInputs}};
  if (kind != program::LossKind::kOutput)
    out.fields.try_emplace("y", lowering::DatasetField{DType::kF32, {kOutputs}});
  return out;
}

/// Floats around 0; bytes 0 and 1, which are labels or a mask.
Entry drawn(const std::string& name, const lowering::DatasetField& field, Dice& dice) {
  Shape shape = field.sample_shape;
  shape.insert(shape.begin(), kSamples);
  Entry out{name, Tensor(field.dtype, shape)};
  if (field.dtype == DType::kU8)
    for (std::uint8_t& byte : out.tensor.bytes()) byte = static_cast<std::uint8_t>(dice.below(2));
  else
    for (float& number : out.tensor.as<float>())
      number = static_cast<float>(dice.below(2'000'001) - 1'000'000) * 0x1p-20F;
  return out;
}

Scene scene_of(const Choice& choice, const lowering::CapturedGraph& graph) {
  const lowering::TrainingRecipe recipe = recipe_of(choice);
  program::Program program = must(lowering::lower_training_step(graph, recipe), choice.name);
  State initial = must(lowering::initial_state(program, graph), choice.name);
  manifest::Task task = test::task();
  task.loss = recipe.loss;
  task.optimizer = recipe.optimizer;
  task.schedule = recipe.schedule;
  task.update = recipe.update;
  task.cut = recipe.cut;
  task.clip_norm = recipe.clip_norm;
  task.batch = kBatch;
  task.steps = kSteps;
  task.checkpoint_every = kEvery;
  task.dataset.samples = kSamples;
  task.dataset.fields.clear();
  Dice dice(9);
  State dataset;
  for (const auto& [name, field] : recipe.fields) {
    task.dataset.fields.emplace(name, manifest::DatasetField{field.dtype, field.sample_shape});
    dataset.push_back(drawn(name, field, dice));
  }
  return scene_from(fmt::format("trained: {}", choice.name), std::move(program), std::move(task),
                    std::move(initial), std::move(dataset));
}

/// mean((x w m)²) of a parameter w and a masked x, which the model computes itself.
lowering::CapturedGraph loss_inside() {
  lowering::CapturedGraph graph;
  const auto tensor = [&](const Shape& shape) {
    graph.tensors.push_back({DType::kF32, shape});
    return static_cast<lowering::TensorId>(graph.tensors.size() - 1);
  };
  using Argument = lowering::AtenArgument;
  const auto of = [](lowering::TensorId id) { return Argument(std::optional(id)); };
  const auto call = [&](const char* name, const char* overload, std::vector<std::string> names,
                        std::vector<Argument> arguments, const Shape& shape) {
    const lowering::TensorId result = tensor(shape);
    graph.calls.push_back({name, overload, std::move(names), std::move(arguments), {result}, "forward"});
    return result;
  };
  const auto product = [&](lowering::TensorId a, const Argument& b) {
    return call("aten::mul", "Tensor", {"self", "other"}, {of(a), b}, {kBatch, kInputs});
  };
  const auto x = tensor({kBatch, kInputs}), mask = tensor({kBatch, kInputs}), w = tensor({kInputs});
  graph.inputs = {{"x", x}, {"mask", mask}};
  lowering::AtenSource source;
  source.name = "w";
  source.tensor = w;
  source.value = Tensor(DType::kF32, {kInputs});
  source.value.as<float>()[0] = 0.75F;
  source.value.as<float>()[1] = -1.25F;
  graph.sources = {std::move(source)};
  const auto seen = product(product(x, of(w)), of(mask));
  graph.output =
      call("aten::mean", "", {"self", "dtype"}, {of(product(seen, of(seen))), std::monostate()}, {});
  graph.output_gradient = tensor({});
  const auto spread = call("aten::expand", "", {"self", "size", "implicit"},
                           {of(*graph.output_gradient), std::vector<std::int64_t>{kBatch, kInputs}, false},
                           {kBatch, kInputs});
  const auto slope = product(product(product(product(spread, 0.5), of(seen)), of(mask)), of(x));
  graph.gradients = {call("aten::sum", "dim_IntList", {"self", "dim", "keepdim", "dtype"},
                          {of(slope), std::vector<std::int64_t>{0}, false, std::monostate()}, {kInputs})};
  return graph;
}

}  // namespace

std::vector<Scene> trained_scenes() {
  std::vector<Scene> out;
  for (const Choice& choice : choices()) {
    const auto graph = choice.cut == nullptr ? captured_mlp({kInputs, kOutputs}, kBatch)
                                             : captured_mlp({kInputs, kHidden, kOutputs}, kBatch,
                                                            program::Activation::kRelu, 1);
    out.push_back(scene_of(choice, graph));
  }
  out.push_back(
      scene_of({"masked, loss inside", "output", "adamw:lr=1e-2", "constant", 2, 0.9}, loss_inside()));
  return out;
}

}  // namespace dgx::test
