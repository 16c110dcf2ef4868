#include "train/model_outputs.h"

#include <set>

#include "dgx/kernels/compiled.h"

namespace dgx::jobs {
namespace {

using kernels::Kind;
using kernels::Operand;
using kernels::Primitive;
using kernels::ValueIndex;

kernels::ByValue<kernels::ValueType> types_of(const program::Program& program) {
  kernels::ByValue<kernels::ValueType> types;
  for (const Primitive& value : program.values) types.push_back({value.dtype, value.shape});
  return types;
}

/// Sets the places of the outputs that line `argmax` compares, if they are what it reads.
void find_places(const program::Program& program, const Primitive& argmax, ModelOutputs& outputs) {
  const auto compiled = kernels::compile(argmax, types_of(program));
  if (!compiled || !argmax.steps.empty() || argmax.fold.size() != 1) return;
  const kernels::CompiledAccess& read = compiled->accesses.front();
  if (!read.is_linear || read.dtype != DType::kF32) return;
  outputs.values = read.value;
  std::vector<std::int64_t> strides(compiled->iteration.size());
  for (const kernels::CompiledTerm& term : read.linear) {
    const bool is_class = term.slot >= kernels::kFirstFoldSlot;
    (is_class ? outputs.class_stride : strides[static_cast<std::size_t>(term.slot)]) += term.coefficient;
  }
  for (std::int64_t target = 0; target < compiled->count; ++target) {
    std::int64_t place = read.offset;
    std::int64_t rest = target;
    for (std::size_t d = strides.size(); d-- > 0; rest /= compiled->iteration[d])
      place += rest % compiled->iteration[d] * strides[d];
    outputs.places.push_back(place);
  }
}

/// The last argmax is the loss's, over the classes.
ModelOutputs find_classes(const program::Program& program, const manifest::Task& task) {
  ModelOutputs outputs;
  std::optional<ValueIndex> last;
  for (const ValueIndex v : program.values.indices())
    if (program.values[v].kind == Kind::kArgmax) last = v;
  if (!last) return outputs;
  const Primitive& argmax = program.values[*last];
  outputs.class_count = *element_count(argmax.fold);
  // Labels are counted by class, so they must be integers, one for each class that is found.
  const manifest::DatasetField* const y = task.dataset.find("y");
  if (y == nullptr || y->dtype == DType::kF32) return outputs;
  if (*element_count(argmax.shape) != task.batch * targets_in(task)) return outputs;
  outputs.classes = last;
  find_places(program, argmax, outputs);
  return outputs;
}

/// The part of `line` that computes `operand`, an access or a step of it; nullopt for other operands.
std::optional<Primitive> part_of(const Primitive& line, const Operand& operand) {
  Primitive out = line;
  if (operand.kind == Operand::Kind::kStep) {
    out.steps.resize(static_cast<std::size_t>(operand.index) + 1);
  } else if (operand.kind == Operand::Kind::kAccess) {
    out.steps.clear();
    out.accesses = {line.accesses[static_cast<std::size_t>(operand.index)]};
  } else {
    return std::nullopt;
  }
  return out;
}

/// The operand of the loss in `line` that is compared with the targets: the one that they are subtracted
/// from; or, if that is a literal, as in 1 - t of bce, the one by which an fma multiplies the difference.
std::optional<Operand> compared_with(const Primitive& line, const std::set<ValueIndex>& targets) {
  std::set<int> targets_as_f32, complements;  // steps
  const auto is_target = [&](const Operand& operand) {
    if (operand.kind == Operand::Kind::kStep) return targets_as_f32.contains(operand.index);
    return operand.kind == Operand::Kind::kAccess &&
           targets.contains(line.accesses[static_cast<std::size_t>(operand.index)].value);
  };
  for (int n = 0; n < std::ssize(line.steps); ++n) {
    const kernels::Step& step = line.steps[static_cast<std::size_t>(n)];
    const auto& [first, second, unused] = step.operands;
    if (step.op == kernels::ScalarOp::kF32 && is_target(first)) targets_as_f32.insert(n);
    if (step.op == kernels::ScalarOp::kSub && is_target(second)) {
      if (first.kind == Operand::Kind::kStep || first.kind == Operand::Kind::kAccess) return first;
      complements.insert(n);
    }
    if (step.op == kernels::ScalarOp::kFma && first.kind == Operand::Kind::kStep &&
        complements.contains(first.index))
      return second;
  }
  return std::nullopt;
}

/// Computes what the loss compares with the targets: the model's outputs.
std::optional<Primitive> line_of_outputs(const program::Program& program) {
  std::set<ValueIndex> targets;  // the batch's y, also in another shape
  for (const ValueIndex v : program.values.indices()) {
    const Primitive& line = program.values[v];
    if (line.kind == Kind::kInput && line.source.kind == kernels::Source::Kind::kBatch &&
        line.source.name == "y")
      targets.insert(v);
    if (line.kind != Kind::kMap) continue;
    if (line.steps.empty() && targets.contains(line.accesses.front().value)) targets.insert(v);
    const auto outputs = compared_with(line, targets);
    if (!outputs) continue;
    auto out = part_of(line, *outputs);
    if (out && out->dtype == DType::kF32 && kernels::compile(*out, types_of(program)).ok()) return out;
  }
  return std::nullopt;
}

}  // namespace

bool classifies(const manifest::Task& task) { return task.loss.kind == program::LossKind::kCrossEntropy; }

bool counts_hits(const manifest::Task& task) {
  return classifies(task) || task.loss.kind == program::LossKind::kBinaryCrossEntropy;
}

std::int64_t targets_in(const manifest::Task& task) {
  const manifest::DatasetField* const y = task.dataset.find("y");
  return y == nullptr ? 0 : *element_count(y->shape);
}

ModelOutputs find_outputs(program::Program& program, const manifest::Task& task) {
  if (classifies(task)) return find_classes(program, task);
  ModelOutputs outputs;
  if (auto line = line_of_outputs(program)) {
    outputs.values = program.values.next();
    program.values.push_back(std::move(*line));
  }
  return outputs;
}

}  // namespace dgx::jobs
