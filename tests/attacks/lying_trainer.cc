#include "lying_trainer.h"

#include <bit>
#include <cstdlib>

#include "captured_mlp.h"
#include "dgx/crypto/sha256.h"
#include "dgx/kernels/evaluate.h"
#include "dgx/lowering/lower.h"
#include "dgx/merkle/digests.h"
#include "dgx/merkle/tree.h"
#include "dgx/program/initial.h"
#include "statements.h"

namespace dgx::test {
namespace {

/// The nearest number with eight significant bits; ties to even.
Tensor rounded(const Tensor& tensor) {
  Tensor out = tensor;
  for (float& number : out.as<float>()) {
    const auto bits = std::bit_cast<std::uint32_t>(number);
    number = std::bit_cast<float>((bits + 0x7FFFU + (bits >> 16 & 1U)) & 0xFFFF0000U);
  }
  return out;
}

template <class T>
T must_have(Result<T> result) {
  if (!result.ok()) {
    std::fprintf(stderr, "%s\n", result.error().message.c_str());
    std::abort();
  }
  return *std::move(result);
}

}  // namespace

State state_of(const StateRecord& record) {
  State out;
  for (std::size_t i = 0; i < record.names.size(); ++i) out.push_back({record.names[i], *record.tensors[i]});
  return out;
}

LyingTrainer::LyingTrainer(TinyParty& honest, const protocol::Segment& segment, const Lie& lie)
    : honest_(honest), segment_(segment), lie_(lie) {
  const Scene& scene = honest.scene();
  const auto& lines = scene.program.values;
  kernels::ByValue<kernels::ValueType> types;
  for (const kernels::ValueIndex v : lines.indices()) {
    const auto other = lie.line && scene.compiled[v] ? lie.line(lines[v]) : std::nullopt;
    if (other) other_lines_.emplace(v, must_have(kernels::compile(*other, types)));
    types.push_back({lines[v].dtype, lines[v].shape});
  }
  states_.push_back(state_of(honest.state_record(segment.first)));
  for (std::int64_t step = segment.first; step < segment.end; ++step) {
    State from = states_.back();
    if (lie.before) lie.before(step, from);
    values_.push_back(compute(step, from));
    State next;
    for (const kernels::ValueIndex v : program::state_inputs(scene.program)) {
      next.push_back({lines[v].source.name, values_.back()[*lines[v].next]});
    }
    if (lie.after) lie.after(step, next);
    states_.push_back(std::move(next));
  }
  for (const State& state : states_) digests_.push_back(must_have(merkle::state_digests(state)).state);
}

kernels::ByValue<Tensor> LyingTrainer::compute(std::int64_t step, const State& from) {
  const auto& lines = honest_.scene().program.values;
  kernels::ByValue<Tensor> values;
  for (const kernels::ValueIndex v : lines.indices()) {
    values.push_back(made(step, v, from, values));
    if (lie_.value) lie_.value(step, v, lines[v], values.back());
  }
  return values;
}

Tensor LyingTrainer::made(std::int64_t step, kernels::ValueIndex v, const State& from,
                          const kernels::ByValue<Tensor>& values) {
  const Scene& scene = honest_.scene();
  const kernels::Primitive& line = scene.program.values[v];
  if (!scene.compiled[v]) {
    const bool is_state = line.source.kind == kernels::Source::Kind::kState;
    return is_state ? find_entry(from, line.source.name)->tensor : *honest_.step(step).values[v];
  }
  kernels::ByValue<TensorView> views;
  for (const Tensor& tensor : values) views.push_back(tensor.view());
  std::vector<Tensor> copies;
  if (lie_.rounds_operands && line.kind == kernels::Kind::kDot) {
    copies.reserve(line.accesses.size());
    for (const kernels::Access& access : line.accesses) {
      if (values[access.value].dtype() != DType::kF32) continue;
      copies.push_back(rounded(values[access.value]));
      views[access.value] = copies.back().view();
    }
  }
  const auto other = other_lines_.find(v);
  Tensor out(line.dtype, line.shape);
  const auto& compiled = other == other_lines_.end() ? *scene.compiled[v] : other->second;
  if (!kernels::evaluate_all(compiled, views, out, 0, out.count()).ok()) std::abort();
  return out;
}

Result<std::vector<merkle::NamedDigest>> LyingTrainer::entries(std::int64_t step) {
  std::vector<merkle::NamedDigest> out;
  for (const Entry& entry : states_[at(step)])
    out.push_back({entry.name, merkle::tensor_digest(entry.tensor.view())});
  return out;
}

Result<std::vector<Digest>> LyingTrainer::values(std::int64_t step) {
  std::vector<Digest> out;
  for (const Tensor& tensor : values_[at(step)]) out.push_back(merkle::tensor_digest(tensor.view()));
  return out;
}

Result<Tensor> LyingTrainer::value(std::int64_t step, kernels::ValueIndex value) {
  return values_[at(step)][value];
}

Result<Tensor> LyingTrainer::entry(std::int64_t step, std::string_view name) {
  const Entry* entry = find_entry(states_[at(step)], name);
  if (entry == nullptr) return malformed("no such entry");
  return entry->tensor;
}

Scene training_scene(const Recipe& recipe, std::int64_t steps, std::int64_t every, std::uint64_t seed) {
  constexpr std::int64_t kBatch = 4;
  lowering::TrainingRecipe training;
  training.fields["x"] = {DType::kU8, {recipe.sizes.front()}};
  training.fields["y"] = {DType::kU8, {}};
  training.scale = 1.0F / 255;
  training.batch = kBatch;
  training.loss = program::LossKind::kCrossEntropy;
  training.optimizer = must_have(program::parse_optimizer_spec(recipe.optimizer));
  training.clip_norm = recipe.clip_norm;
  MlpCapture capture(recipe.sizes, {kBatch, recipe.sizes.front()}, recipe.activation);
  const auto program = must_have(lowering::lower_training_step(capture.training(), training));
  Scene scene = scene_of("training", program, steps, every, seed);
  for (std::uint8_t& label : find_entry(scene.dataset, "y")->tensor.bytes())
    label = static_cast<std::uint8_t>(label % recipe.sizes.back());
  manifest::Task task = scene.task.body;
  std::vector<merkle::NamedDigest> fields;
  for (const Entry& entry : scene.dataset)
    fields.push_back({entry.name, merkle::tensor_digest(entry.tensor.view())});
  task.dataset.digest = must_have(merkle::dataset_digest(fields, scene.name));
  task.optimizer = training.optimizer;
  task.clip_norm = recipe.clip_norm;
  task.seed = seed;
  scene.initial = must_have(program::initial_state(program, seed));
  task.initial.digest = must_have(merkle::state_digests(scene.initial)).state;
  scene.task = must_have(manifest::seal(task, key(2)));
  return scene;
}

exec::StepInputs inputs_of(const Scene& scene) {
  const manifest::Task& task = scene.task.body;
  exec::StepInputs out{must_have(program::schedule_parameters(task.optimizer, task.schedule, task.steps)),
                       task.seed, task.batch};
  for (const Entry& field : scene.dataset) out.fields.emplace(field.name, field.tensor.view());
  return out;
}

protocol::Dispute dispute_over(const Scene& scene, const std::vector<Digest>& states, std::int64_t segment,
                               manifest::About about) {
  std::vector<Digest> leaves;
  for (const Digest& state : states) leaves.push_back(merkle::committed_state_leaf(state));
  const auto opened = [&](std::int64_t i) {
    const auto index = static_cast<std::size_t>(i);
    return manifest::CommittedState{states[index], must_have(merkle::inclusion_path(leaves, index))};
  };
  protocol::Dispute out;
  out.task = scene.task;
  const manifest::Proof proof{scene.task.id, manifest::states_root(states), states.front(),
                              states.back(), scene.task.body.steps,         {}};
  out.proof = stated(proof, kProver, false);
  manifest::Challenge challenge;
  challenge.task = scene.task.id;
  challenge.proof = out.proof.id;
  challenge.about = about;
  challenge.segment = segment;
  challenge.start = opened(segment);
  challenge.end = opened(segment + 1);
  out.challenge = stated(challenge, kChallenges, false);
  return out;
}

}  // namespace dgx::test
