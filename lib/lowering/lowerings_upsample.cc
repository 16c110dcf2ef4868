#include <algorithm>

#include "pointwise.h"
#include "resampling.h"

namespace dgx::lowering {

using kernels::Coordinate;
using kernels::Kind;
using kernels::ScalarOp;

namespace {

using Rule = Resampling::Rule;

/// The resampled tensor [n, c, spatial…].
struct Resampled {
  Call& call;
  std::vector<Resampling> axes = {};
  Shape shape = {};  // before resampling

  static std::size_t dimension(std::size_t axis) { return axis + 2; }
  [[nodiscard]] TensorForm whole(const TensorForm& form) const {
    return whole_form(call.builder(), call.provenance(), form);
  }
};

std::optional<Resampled> resampled(Call& call, Rule rule, const Shape& input, const Shape& output) {
  const std::size_t rank = spatial_rank(call.name());
  if (!call.ok() || !call.require(rank >= 1 && input.size() == rank + 2 && output.size() == rank + 2,
                                  "tensors of an unsupported rank"))
    return std::nullopt;
  Resampled result{call, {}, input};
  constexpr std::string_view kNames[] = {"scales_d", "scales_h", "scales_w"};
  for (std::size_t n = 0; n < rank; ++n) {
    const std::string_view name = rank == 1 ? "scales" : kNames[3 - rank + n];
    Resampling axis{rule, input[n + 2], output[n + 2]};
    if (call.given(name)) axis.factor = call.number(name);
    // Above this, binary32 does not count positions one by one.
    if (!call.require(std::max(axis.input, axis.output) <= std::int64_t{1} << 22, "sizes above 2^22"))
      return std::nullopt;
    result.axes.push_back(axis);
  }
  return call.ok() ? std::optional(result) : std::nullopt;
}

Rule nearest_rule(Call& call) {
  return call.name().find("exact") == std::string_view::npos ? Rule::kNearest : Rule::kNearestExact;
}

Rule linear_rule(Call& call) {
  return call.boolean("align_corners", false) ? Rule::kLinearAligned : Rule::kLinear;
}

/// Handles one axis after another: `step` takes the tensor to the next one's shape.
template <class Step>
TensorForm along_each_axis(const Resampled& resampled, TensorForm form, Step step) {
  for (std::size_t n = 0; n < resampled.axes.size(); ++n) {
    if (!resampled.axes[n].is_identity()) form = step(resampled, form, n);
  }
  return form;
}

/// A view, without any work, if every position is a quotient of the index; else nullopt.
std::optional<TensorForm> nearest_view(const Resampled& resampled, const TensorForm& input) {
  TensorForm form = resampled.whole(input);
  std::vector<Coordinate> at = output_indices(2);
  for (std::size_t n = 0; n < resampled.axes.size(); ++n) {
    const auto ratio = resampled.axes[n].ratio();
    if (!ratio) return std::nullopt;
    at.push_back(floor_divided(affine({output_term(n + 2, ratio->factor)}, ratio->shift), ratio->divisor));
    form.shape[n + 2] = resampled.axes[n].output;
  }
  for (Coordinate& coordinate : form.coordinates)
    coordinate = at[static_cast<std::size_t>(coordinate.terms[0].index)];
  return form;
}

/// Resamples along one axis, by a table of positions.
TensorForm nearest_by_table(const Resampled& resampled, const TensorForm& input, std::size_t axis) {
  Call& call = resampled.call;
  const TensorForm positions = resampled.axes[axis].positions(call.builder(), call.provenance());
  const std::size_t i = Resampled::dimension(axis);
  kernels::Primitive copy;
  copy.shape = input.shape;
  copy.shape[i] = resampled.axes[axis].output;
  copy.provenance = call.provenance();
  auto at = output_indices(input.shape.size());
  at[i] = read_by(1);
  copy.accesses = {window_access(resampled.whole(input), at, copy.shape, {}, 0.0F),
                   access_at(positions, {output_index(i), constant_index(0)})};
  const Shape shape = copy.shape;
  return value_form(call.builder().append(std::move(copy)), DType::kF32, shape);
}

/// Each position sums the gradients of the outputs that are a copy of it.
TensorForm nearest_backward(const Resampled& resampled, const TensorForm& gradient) {
  Call& call = resampled.call;
  Shape fold;
  for (const Resampling& axis : resampled.axes) fold.push_back(axis.readers().span);
  LineWriter line(call.builder(), call.provenance(), Kind::kSum, resampled.shape, fold);
  std::vector<Coordinate> at = output_indices(2);
  std::optional<Expression> reads;
  for (std::size_t n = 0; n < resampled.axes.size(); ++n) {
    const auto readers = resampled.axes[n].readers();
    const auto ratio = *resampled.axes[n].ratio();
    at.push_back(readers.output_at(n + 2, n));
    // In an axis enlarged a whole number of times, each position's candidates are exactly its readers.
    const std::int64_t times = ratio.divisor;
    const bool is_repeat = ratio.factor == 1 && ratio.shift == 0 && readers.shift == 0 &&
                           readers.span == times && readers.factor == times && readers.divisor == 1 &&
                           resampled.axes[n].output == times * resampled.axes[n].input;
    if (is_repeat) continue;
    const Expression i = line.index(n + 2);
    Expression position = readers.output(i, line.fold(n));
    if (ratio.factor != 1) position = position * ratio.factor;
    if (ratio.shift != 0) position = position + ratio.shift;
    if (ratio.divisor != 1) position = step(ScalarOp::kIdiv, {position, ratio.divisor});
    const Expression own = compare(ScalarOp::kEq, position, i);
    reads = reads ? step(ScalarOp::kAnd, {*reads, own}) : own;
  }
  Expression item =
      line.read(window_access(resampled.whole(gradient), at, resampled.shape, fold, 0.0F), DType::kF32);
  if (reads) item = select(*reads, item, 0.0F);
  return line.finish(DType::kF32, item);
}

/// Resamples along one axis: a dot of two taps and their weights.
TensorForm two_taps(const Resampled& resampled, const TensorForm& input, std::size_t axis) {
  Call& call = resampled.call;
  const Resampling& rule = resampled.axes[axis];
  const TensorForm positions = rule.positions(call.builder(), call.provenance());
  const TensorForm weights = rule.weights(call.builder(), call.provenance());
  const std::size_t i = Resampled::dimension(axis);
  kernels::Primitive dot;
  dot.kind = Kind::kDot;
  dot.shape = input.shape;
  dot.shape[i] = rule.output;
  dot.fold = {rule.taps()};
  dot.provenance = call.provenance();
  auto at = output_indices(input.shape.size());
  at[i] = read_by(2);
  const std::vector<Coordinate> tap = {output_index(i), fold_index(0)};
  dot.accesses = {window_access(resampled.whole(input), at, dot.shape, dot.fold, 0.0F),
                  access_at(weights, tap), access_at(positions, tap)};
  const Shape shape = dot.shape;
  return value_form(call.builder().append(std::move(dot)), DType::kF32, shape);
}

/// The gradient along one axis: the sum over the outputs that may read a position, and their taps, by the
/// tables.
TensorForm backward_by_table(const Resampled& resampled, const TensorForm& gradient, std::size_t axis) {
  Call& call = resampled.call;
  const Resampling& rule = resampled.axes[axis];
  const auto readers = rule.readers();
  const std::size_t i = Resampled::dimension(axis);
  Shape shape = gradient.shape;
  shape[i] = rule.input;
  const Shape fold = {readers.span, rule.taps()};
  LineWriter line(call.builder(), call.provenance(), Kind::kSum, shape, fold);
  auto at = output_indices(shape.size());
  at[i] = readers.output_at(i, 0);
  const std::vector<Coordinate> tap = {at[i], fold_index(1)};
  const auto read = [&](const TensorForm& form, const std::vector<Coordinate>& where,
                        const kernels::Literal& fill) {
    return line.read(window_access(form, where, shape, fold, fill), form.dtype);
  };
  const Expression position = read(rule.positions(call.builder(), call.provenance()), tap, std::int64_t{-1});
  Expression item = read(resampled.whole(gradient), at, 0.0F);
  if (rule.is_linear()) item = item * read(rule.weights(call.builder(), call.provenance()), tap, 0.0F);
  return line.finish(DType::kF32, select(compare(ScalarOp::kEq, position, line.index(i)), item, 0.0F));
}

bool has_ratios(const Resampled& resampled) {
  return std::all_of(resampled.axes.begin(), resampled.axes.end(),
                     [](const Resampling& axis) { return axis.ratio().has_value(); });
}

void upsample_nearest(Call& call) {
  const TensorForm input = call.tensor("self");
  const auto axes = resampled(call, nearest_rule(call), input.shape, call.result_shape());
  if (!axes) return;
  if (const auto view = nearest_view(*axes, input)) return call.give(*view);
  call.give(along_each_axis(*axes, input, nearest_by_table));
}

void upsample_nearest_backward(Call& call) {
  const TensorForm gradient = call.tensor("grad_output");
  const auto axes = resampled(call, nearest_rule(call), call.result_shape(), gradient.shape);
  if (!axes) return;
  if (has_ratios(*axes)) return call.give(nearest_backward(*axes, gradient));
  call.give(along_each_axis(*axes, gradient, backward_by_table));
}

void upsample_linear(Call& call) {
  const TensorForm input = call.tensor("self");
  const auto axes = resampled(call, linear_rule(call), input.shape, call.result_shape());
  if (axes) call.give(along_each_axis(*axes, input, two_taps));
}

void upsample_linear_backward(Call& call) {
  const TensorForm gradient = call.tensor("grad_output");
  const auto axes = resampled(call, linear_rule(call), call.result_shape(), gradient.shape);
  if (axes) call.give(along_each_axis(*axes, gradient, backward_by_table));
}

/// Resampling in one to three dimensions.
constexpr LoweringRow kRows[] = {
    {"upsample_nearest1d _upsample_nearest_exact1d upsample_nearest2d _upsample_nearest_exact2d "
     "upsample_nearest3d _upsample_nearest_exact3d",
     &upsample_nearest},
    {"upsample_nearest1d_backward _upsample_nearest_exact1d_backward upsample_nearest2d_backward "
     "_upsample_nearest_exact2d_backward upsample_nearest3d_backward _upsample_nearest_exact3d_backward",
     &upsample_nearest_backward},
    {"upsample_linear1d upsample_bilinear2d upsample_trilinear3d", &upsample_linear},
    {"upsample_linear1d_backward upsample_bilinear2d_backward upsample_trilinear3d_backward",
     &upsample_linear_backward},
};

}  // namespace

const std::span<const LoweringRow> kUpsampleRows = kRows;

}  // namespace dgx::lowering
