#include "pointwise.h"
#include "windows.h"

namespace dgx::lowering {

using kernels::Coordinate;

namespace {

/// A convolution takes a tensor of fine positions to one of coarse positions: coarse o reads fine stride·o +
/// dilation·k − padding. A transposed one goes the other way. Either way the weight is [coarse channels, fine
/// channels of a group, kernel…], and output, input gradient and weight gradient are the three dots below.
struct Convolution {
  Call& call;
  std::int64_t batch = 1, groups = 1;
  std::int64_t coarse_channels = 1, fine_channels = 1;  // per group
  Shape coarse, fine;                                   // spatial sizes
  std::vector<Window> windows = {};                     // one per spatial dimension
  Shape kernel = {};

  [[nodiscard]] std::size_t rank() const { return windows.size(); }
  /// Channels are one dimension or, with groups, two: the group and the channel in it.
  [[nodiscard]] Shape channels(std::int64_t in_group) const {
    return groups == 1 ? Shape{in_group} : Shape{groups, in_group};
  }
  [[nodiscard]] std::size_t channel_index() const { return groups == 1 ? 1 : 2; }

  [[nodiscard]] Shape tensor_shape(std::int64_t in_group, const Shape& spatial) const {
    return joined({batch}, channels(in_group), spatial);
  }
  [[nodiscard]] Shape weight_shape() const {
    return joined(channels(coarse_channels), {fine_channels}, kernel);
  }
  static Shape joined(Shape first, const Shape& second, const Shape& third) {
    first.insert(first.end(), second.begin(), second.end());
    first.insert(first.end(), third.begin(), third.end());
    return first;
  }
  /// The fold's shape: kernel positions, then the channels of the other side.
  [[nodiscard]] Shape contraction(std::int64_t in_group) const { return joined(kernel, {in_group}, {}); }

  [[nodiscard]] TensorForm whole(const TensorForm& form, const Shape& shape) const {
    return whole_form(call.builder(), call.provenance(), form, shape);
  }

  TensorForm dot(const Shape& iteration, const Shape& fold, const TensorForm& rows,
                 const std::vector<Coordinate>& row_at, const TensorForm& columns,
                 const std::vector<Coordinate>& column_at, const Shape& shape) const {
    kernels::Primitive primitive;
    primitive.kind = kernels::Kind::kDot;
    primitive.shape = shape;
    if (iteration != shape) primitive.iteration = iteration;
    primitive.fold = fold;
    primitive.provenance = call.provenance();
    primitive.accesses = {window_access(rows, row_at, iteration, fold, 0.0F),
                          window_access(columns, column_at, iteration, fold, 0.0F)};
    return value_form(call.builder().append(std::move(primitive)), DType::kF32, shape);
  }

  /// Coordinates of an activation in the contraction: batch, group, the folded channel, then `spatial`.
  template <class Spatial>
  std::vector<Coordinate> activation_at(Spatial spatial) const {
    std::vector<Coordinate> at = {output_index(0)};
    if (groups > 1) at.push_back(output_index(1));
    at.push_back(fold_index(rank()));
    for (std::size_t n = 0; n < rank(); ++n) at.push_back(spatial(n));
    return at;
  }
  /// Coordinates of the weight in the contraction.
  [[nodiscard]] std::vector<Coordinate> weight_at(bool folds_coarse) const {
    std::vector<Coordinate> at;
    if (groups > 1) at.push_back(output_index(1));
    const Coordinate own = output_index(channel_index()), folded = fold_index(rank());
    at.push_back(folds_coarse ? folded : own);
    at.push_back(folds_coarse ? own : folded);
    for (std::size_t n = 0; n < rank(); ++n) at.push_back(fold_index(n));
    return at;
  }

  [[nodiscard]] TensorForm coarse_from_fine(const TensorForm& x, const TensorForm& weight,
                                            const Shape& shape) const {
    const auto at = activation_at([&](std::size_t n) {
      return windows[n].position(output_term(channel_index() + 1 + n), fold_term(n));
    });
    return dot(tensor_shape(coarse_channels, coarse), contraction(fine_channels),
               whole(x, tensor_shape(fine_channels, fine)), at, whole(weight, weight_shape()),
               weight_at(false), shape);
  }

  [[nodiscard]] TensorForm fine_from_coarse(const TensorForm& y, const TensorForm& weight,
                                            const Shape& shape) const {
    const auto at =
        activation_at([&](std::size_t n) { return windows[n].output_of(channel_index() + 1 + n, n); });
    return dot(tensor_shape(fine_channels, fine), contraction(coarse_channels),
               whole(y, tensor_shape(coarse_channels, coarse)), at, whole(weight, weight_shape()),
               weight_at(true), shape);
  }

  /// The weight's gradient from the tensors on both sides.
  [[nodiscard]] TensorForm weight_from(const TensorForm& y, const TensorForm& x, const Shape& shape) const {
    const std::size_t channel = channel_index() - 1;
    std::vector<Coordinate> y_at = {fold_index(0)}, x_at = {fold_index(0)};
    if (groups > 1) {
      y_at.push_back(output_index(0));
      x_at.push_back(output_index(0));
    }
    y_at.push_back(output_index(channel));
    x_at.push_back(output_index(channel + 1));
    for (std::size_t n = 0; n < rank(); ++n) {
      y_at.push_back(fold_index(1 + n));
      x_at.push_back(windows[n].position(fold_term(1 + n), output_term(channel + 2 + n)));
    }
    return dot(weight_shape(), joined({batch}, coarse, {}), whole(y, tensor_shape(coarse_channels, coarse)),
               y_at, whole(x, tensor_shape(fine_channels, fine)), x_at, shape);
  }
};

/// The call's geometry from its options and the shapes of input, output and weight; nullopt if they do not
/// fit.
std::optional<Convolution> geometry_of(Call& call, const Shape& input, const Shape& output,
                                       const Shape& weight) {
  const std::int64_t groups = call.integer("groups", 1);
  const bool transposed = call.boolean("transposed", false);
  if (!call.ok() ||
      !call.require(input.size() >= 3 && input.size() <= 5 && output.size() == input.size() &&
                        weight.size() == input.size(),
                    "tensors without one to three spatial dimensions") ||
      !call.require(groups >= 1 && weight[0] % groups == 0 &&
                        (transposed ? output : input)[1] == weight[1] * groups &&
                        (transposed ? input : output)[1] == weight[0] && input[0] == output[0],
                    "channels that do not fit"))
    return std::nullopt;
  Convolution result{call, input[0], groups, weight[0] / groups, weight[1], {}, {}};
  const Shape& coarse = transposed ? input : output;
  const Shape& fine = transposed ? output : input;
  const auto strides = call.integers("stride"), paddings = call.integers("padding"),
             dilations = call.integers("dilation");
  for (std::size_t n = 0; n + 2 < weight.size(); ++n) {
    result.coarse.push_back(coarse[n + 2]);
    result.fine.push_back(fine[n + 2]);
    result.kernel.push_back(weight[n + 2]);
    result.windows.push_back(
        {weight[n + 2], option(strides, n, 1), option(paddings, n, 0), option(dilations, n, 1)});
    const Window& window = result.windows.back();
    if (!call.require(window.stride >= 1 && window.dilation >= 1, "a stride or dilation below 1"))
      return std::nullopt;
  }
  return call.ok() ? std::optional(result) : std::nullopt;
}

bool all_real(Call& call, std::initializer_list<TensorForm> forms) {
  for (const TensorForm& form : forms) {
    if (!call.require(form.dtype == DType::kF32, "a convolution that is not f32")) return false;
  }
  return call.ok();
}

void convolution(Call& call) {
  const TensorForm input = call.tensor("input"), weight = call.tensor("weight");
  if (!all_real(call, {input, weight})) return;
  const auto geometry = geometry_of(call, input.shape, call.result_shape(), weight.shape);
  if (!geometry) return;
  const Shape& shape = call.result_shape();
  const TensorForm product = call.boolean("transposed", false)
                                 ? geometry->fine_from_coarse(input, weight, shape)
                                 : geometry->coarse_from_fine(input, weight, shape);
  if (!call.given("bias")) return call.give(product);
  const TensorForm bias = call.tensor("bias");
  Shape along(shape.size() - 1, 1);
  along[0] = shape[1];
  if (!call.require(bias.shape == Shape{shape[1]}, "a bias of another shape")) return;
  Pointwise map(call);
  map.out(map.read(product, "input") +
          map.read(reshaped(call.builder(), call.provenance(), bias, along), "bias"));
}

void convolution_backward(Call& call) {
  const TensorForm gradient = call.tensor("grad_output"), input = call.tensor("input"),
                   weight = call.tensor("weight");
  if (!all_real(call, {gradient, input, weight})) return;
  const auto geometry = geometry_of(call, input.shape, gradient.shape, weight.shape);
  if (!geometry) return;
  const bool transposed = call.boolean("transposed", false);
  if (call.wants(0)) {
    call.give(transposed ? geometry->coarse_from_fine(gradient, weight, input.shape)
                         : geometry->fine_from_coarse(gradient, weight, input.shape),
              0);
  }
  if (call.wants(1)) {
    call.give(transposed ? geometry->weight_from(input, gradient, weight.shape)
                         : geometry->weight_from(gradient, input, weight.shape),
              1);
  }
  if (call.wants(2)) {
    std::vector<std::size_t> all_but_channels = {0};
    for (std::size_t n = 2; n < gradient.shape.size(); ++n) all_but_channels.push_back(n);
    call.give(sum_over(call.builder(), call.provenance(), gradient, all_but_channels), 2);
  }
}

/// Convolutions of any stride, padding, dilation and groups, transposed too, in one to three dimensions.
constexpr LoweringRow kRows[] = {
    {"convolution _convolution", &convolution},
    {"convolution_backward", &convolution_backward},
};

}  // namespace

const std::span<const LoweringRow> kConvolutionRows = kRows;

}  // namespace dgx::lowering
