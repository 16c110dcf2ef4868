#include "dgx/lowering/lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "dgx/lowering/workers.h"
#include "dgx/program/check.h"
#include "dgx/program/line.h"
#include "infinities.h"
#include "loss_ends.h"
#include "lower_cut.h"
#include "lower_dgc.h"
#include "lower_loss.h"
#include "lower_optimizer.h"
#include "lowering.h"
#include "merge_maps.h"
#include "parameters.h"

namespace dgx::lowering {

using kernels::Literal;
using kernels::ValueIndex;
using program::Program;
using program::ProgramRole;

namespace {

/// Constants of at most this many numbers stand in the program; larger ones are state entries that never
/// change.
constexpr std::int64_t kMaxInlineNumbers = 64;

Literal number_at(const Tensor& tensor, std::size_t n) {
  switch (tensor.dtype()) {
    case DType::kF32: return tensor.as<float>()[n];
    case DType::kI64: return tensor.as<std::int64_t>()[n];
    case DType::kU8: return std::int64_t{tensor.as<std::uint8_t>()[n]};
  }
  return std::int64_t{0};
}

bool has_nan(const Tensor& tensor) {
  if (tensor.dtype() != DType::kF32) return false;
  return std::any_of(tensor.as<float>().begin(), tensor.as<float>().end(),
                     [](float number) { return std::isnan(number); });
}

/// A capture comes from another module, so its ids are checked once, here.
Status check_graph(const CapturedGraph& graph) {
  const auto known = [&](const std::optional<TensorId>& id) {
    return !id || (*id >= 0 && static_cast<std::size_t>(*id) < graph.tensors.size());
  };
  bool good = known(graph.output) && known(graph.penalty) && known(graph.output_gradient);
  if (const auto& cut = graph.cut)
    good =
        good && known(cut->activation) && known(cut->message) && known(cut->gradient) && known(cut->returned);
  for (const AtenInput& input : graph.inputs) good = good && known(input.tensor);
  for (const AtenSource& source : graph.sources) good = good && known(source.tensor);
  for (const auto& gradient : graph.gradients) good = good && known(gradient);
  for (const auto& [source, tensor] : graph.buffer_updates)
    good = good && source < graph.sources.size() && known(tensor);
  for (const AtenCall& call : graph.calls) {
    for (const auto& result : call.results) good = good && known(result);
    good = good && call.arguments.size() == call.argument_names.size();
  }
  if (!good) return internal_error("capture: a tensor number that is not in its table");
  for (const AtenTensor& tensor : graph.tensors) {
    auto count = element_count(tensor.shape);
    if (!count) return within("capture", count.error());
  }
  return {};
}

/// By call: true if the tensors in `wanted` depend on it. The tensor `given` comes from elsewhere.
std::vector<bool> live_calls(const CapturedGraph& graph, const std::vector<std::optional<TensorId>>& wanted,
                             std::optional<TensorId> given = std::nullopt) {
  std::vector<bool> tensors(graph.tensors.size(), false), calls(graph.calls.size(), false);
  const auto mark = [&](const std::optional<TensorId>& id) {
    if (id && *id >= 0 && static_cast<std::size_t>(*id) < tensors.size())
      tensors[static_cast<std::size_t>(*id)] = true;
  };
  for (const auto& id : wanted) mark(id);
  for (std::size_t n = graph.calls.size(); n-- > 0;) {
    const AtenCall& call = graph.calls[n];
    calls[n] = std::any_of(call.results.begin(), call.results.end(), [&](const auto& id) {
      return id && id != given && tensors[static_cast<std::size_t>(*id)];
    });
    if (!calls[n]) continue;
    for (const AtenArgument& argument : call.arguments) {
      if (const auto* id = std::get_if<std::optional<TensorId>>(&argument)) mark(*id);
      if (const auto* ids = std::get_if<std::vector<std::optional<TensorId>>>(&argument)) {
        for (const auto& id : *ids) mark(id);
      }
    }
  }
  return calls;
}

/// True if the captured pass changes the source.
bool changes(const CapturedGraph& graph, const AtenSource& source) {
  const auto n = static_cast<std::size_t>(&source - graph.sources.data());
  if (n < graph.gradients.size() && graph.gradients[n]) return true;
  return std::any_of(graph.buffer_updates.begin(), graph.buffer_updates.end(),
                     [&](const auto& update) { return update.first == n; });
}

TensorForm inline_constant(Builder& builder, const Tensor& tensor) {
  std::vector<std::string> numbers;
  for (std::size_t n = 0; n < static_cast<std::size_t>(tensor.count()); ++n)
    numbers.push_back(program::print_literal(number_at(tensor, n)));
  return value_form(builder.constant(tensor.dtype(), tensor.shape(), std::move(numbers)), tensor.dtype(),
                    tensor.shape());
}

/// True for a source that is an entry of the state: small literals stand in the program.
bool is_entry(const AtenSource& source) {
  return source.kind != AtenSource::Kind::kConstant || source.value.count() > kMaxInlineNumbers;
}

bool have_same_numbers(const AtenSource& a, const AtenSource& b) {
  return a.value.dtype() == b.value.dtype() && a.value.shape() == b.value.shape() &&
         std::ranges::equal(a.value.bytes(), b.value.bytes());
}

/// The number that stands for the source's infinities; nullopt if it has none.
std::optional<float> infinity_of(const AtenSource& source) {
  if (!source.has_numbers()) return source.infinity;
  return has_infinity(source.value) ? std::optional(stand_in_for_infinity(source.value)) : std::nullopt;
}

Result<TensorForm> source_form(LoweringState& state, const AtenSource& source) {
  const Tensor& tensor = source.value;
  const AtenTensor& form = state.graph.form(source);
  if (*element_count(form.shape) == 0) return usage_error("model: " + source.name + " has no elements");
  if (source.has_numbers() && (form.dtype != tensor.dtype() || form.shape != tensor.shape()))
    return internal_error("capture: " + source.name + " does not have its tensor's type and shape");
  if (has_nan(tensor)) return usage_error("model: " + source.name + " holds a NaN");
  if (!is_entry(source)) {
    return tensor.count() == 1 ? splat_form(tensor.dtype(), tensor.shape(), number_at(tensor, 0))
                               : inline_constant(state.builder, tensor);
  }
  const ValueIndex value = state.builder.state("model/" + source.name, form.dtype, form.shape);
  const TensorForm entry = value_form(value, form.dtype, form.shape);
  const std::optional<float> infinity = infinity_of(source);
  if (!infinity) return entry;
  if (changes(state.graph, source))
    return usage_error("model: " + source.name + " holds an infinity and changes in training");
  return with_infinities(state.builder, source.name, entry, *infinity);
}

/// A field of the batch as it is stored; nullopt if the dataset does not have it.
std::optional<TensorForm> batch_field(Builder& builder, const TrainingRecipe& recipe,
                                      const std::string& name) {
  const auto field = recipe.fields.find(name);
  if (field == recipe.fields.end()) return std::nullopt;
  Shape shape = field->second.sample_shape;
  shape.insert(shape.begin(), recipe.batch);
  const DType dtype = field->second.dtype;
  return value_form(builder.batch(name, dtype, shape), dtype, shape);
}

/// kUsage if a field cannot become a tensor of type `wanted` without losing anything.
Status check_conversion(const AtenTensor& wanted, const std::string& field, DType stored, bool is_scaled) {
  if (wanted.dtype != DType::kF32 && (is_scaled || stored == DType::kF32))
    return usage_error(fmt::format("model: takes integers, the dataset's {} is {}", field,
                                   field == "x" ? "f32 or scaled" : "f32"));
  if (wanted.dtype == DType::kU8 && !wanted.boolean && stored != DType::kU8)
    return usage_error(fmt::format("model: takes u8, the dataset's {} is {}", field, name_of(stored)));
  return {};
}

/// A field of the batch as an argument of the model takes it: converted, and x scaled and shifted, in one
/// map.
Result<TensorForm> input_form(LoweringState& state, const TrainingRecipe& recipe, const AtenInput& input) {
  const auto stored = batch_field(state.builder, recipe, input.field);
  if (!stored)
    return internal_error("capture: an input takes the field " + input.field + ", which is not there");
  const AtenTensor& wanted = state.graph.tensors[static_cast<std::size_t>(input.tensor)];
  if (wanted.shape != stored->shape)
    return usage_error(
        fmt::format("model: takes {}, the batch is {}", to_string(wanted.shape), to_string(stored->shape)));
  const bool is_x = input.field == "x";
  const bool is_scaled = is_x && (recipe.scale != 1 || recipe.shift != 0);
  DGX_CHECK(check_conversion(wanted, input.field, stored->dtype, is_scaled));
  LineWriter line(state.builder, is_x ? "input" : "input " + input.field, stored->shape);
  const Expression number = line.read(*stored);
  if (wanted.boolean)
    return line.finish(wanted.dtype, compare(kernels::ScalarOp::kNe, number, std::int64_t{0}));
  return line.finish(wanted.dtype, is_scaled ? fma(number, recipe.scale, recipe.shift) : number);
}

/// Defines the model's sources and its inputs.
Status define_inputs(LoweringState& state, const TrainingRecipe& recipe) {
  for (const AtenSource& source : state.graph.sources) {
    DGX_TRY(state.forms[static_cast<std::size_t>(source.tensor)], source_form(state, source));
  }
  if (recipe.batch < 1) return usage_error("batch: must be at least 1");
  for (const AtenInput& input : state.graph.inputs) {
    DGX_TRY(state.forms[static_cast<std::size_t>(input.tensor)], input_form(state, recipe, input));
  }
  return {};
}

/// Lowers call `n`, or the cut that is there.
Status lower_at(LoweringState& state, const TrainingRecipe& recipe, std::size_t n) {
  const auto& cut = recipe.cut ? state.graph.cut : std::nullopt;
  const std::optional<TensorId> made =
      state.graph.calls[n].results.empty() ? std::nullopt : state.graph.calls[n].results.front();
  if (cut && made == cut->message) return lower_cut_forward(state, recipe);
  if (cut && made == cut->returned) return lower_cut_backward(state, recipe);
  return lower_call(state, n);
}

/// The loss that the model itself computes; its gradient is 1.
Result<LossForms> own_loss(Builder& builder, const TensorForm& output) {
  if (output.dtype != DType::kF32 || !output.shape.empty())
    return usage_error(fmt::format("loss output: the model's output is {} {}, must be one number, f32 []",
                                   name_of(output.dtype), to_string(output.shape)),
                       "take the mean in forward(), or name another output");
  LossForms loss;
  loss.mean = materialise(builder, "loss", without_splat(builder, output));
  loss.gradient = splat_form(DType::kF32, {}, 1.0F);
  return loss;
}

Result<LossForms> lower_loss_at(LoweringState& state, const TrainingRecipe& recipe, const LossEnds& ends) {
  const TensorForm output = state.form(ends.output);
  if (ends.loss.kind == program::LossKind::kOutput) return own_loss(state.builder, output);
  TrainingRecipe of_ends = recipe;
  of_ends.loss = ends.loss;
  if (ends.targets) return lower_loss(state.builder, of_ends, output, state.form(*ends.targets));
  const auto y = batch_field(state.builder, recipe, "y");
  if (!y) return usage_error(fmt::format("loss {}: the dataset has no y", program::name_of(ends.loss.kind)));
  return lower_loss(state.builder, of_ends, output, *y);
}

/// Lowers the loss, and defines the gradient that the backward pass starts from.
Result<LossForms> define_loss(LoweringState& state, const TrainingRecipe& recipe, const LossEnds& ends) {
  DGX_TRY(LossForms loss, lower_loss_at(state, recipe, ends));
  const auto gradient = static_cast<std::size_t>(*ends.gradient);
  if (state.graph.tensors[gradient].shape != loss.gradient.shape)
    return internal_error("capture: the output gradient does not have the output's shape");
  state.forms[gradient] = loss.gradient;
  if (!state.graph.penalty) return loss;
  const TensorForm penalty = state.form(*state.graph.penalty);
  if (penalty.dtype != DType::kF32 || !penalty.shape.empty())
    return internal_error("capture: what is added to the loss is not one number");
  LineWriter line(state.builder, "loss", Shape{});
  loss.mean = line.finish(DType::kF32, line.read(loss.mean) + line.read(penalty));
  return loss;
}

/// The gradient of a source that an update sees.
Result<TensorForm> gradient_of(LoweringState& state, OptimizerLowering& optimizer, const Treatment& treatment,
                               std::size_t source) {
  const std::string& name = state.graph.sources[source].name;
  const TensorForm& parameter = state.form(state.graph.sources[source].tensor);
  const TensorForm& gradient = state.form(*treatment.gradients[source]);
  if (parameter.dtype != DType::kF32 || gradient.dtype != DType::kF32)
    return usage_error("model: " + name + " is trained but not f32");
  if (parameter.splat) return internal_error("capture: a constant is trained");
  return optimizer.seen(name, parameter.value, gradient);
}

void update(LoweringState& state, OptimizerLowering& optimizer, const Treatment& treatment,
            std::size_t source, const TensorForm& gradient) {
  const AtenSource& updated = state.graph.sources[source];
  optimizer.update(updated.name, state.form(updated.tensor).value, gradient, treatment.groups[source]);
}

/// The sources that have a gradient by now and no update yet.
std::vector<std::size_t> ready_sources(LoweringState& state, const Treatment& treatment) {
  std::vector<std::size_t> ready;
  for (std::size_t n = 0; n < treatment.gradients.size(); ++n) {
    const auto& gradient = treatment.gradients[n];
    if (!gradient || !state.is_defined(*gradient)) continue;
    const TensorForm& parameter = state.form(state.graph.sources[n].tensor);
    if (parameter.splat || !state.builder.values()[parameter.value].next) ready.push_back(n);
  }
  return ready;
}

Status update_ready(LoweringState& state, OptimizerLowering& optimizer, const Treatment& treatment) {
  for (const std::size_t n : ready_sources(state, treatment)) {
    DGX_TRY(const TensorForm gradient, gradient_of(state, optimizer, treatment, n));
    update(state, optimizer, treatment, n, gradient);
  }
  return {};
}

Status update_clipped(LoweringState& state, OptimizerLowering& optimizer, const Treatment& treatment,
                      double bound) {
  const std::vector<std::size_t> sources = ready_sources(state, treatment);
  std::vector<TensorForm> gradients;
  for (const std::size_t n : sources) {
    DGX_TRY(gradients.emplace_back(), gradient_of(state, optimizer, treatment, n));
  }
  const auto clipped = clip_gradients(state.builder, gradients, bound);
  for (std::size_t n = 0; n < sources.size(); ++n)
    update(state, optimizer, treatment, sources[n], clipped[n]);
  return {};
}

/// Gives a `next` to all other entries of the model: the buffers that the pass replaces, and those that stay.
Status finish_entries(LoweringState& state, const Treatment& treatment) {
  const CapturedGraph& graph = state.graph;
  Builder& builder = state.builder;
  for (std::size_t n = 0; n < treatment.gradients.size(); ++n) {
    if (treatment.gradients[n] && !state.is_defined(*treatment.gradients[n]))
      return internal_error("capture: no call gives the gradient of " + graph.sources[n].name);
  }
  for (const auto& [source, tensor] : graph.buffer_updates) {
    const std::string& name = graph.sources[source].name;
    if (!state.is_defined(tensor)) return internal_error("capture: no call gives the buffer " + name);
    const TensorForm& buffer = state.form(graph.sources[source].tensor);
    const TensorForm next = materialise(builder, "buffer " + name, state.form(tensor));
    if (buffer.splat || next.dtype != buffer.dtype || next.shape != buffer.shape)
      return usage_error("model: buffer " + name + " changes its type or shape");
    builder.set_next(buffer.value, next.value);
  }
  for (const ValueIndex value : builder.values().indices()) {
    const kernels::Primitive& entry = builder.values()[value];
    const bool is_state =
        entry.kind == kernels::Kind::kInput && entry.source.kind == kernels::Source::Kind::kState;
    if (is_state && !entry.next) builder.set_next(value, value);
  }
  return {};
}

void define_counters(Builder& builder, const LossForms& loss) {
  const ValueIndex step = builder.state("step", DType::kI64, {});
  LineWriter line(builder, "step", Shape{});
  const Expression now = line.read(value_form(step, DType::kI64, {}));
  builder.set_next(step, line.finish(DType::kI64, now + std::int64_t{1}).value);
  const ValueIndex entry = builder.state("loss", DType::kF32, {});
  builder.set_next(entry, materialise(builder, "loss", loss.mean).value);
}

/// kUsage if no bundle can hold the entries of a program by their names, which come from the model.
Status check_names(const Program& program) {
  constexpr const char* kHint = "give the parameter another name";
  std::set<std::string> names;
  for (const ValueIndex v : program::state_inputs(program)) {
    const std::string& name = program.values[v].source.name;
    if (Status good = program::check_entry_name(name); !good.ok())
      return usage_error("model: " + good.error().message, kHint);
    if (!names.insert(name).second)
      return usage_error(fmt::format("model: two entries are named '{}'", name), kHint);
  }
  if (Status apart = program::check_entry_groups(names); !apart.ok())
    return usage_error("model: " + apart.error().message, kHint);
  return {};
}

/// The lowering's result must pass what every reader checks: a program that does not is a bug here, or
/// beyond the caps.
Result<Program> checked(Program program, ProgramRole role) {
  DGX_CHECK(check_names(program));
  Status status = program::check_program(program, role);
  if (!status.ok()) return internal_error("lowering: " + status.error().message);
  for (const ValueIndex v : program.values.indices()) {
    const std::string line = program::print_line(program.values[v], v);
    if (line.size() > program::kMaxLineBytes)
      return usage_error(fmt::format("lowering: line {} ({}) has {} bytes, at most {} allowed", v,
                                     program.values[v].provenance, line.size(), program::kMaxLineBytes));
  }
  return program;
}

}  // namespace

Result<Program> lower_training_step(const CapturedGraph& graph, const TrainingRecipe& recipe) {
  DGX_CHECK(check_graph(graph));
  if (!graph.output_gradient) return internal_error("capture: a training step without output gradient");
  if (graph.gradients.size() > graph.sources.size())
    return internal_error("capture: more gradients than sources");
  DGX_CHECK(check_dgc(recipe));
  if (recipe.cut && !graph.cut) return internal_error("capture: the model was not cut");
  DGX_TRY(const Treatment treatment, treat_parameters(graph, recipe.update));
  std::vector<std::optional<TensorId>> wanted = treatment.gradients;
  for (const auto& update : graph.buffer_updates) wanted.emplace_back(update.second);
  const LossEnds ends = loss_ends(graph, recipe.loss);
  wanted.insert(wanted.end(), {ends.output, ends.targets, graph.penalty});
  const std::vector<bool> live = live_calls(graph, wanted, ends.gradient),
                          forward = live_calls(graph, {ends.output, ends.targets, graph.penalty});

  LoweringState state(graph);
  DGX_CHECK(define_inputs(state, recipe));
  // The loss needs all of the forward pass, and the backward pass starts from its gradient.
  for (std::size_t n = 0; n < graph.calls.size(); ++n) {
    if (forward[n]) DGX_CHECK(lower_at(state, recipe, n));
  }
  DGX_TRY(const LossForms loss, define_loss(state, recipe, ends));
  std::optional<TensorForm> factor;
  if (recipe.schedule.kind == kernels::ScheduleKind::kPlateau)
    factor = lower_plateau(state.builder, recipe, loss.mean);
  OptimizerLowering optimizer(state.builder, recipe, factor);
  // A parameter is updated as soon as its gradient is there; with clipping all wait for the last gradient.
  if (!recipe.clip_norm) DGX_CHECK(update_ready(state, optimizer, treatment));
  for (std::size_t n = 0; n < graph.calls.size(); ++n) {
    if (!live[n] || forward[n]) continue;
    DGX_CHECK(lower_at(state, recipe, n));
    if (!recipe.clip_norm) DGX_CHECK(update_ready(state, optimizer, treatment));
  }
  if (recipe.clip_norm) DGX_CHECK(update_clipped(state, optimizer, treatment, *recipe.clip_norm));
  DGX_CHECK(finish_entries(state, treatment));
  define_counters(state.builder, loss);
  Program step = merge_maps(state.builder.finish(), 0, is_of_cut);
  // dgc has the gradients of its workers already.
  if (recipe.update.workers > 1 && recipe.optimizer.kind != program::OptimizerSpec::Kind::kDgc) {
    DGX_TRY(step, divide_among_workers(step, recipe.update.workers));
  }
  return checked(std::move(step), ProgramRole::kTraining);
}

Result<Program> lower_evaluation(const CapturedGraph& graph, const TrainingRecipe& recipe) {
  DGX_CHECK(check_graph(graph));
  LoweringState state(graph);
  Builder& builder = state.builder;
  DGX_CHECK(define_inputs(state, recipe));
  // Smoothing and weights shape the training; people compare the plain loss.
  program::LossSpec plain = recipe.loss;
  plain.label_smoothing = 0;
  plain.weights.clear();
  const LossEnds ends = loss_ends(graph, plain);
  const std::vector<bool> live = live_calls(graph, {ends.output, ends.targets});
  for (std::size_t n = 0; n < graph.calls.size(); ++n) {
    if (!live[n]) continue;
    DGX_CHECK(lower_call(state, n));
    // Evaluation has no step to draw random numbers for.
    if (builder.random_inputs() == 0) continue;
    return usage_error(fmt::format("{} ({}) draws random numbers in evaluation mode", graph.calls[n].name,
                                   graph.calls[n].place),
                       "let the model draw only if self.training");
  }
  DGX_TRY(const LossForms loss, lower_loss_at(state, recipe, ends));
  std::vector<ValueIndex> outputs;
  // A loss that the model computes is of the whole batch, whichever way it is written.
  const bool is_inside = recipe.loss.kind == program::LossKind::kOutput;
  if (loss.counted && !is_inside) outputs.push_back(materialise(builder, "counted", *loss.counted).value);
  if (loss.correct && !is_inside) outputs.push_back(materialise(builder, "correct", *loss.correct).value);
  outputs.push_back(materialise(builder, "loss", is_inside ? loss.mean : loss.per_sample).value);
  return checked(merge_maps(builder.finish(outputs), outputs.size()), ProgramRole::kEvaluation);
}

Status match_sources(const CapturedGraph& training, CapturedGraph& evaluation) {
  std::map<std::pair<AtenSource::Kind, std::string_view>, const AtenSource*> named;
  for (const AtenSource& source : training.sources) named[{source.kind, source.name}] = &source;
  for (AtenSource& source : evaluation.sources) {
    const auto same = named.find({source.kind, source.name});
    if (!source.has_numbers() && same != named.end()) source.infinity = infinity_of(*same->second);
  }
  std::set<const AtenSource*> taken;
  for (AtenSource& source : evaluation.sources) {
    if (source.kind != AtenSource::Kind::kConstant || !is_entry(source)) continue;
    const auto same = std::ranges::find_if(training.sources, [&](const AtenSource& each) {
      return each.kind == AtenSource::Kind::kConstant && !taken.contains(&each) &&
             have_same_numbers(each, source);
    });
    if (same == training.sources.end()) {
      return usage_error(fmt::format("evaluation needs a constant of shape {} that training does not have",
                                     to_string(source.value.shape())),
                         "register its numbers as a buffer, which both have");
    }
    source.name = same->name;
    taken.insert(&*same);
  }
  return {};
}

}  // namespace dgx::lowering
