#include <limits>
#include <optional>

#include "pointwise.h"
#include "row_softmax.h"

namespace dgx::lowering {

using kernels::Kind;
using kernels::ScalarOp;

namespace {

/// max or argmax over dimensions, which become 1.
TensorForm extreme(Call& call, Kind kind, DType dtype, const TensorForm& form,
                   const std::vector<std::size_t>& dimensions) {
  const Reduction over = reduction_over(form.shape, dimensions);
  LineWriter line(call.builder(), call.provenance(), kind, over.shape, over.fold);
  const Expression item = line.read(without_splat(call.builder(), form), over.indices);
  return over.restored(line.finish(dtype, item));
}

TensorForm sum_of(Call& call, const TensorForm& form, std::size_t dimension) {
  return sum_over(call.builder(), call.provenance(), form, {dimension});
}

/// The sum, over the dimensions from `first` on, of `term` of the elements read.
template <class Term>
TensorForm inner_sum(Call& call, const Shape& shape, std::size_t first, Term term) {
  std::vector<std::size_t> dimensions;
  for (std::size_t n = first; n < shape.size(); ++n) dimensions.push_back(n);
  const Reduction over = reduction_over(shape, dimensions);
  LineWriter line(call.builder(), call.provenance(), Kind::kSum, over.shape, over.fold);
  const auto at = [&](const TensorForm& form) {
    return line.read(broadcast_to(without_splat(call.builder(), form), shape), over.indices);
  };
  return over.restored(line.finish(DType::kF32, term(at)));
}

void sum(Call& call) {
  const TensorForm form = call.tensor("self");
  const auto dimensions = call.dimensions("dim", form.shape.size());
  if (!call.ok()) return;
  const TensorForm total = sum_over(call.builder(), call.provenance(), form, dimensions);
  if (total.dtype == call.result_dtype()) return call.give(total);
  // Over dimensions of one element nothing of a bool is added up, yet the result is an integer.
  LineWriter line(call.builder(), call.provenance(), total.shape);
  call.give(line.finish(call.result_dtype(), line.read(total)));
}

void mean(Call& call) {
  const TensorForm form = call.tensor("self");
  const auto dimensions = call.dimensions("dim", form.shape.size());
  if (!call.ok() || !call.require(form.dtype == DType::kF32, "a mean of integers")) return;
  std::int64_t count = 1;
  for (const std::size_t dimension : dimensions) count *= form.shape[dimension];
  const TensorForm total = sum_over(call.builder(), call.provenance(), form, dimensions);
  LineWriter line(call.builder(), call.provenance(), total.shape);
  call.give(line.finish(DType::kF32, line.read(total) / static_cast<float>(count)));
}

void amax(Call& call) {
  const TensorForm form = call.tensor("self");
  const auto dimensions = call.dimensions("dim", form.shape.size());
  if (call.ok()) call.give(extreme(call, Kind::kMax, form.dtype, form, dimensions));
}

void argmax(Call& call) {
  const TensorForm form = call.tensor("self");
  if (!call.ok()) return;
  const auto dimensions = call.dimensions("dim", form.shape.size());
  if (call.ok()) call.give(extreme(call, Kind::kArgmax, DType::kI64, form, dimensions));
}

void softmax(Call& call) {
  const TensorForm form = call.tensor("self");
  const std::size_t dimension = call.dimension("dim", form.shape.size());
  if (!call.ok()) return;
  const SoftmaxParts parts = softmax_parts(call.builder(), call.provenance(), form, dimension);
  Pointwise map(call);
  map.out(map.read(parts.numerators, "self") * map.read(parts.reciprocal, "self"));
}

/// A softmax in which rows of nothing but −inf become 0.
void safe_softmax(Call& call) {
  const TensorForm form = call.tensor("self");
  const std::size_t dimension = call.dimension("dim", form.shape.size());
  if (!call.ok()) return;
  const SoftmaxParts parts = softmax_parts(call.builder(), call.provenance(), form, dimension);
  Pointwise map(call);
  const Expression is_empty =
      compare(ScalarOp::kEq, map.read(parts.maximum, "self"), -std::numeric_limits<float>::infinity());
  map.out(select(is_empty, 0.0F, map.read(parts.numerators, "self") * map.read(parts.reciprocal, "self")));
}

void log_softmax(Call& call) {
  const TensorForm form = call.tensor("self");
  const std::size_t dimension = call.dimension("dim", form.shape.size());
  if (!call.ok()) return;
  const SoftmaxParts parts = softmax_parts(call.builder(), call.provenance(), form, dimension);
  Pointwise map(call);
  map.out((map.in("self") - map.read(parts.maximum, "self")) - map.read(parts.log_sum, "self"));
}

void softmax_backward(Call& call) {
  const TensorForm gradient = call.tensor("grad_output"), output = call.tensor("output");
  const std::size_t dimension = call.dimension("dim", output.shape.size());
  if (!call.ok()) return;
  LineWriter product(call.builder(), call.provenance(), output.shape);
  const TensorForm weighted = product.finish(DType::kF32, product.read(gradient) * product.read(output));
  const TensorForm total = sum_of(call, weighted, dimension);
  Pointwise map(call);
  map.out((map.in("grad_output") - map.read(total, "output")) * map.in("output"));
}

void log_softmax_backward(Call& call) {
  const TensorForm gradient = call.tensor("grad_output"), output = call.tensor("output");
  const std::size_t dimension = call.dimension("dim", output.shape.size());
  if (!call.ok()) return;
  const TensorForm total = sum_of(call, gradient, dimension);
  Pointwise map(call);
  map.out(map.in("grad_output") - exp(map.in("output")) * map.read(total, "output"));
}

/// The dimensions that a layer norm normalises together, the last of a shape.
struct NormalisedRows {
  std::size_t first;  ///< dimension
  float count;        ///< number of elements normalised together
};

/// nullopt if the call has failed, or now fails since its shape has another rank.
std::optional<NormalisedRows> normalised_rows(Call& call, const Shape& shape) {
  const std::size_t inner = call.integers("normalized_shape").size();
  if (!call.ok() || !call.require(inner >= 1 && inner <= shape.size(), "a normalised shape of another rank"))
    return std::nullopt;
  const std::size_t first = shape.size() - inner;
  std::int64_t size = 1;
  for (std::size_t n = first; n < shape.size(); ++n) size *= shape[n];
  return NormalisedRows{first, static_cast<float>(size)};
}

/// Mean and variance in two passes, then (x − mean) / sqrt(variance + eps), then weight and bias.
void layer_norm(Call& call) {
  const TensorForm x = call.tensor("input");
  const auto rows = normalised_rows(call, x.shape);
  if (!rows) return;
  const auto [first, count] = *rows;

  const TensorForm total = inner_sum(call, x.shape, first, [&](auto at) { return at(x); });
  LineWriter mean_line(call.builder(), call.provenance(), total.shape);
  const TensorForm mean = mean_line.finish(DType::kF32, mean_line.read(total) / count);
  const TensorForm squares = inner_sum(call, x.shape, first, [&](auto at) {
    const Expression centred = at(x) - at(mean);
    return centred * centred;
  });
  LineWriter scale_line(call.builder(), call.provenance(), total.shape);
  const Expression variance = scale_line.read(squares) / count;
  const TensorForm scale = scale_line.finish(DType::kF32, 1.0F / sqrt(variance + call.real("eps")));

  Pointwise map(call);
  Expression y = (map.in("input") - map.read(mean, "mean")) * map.read(scale, "rstd");
  if (call.given("weight"))
    y = call.given("bias") ? fma(y, map.in("weight"), map.in("bias")) : y * map.in("weight");
  map.out(y);
  call.give(mean, 1);
  call.give(scale, 2);
}

/// ((g·γ − mean(g·γ)) − x̂ · mean(g·γ·x̂)) / σ; γ and β by sums over the outer dimensions.
void layer_norm_backward(Call& call) {
  const TensorForm gradient = call.tensor("grad_out"), x = call.tensor("input"), mean = call.tensor("mean"),
                   scale = call.tensor("rstd");
  const auto rows = normalised_rows(call, x.shape);
  if (!rows) return;
  const auto [first, count] = *rows;

  LineWriter normal_line(call.builder(), call.provenance(), x.shape);
  const TensorForm normal = normal_line.finish(
      DType::kF32, (normal_line.read(x) - normal_line.read(mean)) * normal_line.read(scale));
  LineWriter scaled_line(call.builder(), call.provenance(), x.shape);
  Expression scaled_expression = scaled_line.read(gradient);
  if (call.given("weight")) scaled_expression = scaled_expression * scaled_line.read(call.tensor("weight"));
  const TensorForm scaled = scaled_line.finish(DType::kF32, scaled_expression);
  if (call.wants(0)) {
    const TensorForm sum = inner_sum(call, x.shape, first, [&](auto at) { return at(scaled); });
    const TensorForm sum_normal =
        inner_sum(call, x.shape, first, [&](auto at) { return at(scaled) * at(normal); });
    LineWriter line(call.builder(), call.provenance(), x.shape);
    const Expression centred = line.read(scaled) - line.read(sum) / count;
    call.give(line.finish(DType::kF32,
                          (centred - line.read(normal) * (line.read(sum_normal) / count)) * line.read(scale)),
              0);
  }
  std::vector<std::size_t> outer;
  for (std::size_t n = 0; n < first; ++n) outer.push_back(n);
  if (call.wants(1)) {
    LineWriter line(call.builder(), call.provenance(), x.shape);
    const TensorForm product = line.finish(DType::kF32, line.read(gradient) * line.read(normal));
    call.give(sum_over(call.builder(), call.provenance(), product, outer), 1);
  }
  if (call.wants(2))
    call.give(sum_over(call.builder(), call.provenance(), broadcast_to(gradient, x.shape), outer), 2);
}

/// Reductions, softmax and layer norm.
constexpr LoweringRow kRows[] = {
    {"sum", &sum},
    {"mean", &mean},
    {"amax", &amax},
    {"argmax", &argmax},
    {"_softmax softmax", &softmax},
    {"_safe_softmax", &safe_softmax},
    {"_softmax_backward_data", &softmax_backward},
    {"_log_softmax log_softmax", &log_softmax},
    {"_log_softmax_backward_data", &log_softmax_backward},
    {"native_layer_norm", &layer_norm},
    {"native_layer_norm_backward", &layer_norm_backward},
};

}  // namespace

const std::span<const LoweringRow> kReductionRows = kRows;

}  // namespace dgx::lowering
