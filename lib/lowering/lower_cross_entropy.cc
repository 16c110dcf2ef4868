#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "dgx/program/line.h"
#include "lower_loss.h"
#include "lowering.h"
#include "row_softmax.h"

namespace dgx::lowering {

using kernels::Coordinate;
using kernels::Kind;
using kernels::ScalarOp;

namespace {

const std::string kName = "loss cross-entropy";

/// The model's output with its classes in one dimension, and the labels in the others.
struct Targets {
  TensorForm output;
  std::size_t dimension = 0;  ///< the classes' dimension in `output`
  TensorForm labels;          ///< the output's shape without that dimension, batch first
  [[nodiscard]] std::int64_t classes() const { return output.shape[dimension]; }
};

Shape without(const Shape& shape, std::size_t dimension) {
  Shape rest = shape;
  rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(dimension));
  return rest;
}

Result<Targets> targets_of(Builder& builder, const TensorForm& output, const TensorForm& y) {
  if (y.dtype == DType::kF32)
    return usage_error("loss cross-entropy: y is f32, must hold class numbers (u8 or i64)");
  const auto dimension = class_dimension(output.shape, y.shape);
  if (!dimension) {
    return usage_error(fmt::format(
        "loss cross-entropy: the model's output is {}, y is {}: it must have one number per class and target",
        to_string(output.shape), to_string(y.shape)));
  }
  const std::int64_t samples = y.shape[0];
  if (output.shape.size() == 2 && *element_count(y.shape) == samples)
    return Targets{output, 1, reshaped(builder, kName, y, {samples})};
  if (output.shape.size() == y.shape.size() + 1) return Targets{output, *dimension, y};
  Shape rows = y.shape;
  rows.push_back(output.shape[1]);
  return Targets{reshaped(builder, kName, output, rows), y.shape.size(), y};
}

class CrossEntropy {
 public:
  CrossEntropy(Builder& builder, const program::LossSpec& spec, const Targets& targets)
      : builder_(builder),
        spec_(spec),
        targets_(targets),
        rows_(targets.labels.shape),
        parts_(softmax_parts(builder, kName, targets.output, targets.dimension)) {
    if (!spec.weights.empty()) weights_ = weights_input();
  }

  LossForms forms() {
    LossForms loss;
    const TensorForm losses = target_losses();
    const auto divisor = total_weight();
    loss.correct = sample_sums(hits());
    loss.gradient = gradient(divisor);
    loss.mean = mean_of(builder_, kName, losses, divisor);
    if (spec_.ignore) loss.counted = sample_sums(counted());
    loss.per_sample = per_sample(losses);
    return loss;
  }

 private:
  TensorForm weights_input() {
    std::vector<std::string> numbers;
    for (const double weight : spec_.weights)
      numbers.push_back(program::print_literal(static_cast<float>(weight)));
    const Shape shape{static_cast<std::int64_t>(numbers.size())};
    return value_form(builder_.constant(DType::kF32, shape, std::move(numbers)), DType::kF32, shape);
  }

  [[nodiscard]] std::vector<Coordinate> at_class(const Coordinate& which) const {
    std::vector<Coordinate> indices;
    for (std::size_t n = 0; n < rows_.size(); ++n) {
      if (n == targets_.dimension) indices.push_back(which);
      indices.push_back(output_index(n));
    }
    if (targets_.dimension == rows_.size()) indices.push_back(which);
    return indices;
  }
  /// The coordinates, in a line over the output's elements, of the row that an element belongs to.
  [[nodiscard]] std::vector<Coordinate> row_of_element() const {
    std::vector<Coordinate> indices;
    for (std::size_t n = 0; n < targets_.output.shape.size(); ++n) {
      if (n != targets_.dimension) indices.push_back(output_index(n));
    }
    return indices;
  }
  [[nodiscard]] bool is_weighted() const { return weights_.has_value(); }
  [[nodiscard]] bool is_smoothed() const { return spec_.label_smoothing != 0; }
  /// own_part(): the share of its own class in a target's loss. shared_part(): the share of every class.
  [[nodiscard]] float own_part() const { return static_cast<float>(1 - spec_.label_smoothing); }
  [[nodiscard]] double shared_part() const {
    return spec_.label_smoothing / static_cast<double>(targets_.classes());
  }

  /// The output at the class that `label` reads; 0 outside.
  Expression output_at_label(LineWriter& line, const Expression& label) {
    const Coordinate which = picked_index(label);
    const auto coordinates = access_at(targets_.output, at_class(which)).coordinates;
    // A view that mixes the class with other indices would find another row for a label outside.
    const bool alone = std::count(coordinates.begin(), coordinates.end(), which) == 1;
    return line.pick(alone ? targets_.output : materialise(builder_, kName, targets_.output),
                     at_class(which));
  }

  [[nodiscard]] Expression is_counted(const Expression& label) const {
    return compare(ScalarOp::kNe, label, *spec_.ignore);
  }
  [[nodiscard]] Expression unless_ignored(const Expression& label, const Expression& number) const {
    return spec_.ignore ? select(is_counted(label), number, 0.0F) : number;
  }

  /// log Σ exp(x − max) − (x[y] − max) per target, weighted and smoothed, 0 where ignored.
  TensorForm target_losses() {
    std::optional<TensorForm> spread;
    if (is_smoothed()) spread = spread_losses();
    LineWriter line(builder_, kName, rows_);
    const auto per_row = [&](const TensorForm& form) { return line.read(form, at_class(constant_index(0))); };
    const Expression label = line.read(targets_.labels);
    const Expression chosen = output_at_label(line, label);
    Expression own = per_row(parts_.log_sum) - (chosen - per_row(parts_.maximum));
    if (is_weighted()) own = weight_at_label(line, label) * own;
    if (spread) own = fma(static_cast<float>(shared_part()), line.read(*spread), own_part() * own);
    return line.finish(DType::kF32, unless_ignored(label, own));
  }

  /// The weight of the class that `label` reads; 0 outside.
  Expression weight_at_label(LineWriter& line, const Expression& label) {
    return line.pick(*weights_, {picked_index(label)});
  }

  /// Σ over classes of their weighted losses.
  TensorForm spread_losses() {
    LineWriter line(builder_, kName, Kind::kSum, rows_, {targets_.classes()});
    const auto per_row = [&](const TensorForm& form) { return line.read(form, at_class(constant_index(0))); };
    const Expression x = line.read(targets_.output, at_class(fold_index(0)));
    Expression own = per_row(parts_.log_sum) - (x - per_row(parts_.maximum));
    if (is_weighted()) own = line.read(*weights_, {fold_index(0)}) * own;
    return line.finish(DType::kF32, own);
  }

  /// The weight of each target in the mean: its class's weight, or 1; 0 if it is ignored.
  TensorForm target_weights() {
    LineWriter line(builder_, kName, rows_);
    const Expression label = line.read(targets_.labels);
    const Expression weight = is_weighted() ? weight_at_label(line, label) : Expression(1.0F);
    return line.finish(DType::kF32, unless_ignored(label, weight));
  }

  /// The sum of the targets' weights, or nullopt if it is the number of targets.
  std::optional<TensorForm> total_weight() {
    if (!is_weighted() && !spec_.ignore) return std::nullopt;
    const TensorForm weights = target_weights();
    LineWriter sum(builder_, kName, Kind::kSum, {}, rows_);
    std::vector<Coordinate> indices;
    for (std::size_t n = 0; n < rows_.size(); ++n) indices.push_back(fold_index(n));
    return sum.finish(DType::kF32, sum.read(weights, indices));
  }

  /// (softmax − onehot) / n and its weighted and smoothed forms.
  TensorForm gradient(const std::optional<TensorForm>& divisor) {
    std::optional<TensorForm> weight;
    if (is_weighted()) weight = target_weights();
    LineWriter line(builder_, kName, targets_.output.shape);
    const auto row = row_of_element();
    const Expression probability = line.read(parts_.numerators) * line.read(parts_.reciprocal);
    const Expression label = line.read(targets_.labels, row);
    const Expression is_class = to_float(compare(ScalarOp::kEq, label, line.index(targets_.dimension)));
    Expression slope = probability - is_class;
    if (is_smoothed()) slope = smoothed_slope(line, probability, is_class, weight, row);
    if (is_weighted() && !is_smoothed()) slope = line.read(*weight, row) * slope;
    slope = divisor ? slope / line.read(*divisor) : slope / static_cast<float>(*element_count(rows_));
    return line.finish(DType::kF32, unless_ignored(label, slope));
  }

  /// The slope with label smoothing: p·w − o, with the probability p, the weight w of the target's whole
  /// loss, and o the weight of the element's own class in it.
  Expression smoothed_slope(LineWriter& line, const Expression& probability, const Expression& is_class,
                            const std::optional<TensorForm>& weight, const std::vector<Coordinate>& row) {
    const auto shared = static_cast<float>(shared_part());
    if (!weight) return probability - fma(is_class, own_part(), shared);
    const double all = std::accumulate(spec_.weights.begin(), spec_.weights.end(), 0.0);
    const Expression own = own_part() * line.read(*weight, row);
    const Expression others = shared * line.read(*weights_, {output_index(targets_.dimension)});
    return probability * (own + static_cast<float>(shared_part() * all)) - fma(is_class, own, others);
  }

  TensorForm hits() {
    LineWriter best(builder_, kName, Kind::kArgmax, rows_, {targets_.classes()});
    const TensorForm guess = best.finish(DType::kI64, best.read(targets_.output, at_class(fold_index(0))));
    LineWriter hit(builder_, kName, rows_);
    const Expression guessed = hit.read(guess), label = hit.read(targets_.labels);
    const Expression is_right = compare(ScalarOp::kEq, guessed, label);
    return hit.finish(DType::kI64,
                      spec_.ignore ? select(is_counted(label), is_right, std::int64_t{0}) : is_right);
  }
  TensorForm counted() {
    LineWriter line(builder_, kName, rows_);
    const Expression label = line.read(targets_.labels);
    return line.finish(DType::kI64, is_counted(label));
  }

  [[nodiscard]] TensorForm sample_sums(const TensorForm& numbers) {
    if (rows_.size() == 1) return numbers;
    std::vector<std::size_t> inner(rows_.size() - 1);
    std::iota(inner.begin(), inner.end(), std::size_t{1});
    return reshaped(builder_, kName, sum_over(builder_, kName, numbers, inner), {rows_[0]});
  }
  TensorForm per_sample(const TensorForm& losses) {
    if (rows_.size() == 1 || spec_.ignore) return sample_sums(losses);
    LineWriter line(builder_, kName, Shape{rows_[0]});
    return line.finish(DType::kF32,
                       line.read(sample_sums(losses)) / static_cast<float>(*element_count(rows_) / rows_[0]));
  }

  Builder& builder_;
  const program::LossSpec& spec_;
  const Targets& targets_;
  const Shape rows_;
  SoftmaxParts parts_;
  std::optional<TensorForm> weights_;
};

}  // namespace

TensorForm mean_of(Builder& builder, const std::string& provenance, const TensorForm& numbers,
                   const std::optional<TensorForm>& divisor) {
  LineWriter sum(builder, provenance, Kind::kSum, {}, numbers.shape);
  std::vector<Coordinate> indices;
  for (std::size_t n = 0; n < numbers.shape.size(); ++n) indices.push_back(fold_index(n));
  const Expression item = sum.read(numbers, indices);
  const TensorForm total = sum.finish(DType::kF32, item);
  LineWriter line(builder, provenance, Shape{});
  const Expression all = line.read(total);
  return line.finish(DType::kF32, divisor ? all / line.read(*divisor)
                                          : all / static_cast<float>(*element_count(numbers.shape)));
}

std::optional<std::size_t> class_dimension(const Shape& output, const Shape& targets) {
  if (output.size() < 2 || targets.empty()) return std::nullopt;
  const std::size_t last = output.size() - 1;
  const bool one_a_sample = *element_count(targets) == targets[0] && output[0] == targets[0];
  if (output.size() == 2 && one_a_sample) return 1;
  if (without(output, last) == targets) return last;
  if (output.size() >= 3 && without(output, 1) == targets) return 1;
  if (output.size() == 2 && output[0] == *element_count(targets)) return 1;
  return std::nullopt;
}

Result<LossForms> lower_cross_entropy(Builder& builder, const program::LossSpec& spec,
                                      const TensorForm& output, const TensorForm& y) {
  DGX_TRY(const Targets targets, targets_of(builder, output, y));
  if (!spec.weights.empty() && spec.weights.size() != static_cast<std::size_t>(targets.classes()))
    return usage_error(fmt::format("loss cross-entropy: {} class weights, the model's output has {} classes",
                                   spec.weights.size(), targets.classes()));
  LossForms loss = CrossEntropy(builder, spec, targets).forms();
  loss.gradient = reshaped(builder, kName, loss.gradient, output.shape);
  return loss;
}

}  // namespace dgx::lowering
