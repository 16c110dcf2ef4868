#include "pointwise.h"

namespace dgx::lowering {

using kernels::Coordinate;
using kernels::ScalarOp;

namespace {

enum class Averaging { kNone, kMean, kSum };  // at::Reduction

Averaging averaging_of(Call& call) {
  const std::int64_t reduction = call.integer("reduction", 1);
  call.require(reduction >= 0 && reduction <= 2, "an unknown reduction");
  return static_cast<Averaging>(reduction);
}

TensorForm total_of(Call& call, const TensorForm& form) {
  std::vector<std::size_t> all;
  for (std::size_t n = 0; n < form.shape.size(); ++n) all.push_back(n);
  return sum_over(call.builder(), call.provenance(), form, all);
}

void give_averaged(Call& call, const TensorForm& losses, Averaging averaging) {
  if (averaging == Averaging::kNone) return call.give(losses);
  const TensorForm total = reshaped(call.builder(), call.provenance(), total_of(call, losses), {});
  if (averaging == Averaging::kSum) return call.give(total);
  LineWriter line(call.builder(), call.provenance(), Shape{});
  call.give(line.finish(DType::kF32, line.read(total) / static_cast<float>(*element_count(losses.shape))));
}

/// The loss of each pair of elements, by `formula(x, target)`, averaged as the call says.
template <class Formula>
void elementwise_loss(Call& call, Formula formula) {
  const TensorForm x = call.tensor("self"), target = call.tensor("target");
  const Averaging averaging = averaging_of(call);
  if (!call.ok()) return;
  const bool fits = broadcasts(x.shape, target.shape) || broadcasts(target.shape, x.shape);
  if (!call.require(fits, "self and target that do not broadcast to one of them")) return;
  const Shape& shape = broadcasts(x.shape, target.shape) ? target.shape : x.shape;
  LineWriter line(call.builder(), call.provenance(), shape);
  const TensorForm losses =
      line.finish(DType::kF32, formula(line, line.read(x), to_float(line.read(target))));
  give_averaged(call, losses, averaging);
}

/// `slope(x, target)` times the gradient given, divided by the count for a mean.
template <class Slope>
void elementwise_loss_backward(Call& call, Slope slope) {
  const Averaging averaging = averaging_of(call);
  Pointwise map(call);
  Expression given = map.in("grad_output");
  if (averaging == Averaging::kMean) given = given / static_cast<float>(*element_count(call.result_shape()));
  map.out(slope(map, map.in("self"), to_float(map.in("target"))) * given);
}

Expression clamped(const Expression& x, float bound) { return min(max(x, -bound), bound); }

/// The arguments of nll_loss: scores with the classes in dimension 1 (or the only one), class numbers,
/// weights.
struct Classes {
  TensorForm scores, target;
  std::optional<TensorForm> weight;
  std::int64_t ignored = -100;
  std::size_t dimension = 0;

  explicit Classes(Call& call)
      : scores(call.tensor("self")),
        target(call.tensor("target")),
        ignored(call.integer("ignore_index", -100)) {
    if (!call.ok() || !call.require(!scores.shape.empty(), "a scalar")) return;
    dimension = scores.shape.size() == 1 ? 0 : 1;
    Shape shape = scores.shape;
    shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(dimension));
    if (!call.require(target.dtype != DType::kF32 && target.shape == shape,
                      "targets that are not class numbers"))
      return;
    scores = materialise(call.builder(), call.provenance(), scores);
    target = materialise(call.builder(), call.provenance(), target);
    if (call.given("weight")) weight = materialise(call.builder(), call.provenance(), call.tensor("weight"));
  }

  /// Element `coordinates` of a tensor; 0 for a class number outside.
  static Expression at(LineWriter& line, TensorForm form, std::vector<Coordinate> coordinates) {
    kernels::Access access = access_at(form, output_indices(form.shape.size()));
    access.coordinates = std::move(coordinates);
    access.fill = 0.0F;
    return line.read(std::move(access), DType::kF32);
  }

  [[nodiscard]] Expression weight_of(LineWriter& line, const Expression& number) const {
    const Expression is_ignored = compare(ScalarOp::kEq, number, ignored);
    return weight ? select(is_ignored, 0.0F, at(line, *weight, {picked_index(number)}))
                  : select(is_ignored, 0.0F, 1.0F);
  }
};

void mse_loss(Call& call) {
  elementwise_loss(call,
                   [](LineWriter&, const Expression& x, const Expression& t) { return (x - t) * (x - t); });
}
void mse_loss_backward(Call& call) {
  elementwise_loss_backward(
      call, [](Pointwise&, const Expression& x, const Expression& t) { return (x - t) + (x - t); });
}

void smooth_l1_loss(Call& call) {
  const float beta = static_cast<float>(call.number("beta", 1));
  elementwise_loss(call, [&](LineWriter&, const Expression& x, const Expression& t) {
    const Expression z = abs(x - t);
    return select(compare(ScalarOp::kLt, z, beta), ((0.5F * z) * z) / beta, z - 0.5F * beta);
  });
}
void smooth_l1_loss_backward(Call& call) {
  const float beta = static_cast<float>(call.number("beta", 1));
  elementwise_loss_backward(call, [&](Pointwise&, const Expression& x, const Expression& t) {
    const Expression difference = x - t;
    if (beta != 0) return clamped(difference, beta) / beta;
    // The slope of |x − t|. As in libtorch, that of no difference is −1.
    const Expression falls = select(compare(ScalarOp::kLe, difference, 0.0F), -1.0F, difference);
    return select(compare(ScalarOp::kGt, difference, 0.0F), 1.0F, falls);
  });
}

void huber_loss(Call& call) {
  const float delta = static_cast<float>(call.number("delta", 1));
  elementwise_loss(call, [&](LineWriter&, const Expression& x, const Expression& t) {
    const Expression z = abs(x - t);
    return select(compare(ScalarOp::kLe, z, delta), (0.5F * z) * z, delta * (z - 0.5F * delta));
  });
}
void huber_loss_backward(Call& call) {
  const float delta = static_cast<float>(call.number("delta", 1));
  elementwise_loss_backward(
      call, [&](Pointwise&, const Expression& x, const Expression& t) { return clamped(x - t, delta); });
}

void soft_margin_loss(Call& call) {
  elementwise_loss(
      call, [](LineWriter&, const Expression& x, const Expression& t) { return log1p(exp(-(t * x))); });
}
void soft_margin_loss_backward(Call& call) {
  elementwise_loss_backward(
      call, [](Pointwise&, const Expression& x, const Expression& t) { return -t / (1.0F + exp(t * x)); });
}

/// Logarithms are at least -100, as in libtorch.
void binary_cross_entropy(Call& call) {
  std::optional<TensorForm> weight;
  if (call.given("weight")) weight = call.tensor("weight");
  elementwise_loss(call, [&](LineWriter& line, const Expression& x, const Expression& t) {
    const Expression yes = max(log(x), -100.0F), no = max(log1p(-x), -100.0F);
    const Expression loss = (t - 1.0F) * no - t * yes;
    return weight ? loss * line.read(*weight) : loss;
  });
}
void binary_cross_entropy_backward(Call& call) {
  elementwise_loss_backward(call, [&](Pointwise& map, const Expression& x, const Expression& t) {
    const Expression slope = (x - t) / max((1.0F - x) * x, 1e-12F);
    return call.given("weight") ? slope * map.in("weight") : slope;
  });
}

/// (1 − t) x + w (log1p(exp(−|x|)) + max(−x, 0)), w = 1 + (pos_weight − 1) t.
void bce_with_logits(Call& call) {
  std::optional<TensorForm> weight, positive;
  if (call.given("weight")) weight = call.tensor("weight");
  if (call.given("pos_weight")) positive = call.tensor("pos_weight");
  elementwise_loss(call, [&](LineWriter& line, const Expression& x, const Expression& t) {
    const Expression soft = log1p(exp(-abs(x))) + max(-x, 0.0F);
    const Expression scaled = positive ? fma(line.read(*positive) - 1.0F, t, 1.0F) * soft : soft;
    const Expression loss = fma(1.0F - t, x, scaled);
    return weight ? loss * line.read(*weight) : loss;
  });
}

/// The negative score of each target's class, times the class's weight; a mean divides by the sum of weights.
void nll_loss(Call& call) {
  const Classes classes(call);
  const Averaging averaging = averaging_of(call);
  if (!call.ok()) return;
  const Shape& shape = classes.target.shape;

  LineWriter line(call.builder(), call.provenance(), shape);
  const Expression number = line.read(classes.target, output_indices(shape.size()));
  std::vector<Coordinate> coordinates;
  for (std::size_t n = 0; n < classes.scores.shape.size(); ++n) {
    const bool is_class = n == classes.dimension;
    coordinates.push_back(is_class ? picked_index(number) : output_index(n < classes.dimension ? n : n - 1));
  }
  const Expression score = Classes::at(line, classes.scores, coordinates);
  const Expression loss =
      select(compare(ScalarOp::kEq, number, classes.ignored), 0.0F, -score * classes.weight_of(line, number));
  const TensorForm losses = line.finish(DType::kF32, loss);
  if (averaging == Averaging::kNone) {
    call.give(losses);
    return call.give(splat_form(DType::kF32, {}, 0.0F), 1);
  }

  LineWriter weight_line(call.builder(), call.provenance(), shape);
  const Expression target = weight_line.read(classes.target, output_indices(shape.size()));
  const TensorForm weights = weight_line.finish(DType::kF32, classes.weight_of(weight_line, target));
  const TensorForm weight_sum = reshaped(call.builder(), call.provenance(), total_of(call, weights), {});
  call.give(weight_sum, 1);
  const TensorForm sum = reshaped(call.builder(), call.provenance(), total_of(call, losses), {});
  if (averaging == Averaging::kSum) return call.give(sum);
  LineWriter mean(call.builder(), call.provenance(), Shape{});
  call.give(mean.finish(DType::kF32, mean.read(sum) / mean.read(weight_sum)));
}

void nll_loss_backward(Call& call) {
  const Classes classes(call);
  const Averaging averaging = averaging_of(call);
  TensorForm given = call.tensor("grad_output");
  if (!call.ok()) return;
  const Shape& shape = classes.scores.shape;
  LineWriter line(call.builder(), call.provenance(), shape);
  const auto by_target = [&](TensorForm form) {
    std::vector<Coordinate> indices;
    for (std::size_t n = 0; n < shape.size(); ++n) {
      if (n != classes.dimension) indices.push_back(output_index(n));
    }
    return line.read(without_splat(call.builder(), form), indices);
  };
  const Expression number = by_target(classes.target);
  Expression gradient = averaging == Averaging::kNone ? by_target(given) : line.read(given);
  const Expression slope = -classes.weight_of(line, number) * gradient;
  const Expression is_class = compare(ScalarOp::kEq, number, line.index(classes.dimension));
  call.give(
      line,
      select(is_class, averaging == Averaging::kMean ? slope / line.read(call.tensor("total_weight")) : slope,
             0.0F));
}

/// Losses and their gradients.
constexpr LoweringRow kRows[] = {
    {"mse_loss", &mse_loss},
    {"mse_loss_backward", &mse_loss_backward},
    {"smooth_l1_loss", &smooth_l1_loss},
    {"smooth_l1_loss_backward", &smooth_l1_loss_backward},
    {"huber_loss", &huber_loss},
    {"huber_loss_backward", &huber_loss_backward},
    {"soft_margin_loss", &soft_margin_loss},
    {"soft_margin_loss_backward", &soft_margin_loss_backward},
    {"binary_cross_entropy", &binary_cross_entropy},
    {"binary_cross_entropy_backward", &binary_cross_entropy_backward},
    {"binary_cross_entropy_with_logits", &bce_with_logits},
    {"nll_loss_forward nll_loss2d_forward", &nll_loss},
    {"nll_loss_backward nll_loss2d_backward", &nll_loss_backward},
};

}  // namespace

const std::span<const LoweringRow> kLossRows = kRows;

}  // namespace dgx::lowering
