#include "pointwise.h"

namespace dgx::lowering {

using kernels::ScalarOp;

namespace {

constexpr double kSqrtHalf = 0.70710678118654752440;
constexpr double kTwoOverSqrtPi = 1.12837916709551257390;
constexpr double kSqrtTwo = 1.41421356237309504880;
constexpr auto kInverseSqrtTwoPi = static_cast<float>(kTwoOverSqrtPi * kSqrtHalf * 0.5);  // 1 / sqrt(2 pi)
constexpr auto kRootHalf = static_cast<float>(kSqrtHalf);
constexpr auto kTanhScale = static_cast<float>(kSqrtTwo * kTwoOverSqrtPi * 0.5);  // sqrt(2 / pi)
constexpr float kTanhCubic = 0.044715F;

Expression logistic(const Expression& x) { return 1.0F / (1.0F + exp(-x)); }

/// tanh of sqrt(2/pi) (x + 0.044715 x^3).
Expression gelu_tanh_of(const Expression& x) {
  const Expression square = x * x;
  return tanh(kTanhScale * (x * fma(square, kTanhCubic, 1.0F)));
}

Expression gelu_exact_gradient(const Expression& x) {
  const Expression distribution = 0.5F * (1.0F + erf(x * kRootHalf));
  const Expression density = exp(-0.5F * (x * x)) * kInverseSqrtTwoPi;
  return fma(x, density, distribution);
}

Expression gelu_tanh_gradient(const Expression& x) {
  const Expression t = gelu_tanh_of(x);
  const Expression inner = kTanhScale * fma(x * x, 3.0F * kTanhCubic, 1.0F);
  const Expression curved = (0.5F * x) * ((1.0F - t * t) * inner);
  return fma(0.5F, 1.0F + t, curved);
}

bool is_tanh_form(Call& call) {
  const std::string form = call.text("approximate", "none");
  call.require(form == "none" || form == "tanh", "approximate is " + form);
  return form == "tanh";
}

void relu(Call& call) {
  Pointwise map(call);
  map.out(max(0.0F, map.in("self")));
}

void threshold_backward(Call& call) {
  Pointwise map(call);
  const Expression gradient = map.in("grad_output"), x = map.in("self");
  map.out(select(compare(ScalarOp::kLe, x, map.number("threshold", 0)), 0.0F, gradient));
}

void gelu(Call& call) {
  Pointwise map(call);
  const Expression x = map.in("self");
  const Expression t = is_tanh_form(call) ? gelu_tanh_of(x) : erf(x * kRootHalf);
  map.out((0.5F * x) * (1.0F + t));
}

void gelu_backward(Call& call) {
  Pointwise map(call);
  const Expression gradient = map.in("grad_output"), x = map.in("self");
  map.out(gradient * (is_tanh_form(call) ? gelu_tanh_gradient(x) : gelu_exact_gradient(x)));
}

void tanh(Call& call) {
  Pointwise map(call);
  map.out(tanh(map.in("self")));
}

void tanh_backward(Call& call) {
  Pointwise map(call);
  const Expression gradient = map.in("grad_output"), y = map.in("output");
  map.out(gradient * (1.0F - y * y));
}

void sigmoid(Call& call) {
  Pointwise map(call);
  map.out(logistic(to_float(map.in("self"))));
}

void sigmoid_backward(Call& call) {
  Pointwise map(call);
  const Expression gradient = map.in("grad_output"), y = map.in("output");
  map.out(gradient * ((1.0F - y) * y));
}

void silu(Call& call) {
  Pointwise map(call);
  const Expression x = map.in("self");
  map.out(x / (1.0F + exp(-x)));
}

void silu_backward(Call& call) {
  Pointwise map(call);
  const Expression gradient = map.in("grad_output"), x = map.in("self");
  const Expression s = logistic(x);
  map.out(gradient * (s * fma(x, 1.0F - s, 1.0F)));
}

void leaky_relu(Call& call) {
  Pointwise map(call);
  const Expression x = map.in("self");
  map.out(select(compare(ScalarOp::kGt, x, 0.0F), x, x * map.number("negative_slope", 0.01)));
}

void leaky_relu_backward(Call& call) {
  Pointwise map(call);
  const Expression gradient = map.in("grad_output"), x = map.in("self");
  map.out(select(compare(ScalarOp::kGt, x, 0.0F), gradient, gradient * map.number("negative_slope", 0.01)));
}

void elu(Call& call) {
  Pointwise map(call);
  const double alpha = call.number("alpha", 1), scale = call.number("scale", 1);
  const Expression x = map.in("self");
  const Expression below = static_cast<float>(alpha * scale) * expm1(x * map.number("input_scale", 1));
  map.out(select(compare(ScalarOp::kGt, x, 0.0F), x * static_cast<float>(scale), below));
}

void elu_backward(Call& call) {
  Pointwise map(call);
  const double alpha = call.number("alpha", 1), scale = call.number("scale", 1),
               input_scale = call.number("input_scale", 1);
  const Expression gradient = map.in("grad_output"), x = map.in("self_or_result");
  const auto steep = static_cast<float>(alpha * scale);
  const auto inner = static_cast<float>(input_scale);
  const Expression below = call.boolean("is_result", false)
                               ? (x + steep) * inner
                               : exp(x * inner) * static_cast<float>(alpha * scale * input_scale);
  map.out(select(compare(ScalarOp::kGt, x, 0.0F), gradient * static_cast<float>(scale), gradient * below));
}

void softplus(Call& call) {
  Pointwise map(call);
  const Expression x = map.in("self"), beta = map.number("beta", 1);
  const Expression scaled = x * beta;
  const Expression soft = log1p(exp(scaled)) / beta;
  map.out(select(compare(ScalarOp::kGt, scaled, map.number("threshold", 20)), x, soft));
}

void softplus_backward(Call& call) {
  Pointwise map(call);
  const Expression gradient = map.in("grad_output"), x = map.in("self");
  const Expression scaled = x * map.number("beta", 1);
  map.out(select(compare(ScalarOp::kGt, scaled, map.number("threshold", 20)), gradient,
                 gradient * logistic(scaled)));
}

void hardtanh(Call& call) {
  Pointwise map(call);
  map.out(min(max(map.in("self"), map.number("min_val", -1)), map.number("max_val", 1)));
}

void hardtanh_backward(Call& call) {
  Pointwise map(call);
  const Expression gradient = map.in("grad_output"), x = map.in("self");
  const Expression below = compare(ScalarOp::kLe, x, map.number("min_val", -1)),
                   above = compare(ScalarOp::kGe, x, map.number("max_val", 1));
  map.out(select(step(ScalarOp::kOr, {below, above}), 0.0F, gradient));
}

/// `value` where x is at or below the threshold, else x.
void threshold(Call& call) {
  Pointwise map(call);
  const Expression x = map.in("self");
  map.out(select(compare(ScalarOp::kLe, x, map.number("threshold", 0)), map.number("value", 0), x));
}

void celu(Call& call) {
  Pointwise map(call);
  const Expression x = map.in("self");
  const double alpha = call.number("alpha", 1);
  if (!call.require(alpha != 0, "alpha is 0")) return;
  const Expression below = static_cast<float>(alpha) * expm1(x * static_cast<float>(1 / alpha));
  map.out(select(compare(ScalarOp::kGt, x, 0.0F), x, below));
}

void hardsigmoid(Call& call) {
  Pointwise map(call);
  map.out(min(max(map.in("self") + 3.0F, 0.0F), 6.0F) / 6.0F);
}

void hardsigmoid_backward(Call& call) {
  Pointwise map(call);
  const Expression gradient = map.in("grad_output"), x = map.in("self");
  const Expression rises =
      step(ScalarOp::kAnd, {compare(ScalarOp::kGt, x, -3.0F), compare(ScalarOp::kLt, x, 3.0F)});
  map.out(select(rises, gradient / 6.0F, 0.0F));
}

void hardswish(Call& call) {
  Pointwise map(call);
  const Expression x = map.in("self");
  map.out((x * min(max(x + 3.0F, 0.0F), 6.0F)) / 6.0F);
}

void hardswish_backward(Call& call) {
  Pointwise map(call);
  const Expression gradient = map.in("grad_output"), x = map.in("self");
  const Expression middle = gradient * (x / 3.0F + 0.5F);
  map.out(select(compare(ScalarOp::kLe, x, -3.0F), 0.0F,
                 select(compare(ScalarOp::kLt, x, 3.0F), middle, gradient)));
}

void mish(Call& call) {
  Pointwise map(call);
  const Expression x = map.in("self");
  map.out(x * tanh(log1p(exp(x))));
}

void mish_backward(Call& call) {
  Pointwise map(call);
  const Expression gradient = map.in("grad_output"), x = map.in("self");
  const Expression t = tanh(log1p(exp(x)));
  map.out(gradient * fma(x * logistic(x), 1.0F - t * t, t));
}

void hardshrink(Call& call) {
  Pointwise map(call);
  const Expression x = map.in("self");
  map.out(select(compare(ScalarOp::kLe, abs(x), map.number("lambd", 0.5)), 0.0F, x));
}

/// For hardshrink and softshrink: 0 where they gave 0.
void shrink_backward(Call& call) {
  Pointwise map(call);
  const Expression gradient = map.in(call.has("grad_out") ? "grad_out" : "grad_output"), x = map.in("self");
  map.out(select(compare(ScalarOp::kLe, abs(x), map.number("lambd", 0.5)), 0.0F, gradient));
}

void softshrink(Call& call) {
  Pointwise map(call);
  const Expression x = map.in("self"), margin = map.number("lambd", 0.5);
  const Expression shrunk = select(compare(ScalarOp::kGt, x, 0.0F), x - margin, x + margin);
  map.out(select(compare(ScalarOp::kLe, abs(x), margin), 0.0F, shrunk));
}

/// libtorch's second result is for its own backward to reuse; ours computes it from self.
void log_sigmoid(Call& call) {
  Pointwise map(call);
  const Expression x = map.in("self");
  map.out(min(x, 0.0F) - log1p(exp(-abs(x))));
}

void log_sigmoid_backward(Call& call) {
  Pointwise map(call);
  map.out(map.in("grad_output") / (1.0F + exp(map.in("self"))));
}

void prelu(Call& call) {
  Pointwise map(call);
  const Expression x = map.in("self");
  map.out(select(compare(ScalarOp::kGt, x, 0.0F), x, map.in("weight") * x));
}

/// The weight's gradient has the shape of self; autograd sums it.
void prelu_backward(Call& call) {
  const TensorForm gradient = call.tensor("grad_output"), self = call.tensor("self"),
                   weight = call.tensor("weight");
  if (!call.ok()) return;
  for (const std::size_t n : {std::size_t{0}, std::size_t{1}}) {
    if (!call.wants(n)) continue;
    LineWriter line(call.builder(), call.provenance(), self.shape);
    const Expression g = line.read(gradient), x = line.read(self);
    const Expression is_above = compare(ScalarOp::kGt, x, 0.0F);
    call.give(line, n == 0 ? select(is_above, g, line.read(weight) * g) : select(is_above, 0.0F, x * g), n);
  }
}

/// The first half along a dimension times the logistic of the second.
void glu(Call& call) {
  const TensorForm self = call.tensor("self");
  const std::size_t dimension =
      call.given("dim") ? call.dimension("dim", self.shape.size()) : self.shape.size() - 1;
  if (!call.ok()) return;
  LineWriter line(call.builder(), call.provenance(), call.result_shape());
  auto indices = output_indices(self.shape.size());
  const Expression value = line.read(without_splat(call.builder(), self), indices);
  indices[dimension] = output_index(dimension, 1, self.shape[dimension] / 2);
  call.give(line, value / (1.0F + exp(-line.read(without_splat(call.builder(), self), indices))));
}

void glu_backward(Call& call) {
  const TensorForm given = call.tensor("grad_output"), self = call.tensor("self");
  const std::size_t dimension =
      call.given("dim") ? call.dimension("dim", self.shape.size()) : self.shape.size() - 1;
  if (!call.ok()) return;
  const std::int64_t half = self.shape[dimension] / 2;
  LineWriter line(call.builder(), call.provenance(), self.shape);
  const auto shifted = [&](const TensorForm& form, std::int64_t by) {
    auto indices = output_indices(form.shape.size());
    indices[dimension] = output_index(dimension, 1, by);
    return line.read(zeros_around(call, form), indices);
  };
  const Expression gate = logistic(shifted(self, half)), own_gate = logistic(shifted(self, 0));
  const Expression of_value = shifted(given, 0) * gate;
  const Expression of_gate = (shifted(given, -half) * shifted(self, -half)) * ((1.0F - own_gate) * own_gate);
  call.give(line, select(compare(ScalarOp::kLt, line.index(dimension), half), of_value, of_gate));
}

/// Activations and their gradients.
constexpr LoweringRow kRows[] = {
    {"relu", &relu},
    {"threshold_backward", &threshold_backward},
    {"gelu", &gelu},
    {"gelu_backward", &gelu_backward},
    {"tanh", &tanh},
    {"tanh_backward", &tanh_backward},
    {"sigmoid", &sigmoid},
    {"sigmoid_backward", &sigmoid_backward},
    {"silu", &silu},
    {"silu_backward", &silu_backward},
    {"leaky_relu", &leaky_relu},
    {"leaky_relu_backward", &leaky_relu_backward},
    {"elu", &elu},
    {"elu_backward", &elu_backward},
    {"softplus", &softplus},
    {"softplus_backward", &softplus_backward},
    {"hardtanh", &hardtanh},
    {"hardtanh_backward", &hardtanh_backward},
    {"threshold", &threshold},
    {"celu", &celu},
    {"hardsigmoid", &hardsigmoid},
    {"hardsigmoid_backward", &hardsigmoid_backward},
    {"hardswish", &hardswish},
    {"hardswish_backward", &hardswish_backward},
    {"mish", &mish},
    {"mish_backward", &mish_backward},
    {"hardshrink", &hardshrink},
    {"hardshrink_backward softshrink_backward", &shrink_backward},
    {"softshrink", &softshrink},
    {"log_sigmoid_forward", &log_sigmoid},
    {"log_sigmoid_backward", &log_sigmoid_backward},
    {"_prelu_kernel", &prelu},
    {"_prelu_kernel_backward", &prelu_backward},
    {"glu", &glu},
    {"glu_backward", &glu_backward},
};

}  // namespace

const std::span<const LoweringRow> kActivationRows = kRows;

}  // namespace dgx::lowering
