#include "dgx/lowering/lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "dgx/program/check.h"
#include "dgx/program/line.h"
#include "infinities.h"
#include "lower_loss.h"
#include "lower_optimizer.h"
#include "lowering.h"
#include "merge_maps.h"

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

class StepLowering {
 public:
  StepLowering(const CapturedGraph& graph, const TrainingRecipe& recipe)
      : graph_(graph), recipe_(recipe), state_(graph) {}

  Result<Program> training() {
    DGX_CHECK(check_graph());
    if (!graph_.output_gradient) return internal_error("capture: a training step without output gradient");
    if (graph_.gradients.size() > graph_.sources.size())
      return internal_error("capture: more gradients than sources");
    std::vector<std::optional<TensorId>> wanted = graph_.gradients;
    for (const auto& update : graph_.buffer_updates) wanted.emplace_back(update.second);
    wanted.emplace_back(graph_.output);
    DGX_CHECK(define_inputs());
    const std::vector<bool> live = live_calls(wanted);
    const std::vector<bool> forward = live_calls({graph_.output});
    // The loss needs all of the forward pass, and the backward pass starts from its gradient.
    for (std::size_t n = 0; n < graph_.calls.size(); ++n) {
      if (forward[n]) DGX_CHECK(lower_call(state_, n));
    }
    DGX_TRY(const LossForms loss, define_loss());
    optimizer_.emplace(builder(), recipe_.optimizer);
    DGX_CHECK(update_ready());
    for (std::size_t n = 0; n < graph_.calls.size(); ++n) {
      if (!live[n] || forward[n]) continue;
      DGX_CHECK(lower_call(state_, n));
      DGX_CHECK(update_ready());
    }
    DGX_CHECK(finish_updates());
    define_counters(loss);
    return checked(merge_maps(builder().finish()), ProgramRole::kTraining);
  }

  Result<Program> evaluation() {
    DGX_CHECK(check_graph());
    DGX_CHECK(define_inputs());
    const std::vector<bool> live = live_calls({graph_.output});
    for (std::size_t n = 0; n < graph_.calls.size(); ++n) {
      if (!live[n]) continue;
      DGX_CHECK(lower_call(state_, n));
      // Evaluation has no step to draw random numbers for.
      if (builder().random_inputs() == 0) continue;
      return usage_error(fmt::format("{} ({}) draws random numbers in evaluation mode", graph_.calls[n].name,
                                     graph_.calls[n].place),
                         "let the model draw only if self.training");
    }
    // Smoothing and weights shape the training; people compare the plain loss.
    TrainingRecipe plain = recipe_;
    plain.loss.label_smoothing = 0;
    plain.loss.weights.clear();
    DGX_TRY(const LossForms loss, lower_loss(builder(), plain, form(graph_.output), y_));
    std::vector<ValueIndex> outputs;
    if (loss.counted) outputs.push_back(materialise(builder(), "counted", *loss.counted).value);
    if (loss.correct) outputs.push_back(materialise(builder(), "correct", *loss.correct).value);
    outputs.push_back(materialise(builder(), "loss", loss.per_sample).value);
    return checked(merge_maps(builder().finish(outputs), outputs.size()), ProgramRole::kEvaluation);
  }

 private:
  Builder& builder() { return state_.builder; }
  const TensorForm& form(TensorId id) { return state_.form(id); }
  bool is_defined(TensorId id) const { return state_.is_defined(id); }

  /// A capture comes from another module, so its ids are checked once, here.
  Status check_graph() const {
    const auto known = [&](const std::optional<TensorId>& id) {
      return !id || (*id >= 0 && static_cast<std::size_t>(*id) < graph_.tensors.size());
    };
    bool good = known(graph_.input) && known(graph_.output) && known(graph_.output_gradient);
    for (const AtenSource& source : graph_.sources) good = good && known(source.tensor);
    for (const auto& gradient : graph_.gradients) good = good && known(gradient);
    for (const auto& [source, tensor] : graph_.buffer_updates)
      good = good && source < graph_.sources.size() && known(tensor);
    for (const AtenCall& call : graph_.calls) {
      for (const auto& result : call.results) good = good && known(result);
      good = good && call.arguments.size() == call.argument_names.size();
    }
    if (!good) return internal_error("capture: a tensor number that is not in its table");
    for (const AtenTensor& tensor : graph_.tensors) {
      auto count = element_count(tensor.shape);
      if (!count) return within("capture", count.error());
    }
    return {};
  }

  /// By call: true if the tensors in `wanted` depend on it.
  std::vector<bool> live_calls(const std::vector<std::optional<TensorId>>& wanted) const {
    std::vector<bool> tensors(graph_.tensors.size(), false), calls(graph_.calls.size(), false);
    const auto mark = [&](const std::optional<TensorId>& id) {
      if (id && *id >= 0 && static_cast<std::size_t>(*id) < tensors.size())
        tensors[static_cast<std::size_t>(*id)] = true;
    };
    for (const auto& id : wanted) mark(id);
    for (std::size_t n = graph_.calls.size(); n-- > 0;) {
      const AtenCall& call = graph_.calls[n];
      calls[n] = std::any_of(call.results.begin(), call.results.end(),
                             [&](const auto& id) { return id && tensors[static_cast<std::size_t>(*id)]; });
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

  Status define_inputs() {
    for (const AtenSource& source : graph_.sources) {
      DGX_TRY(state_.forms[static_cast<std::size_t>(source.tensor)], source_form(source));
    }
    if (recipe_.batch < 1) return usage_error("batch: must be at least 1");
    DGX_TRY(state_.forms[static_cast<std::size_t>(graph_.input)], input_form());
    const TensorForm y = batch_field("y", recipe_.y);
    y_ = y;
    return {};
  }

  Result<TensorForm> source_form(const AtenSource& source) {
    const Tensor& tensor = source.value;
    const AtenTensor& captured = graph_.tensors[static_cast<std::size_t>(source.tensor)];
    if (captured.dtype != tensor.dtype() || captured.shape != tensor.shape())
      return internal_error("capture: " + source.name + " is not of its tensor's form");
    if (tensor.count() == 0) return usage_error("model: " + source.name + " has no elements");
    if (has_nan(tensor)) return usage_error("model: " + source.name + " holds a NaN");
    if (source.kind == AtenSource::Kind::kConstant) {
      if (tensor.count() == 1) return splat_form(tensor.dtype(), tensor.shape(), number_at(tensor, 0));
      if (tensor.count() <= kMaxInlineNumbers) return inline_constant(tensor);
    }
    const ValueIndex value = builder().state("model/" + source.name, tensor.dtype(), tensor.shape());
    entries_.push_back(value);
    const TensorForm entry = value_form(value, tensor.dtype(), tensor.shape());
    if (!has_infinity(tensor)) return entry;
    if (changes(source))
      return usage_error("model: " + source.name + " holds an infinity and changes in training");
    return with_infinities(builder(), source.name, entry, stand_in_for_infinity(tensor));
  }

  /// True if this pass changes the source.
  bool changes(const AtenSource& source) const {
    const auto n = static_cast<std::size_t>(&source - graph_.sources.data());
    if (n < graph_.gradients.size() && graph_.gradients[n]) return true;
    return std::any_of(graph_.buffer_updates.begin(), graph_.buffer_updates.end(),
                       [&](const auto& update) { return update.first == n; });
  }

  TensorForm inline_constant(const Tensor& tensor) {
    std::vector<std::string> numbers;
    for (std::size_t n = 0; n < static_cast<std::size_t>(tensor.count()); ++n)
      numbers.push_back(program::print_literal(number_at(tensor, n)));
    return value_form(builder().constant(tensor.dtype(), tensor.shape(), std::move(numbers)), tensor.dtype(),
                      tensor.shape());
  }

  TensorForm batch_field(const std::string& name, const DatasetField& field) {
    Shape shape = field.sample_shape;
    shape.insert(shape.begin(), recipe_.batch);
    return value_form(builder().batch(name, field.dtype, shape), field.dtype, shape);
  }

  /// The batch's x as the model takes it: converted, scaled and shifted in one map.
  Result<TensorForm> input_form() {
    const TensorForm x = batch_field("x", recipe_.x);
    const AtenTensor& wanted = graph_.tensors[static_cast<std::size_t>(graph_.input)];
    if (wanted.shape != x.shape)
      return usage_error(
          fmt::format("model: takes {}, the batch is {}", to_string(wanted.shape), to_string(x.shape)));
    const bool is_scaled = recipe_.scale != 1 || recipe_.shift != 0;
    if (wanted.dtype != DType::kF32 && (is_scaled || x.dtype == DType::kF32)) {
      return usage_error("model: takes integers, the dataset's x is f32 or scaled");
    }
    if (wanted.dtype == DType::kU8 && x.dtype != DType::kU8)
      return usage_error("model: takes u8, the dataset's x is i64");
    LineWriter line(builder(), "input", x.shape);
    const Expression stored = line.read(x);
    return line.finish(wanted.dtype, is_scaled ? fma(stored, recipe_.scale, recipe_.shift) : stored);
  }

  Result<LossForms> define_loss() {
    DGX_TRY(LossForms loss, lower_loss(builder(), recipe_, form(graph_.output), y_));
    const auto gradient = static_cast<std::size_t>(*graph_.output_gradient);
    if (graph_.tensors[gradient].shape != loss.gradient.shape)
      return internal_error("capture: the output gradient is not of the output's shape");
    state_.forms[gradient] = loss.gradient;
    return loss;
  }

  /// Updates every parameter whose gradient is there. With clipping it waits: all gradients are needed first.
  Status update_ready() {
    if (recipe_.clip_norm) return {};
    updated_.resize(graph_.gradients.size(), false);
    for (std::size_t n = 0; n < graph_.gradients.size(); ++n) {
      if (!graph_.gradients[n] || updated_[n] || !is_defined(*graph_.gradients[n])) continue;
      updated_[n] = true;
      DGX_CHECK(update(n, form(*graph_.gradients[n])));
    }
    return {};
  }

  Status update(std::size_t source, const TensorForm& gradient) {
    const TensorForm& parameter = form(graph_.sources[source].tensor);
    if (parameter.dtype != DType::kF32 || gradient.dtype != DType::kF32)
      return usage_error("model: " + graph_.sources[source].name + " is trained but not f32");
    if (parameter.splat) return internal_error("capture: a constant is trained");
    optimizer_->update(graph_.sources[source].name, parameter.value, gradient);
    return {};
  }

  Status finish_updates() {
    if (recipe_.clip_norm) DGX_CHECK(update_clipped());
    for (std::size_t n = 0; n < graph_.gradients.size(); ++n) {
      const auto& gradient = graph_.gradients[n];
      if (gradient && !is_defined(*gradient))
        return internal_error("capture: no call gives the gradient of " + graph_.sources[n].name);
    }
    for (const auto& [source, tensor] : graph_.buffer_updates) {
      if (!is_defined(tensor))
        return internal_error("capture: no call gives the buffer " + graph_.sources[source].name);
      const TensorForm& buffer = form(graph_.sources[source].tensor);
      const TensorForm next = materialise(builder(), "buffer " + graph_.sources[source].name, form(tensor));
      if (buffer.splat || next.dtype != buffer.dtype || next.shape != buffer.shape)
        return usage_error("model: buffer " + graph_.sources[source].name + " changes its form");
      builder().set_next(buffer.value, next.value);
    }
    for (const ValueIndex entry : entries_) {
      if (!builder().at(entry).next) builder().set_next(entry, entry);
    }
    return {};
  }

  Status update_clipped() {
    std::vector<TensorForm> gradients;
    std::vector<std::size_t> sources;
    for (std::size_t n = 0; n < graph_.gradients.size(); ++n) {
      if (!graph_.gradients[n] || !is_defined(*graph_.gradients[n])) continue;
      gradients.push_back(form(*graph_.gradients[n]));
      sources.push_back(n);
    }
    const auto clipped = clip_gradients(builder(), gradients, *recipe_.clip_norm);
    for (std::size_t n = 0; n < sources.size(); ++n) DGX_CHECK(update(sources[n], clipped[n]));
    return {};
  }

  void define_counters(const LossForms& loss) {
    const ValueIndex step = builder().state("step", DType::kI64, {});
    LineWriter line(builder(), "step", Shape{});
    const Expression now = line.read(value_form(step, DType::kI64, {}));
    builder().set_next(step, line.finish(DType::kI64, now + std::int64_t{1}).value);
    const ValueIndex entry = builder().state("loss", DType::kF32, {});
    builder().set_next(entry, materialise(builder(), "loss", loss.mean).value);
  }

  /// The lowering's result must pass what every reader checks: a program that does not is a bug here, or
  /// beyond the caps.
  static Result<Program> checked(Program program, ProgramRole role) {
    Status status = program::check_program(program, role);
    if (!status.ok()) return internal_error("lowering: " + status.error().message);
    for (std::size_t n = 0; n < program.values.size(); ++n) {
      const std::string line = program::print_line(program.values[n], static_cast<ValueIndex>(n));
      if (line.size() > program::kMaxLineBytes)
        return usage_error(fmt::format("lowering: line {} ({}) has {} bytes, at most {} allowed", n,
                                       program.values[n].provenance, line.size(), program::kMaxLineBytes));
    }
    return program;
  }

  const CapturedGraph& graph_;
  const TrainingRecipe& recipe_;
  LoweringState state_;
  TensorForm y_;
  std::vector<ValueIndex> entries_;  // of the model
  std::optional<OptimizerLowering> optimizer_;
  std::vector<bool> updated_;
};

}  // namespace

Result<Program> lower_training_step(const CapturedGraph& graph, const TrainingRecipe& recipe) {
  return StepLowering(graph, recipe).training();
}

Result<Program> lower_evaluation(const CapturedGraph& graph, const TrainingRecipe& recipe) {
  return StepLowering(graph, recipe).evaluation();
}

}  // namespace dgx::lowering
