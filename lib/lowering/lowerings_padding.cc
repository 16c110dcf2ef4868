#include <algorithm>
#include <optional>

#include "pointwise.h"
#include "windows.h"

namespace dgx::lowering {

using kernels::Coordinate;
using kernels::ScalarOp;

namespace {

/// The padding before and after a dimension.
struct Padding {
  std::int64_t before = 0, after = 0;
};

/// The option `name`, whose pairs begin with the last dimension.
std::vector<Padding> paddings_of(Call& call, std::string_view name, std::size_t rank) {
  const auto listed = call.integers(name);
  std::vector<Padding> result(rank);
  if (!call.require(listed.size() % 2 == 0 && listed.size() <= 2 * rank, "more padding than dimensions"))
    return result;
  for (std::size_t n = 0; 2 * n < listed.size(); ++n)
    result[rank - 1 - n] = {listed[2 * n], listed[2 * n + 1]};
  return result;
}

/// A tensor padded along its last dimensions with its own numbers.
struct Border {
  Call& call;
  Shape shape = {};  // of the tensor
  std::vector<Padding> paddings = {};

  [[nodiscard]] std::int64_t padded(std::size_t n) const {
    return shape[n] + paddings[n].before + paddings[n].after;
  }
  [[nodiscard]] bool is_padded(std::size_t n) const {
    return paddings[n].before != 0 || paddings[n].after != 0;
  }
  [[nodiscard]] TensorForm whole(const TensorForm& form) const {
    return whole_form(call.builder(), call.provenance(), form);
  }
};

std::optional<Border> border_of(Call& call) {
  const TensorForm input = call.tensor("self");
  Border border{call, input.shape, paddings_of(call, "padding", input.shape.size())};
  if (!call.ok() || !call.require(input.dtype == DType::kF32, "padding that is not f32")) return std::nullopt;
  return border;
}

/// The padded tensor: an indexed read, with `rule`'s table of positions for each padded dimension.
template <class Rule>
void give_bordered(const Border& border, Rule rule) {
  Call& call = border.call;
  kernels::Primitive copy;
  copy.shape = call.result_shape();
  copy.provenance = call.provenance();
  copy.accesses.resize(1);
  auto at = output_indices(border.shape.size());
  for (std::size_t n = 0; n < border.shape.size(); ++n) {
    if (!border.is_padded(n)) continue;
    LineWriter line(call.builder(), call.provenance(), {border.padded(n)});
    const Expression offset = line.index(0) - border.paddings[n].before;
    const TensorForm positions = line.finish(DType::kI64, rule(offset, border.shape[n]));
    at[n] = read_by(copy.accesses.size());
    copy.accesses.push_back(access_at(positions, {output_index(n)}));
  }
  copy.accesses[0] = window_access(border.whole(call.tensor("self")), at, copy.shape, {}, 0.0F);
  const Shape shape = copy.shape;
  call.give(value_form(call.builder().append(std::move(copy)), DType::kF32, shape));
}

/// Gives the gradient, one padded dimension after another: `step` takes a gradient of the padded size along
/// dimension n to one of the tensor's size.
template <class Step>
void give_border_gradient(const Border& border, Step step) {
  TensorForm gradient = border.call.tensor("grad_output");
  for (std::size_t n = 0; n < border.shape.size() && border.call.ok(); ++n) {
    if (border.is_padded(n)) gradient = step(border, gradient, n);
  }
  border.call.give(gradient);
}

/// The gradient of a position and of its copies before and after the tensor.
TensorForm reflected_gradient(const Border& border, const TensorForm& gradient, std::size_t n) {
  Shape shape = gradient.shape;
  shape[n] = border.shape[n];
  LineWriter line(border.call.builder(), border.call.provenance(), shape);
  const auto [before, after] = border.paddings[n];
  const std::int64_t last = border.shape[n] - 1;
  const auto read = [&](std::int64_t scale, std::int64_t shift) {
    auto at = output_indices(shape.size());
    at[n] = output_index(n, scale, shift);
    return line.read(window_access(border.whole(gradient), at, shape, {}, 0.0F), DType::kF32);
  };
  const Expression i = line.index(n);
  const auto between = [&](std::int64_t low, std::int64_t high) {
    return step(ScalarOp::kAnd, {compare(ScalarOp::kGe, i, low), compare(ScalarOp::kLe, i, high)});
  };
  Expression total = read(1, before);
  if (before > 0) total = total + select(between(1, before), read(-1, before), 0.0F);
  if (after > 0) total = total + select(between(last - after, last - 1), read(-1, before + 2 * last), 0.0F);
  return line.finish(DType::kF32, total);
}

/// The gradient of a position and, if it is the first or the last, of the copies beyond it.
TensorForm replicated_gradient(const Border& border, const TensorForm& gradient, std::size_t n) {
  Shape shape = gradient.shape;
  shape[n] = border.shape[n];
  const std::int64_t before = std::max<std::int64_t>(border.paddings[n].before, 0),
                     after = std::max<std::int64_t>(border.paddings[n].after, 0);
  const std::int64_t cut = before - border.paddings[n].before;
  const Shape fold = {1 + before + after};
  LineWriter line(border.call.builder(), border.call.provenance(), kernels::Kind::kSum, shape, fold);
  auto at = output_indices(shape.size());
  at[n] = affine({output_term(n), fold_term(0)}, -cut);
  const Expression item =
      line.read(window_access(border.whole(gradient), at, shape, fold, 0.0F), DType::kF32);
  const Expression position = (line.index(n) + line.fold(0)) - before;
  const Expression clamped = min(max(position, std::int64_t{0}), border.shape[n] - 1);
  return line.finish(DType::kF32, select(compare(ScalarOp::kEq, clamped, line.index(n)), item, 0.0F));
}

/// Mirrors at the first and the last position.
void reflection_pad(Call& call) {
  const auto border = border_of(call);
  if (!border) return;
  give_bordered(*border, [](const Expression& offset, std::int64_t size) {
    const Expression beyond = abs(offset) - (size - 1);
    return (size - 1) - abs(beyond);
  });
}

void reflection_pad_backward(Call& call) {
  const auto border = border_of(call);
  if (border) give_border_gradient(*border, reflected_gradient);
}

/// Repeats the first and the last position.
void replication_pad(Call& call) {
  const auto border = border_of(call);
  if (!border) return;
  give_bordered(*border, [](const Expression& offset, std::int64_t size) {
    return min(max(offset, std::int64_t{0}), size - 1);
  });
}

void replication_pad_backward(Call& call) {
  const auto border = border_of(call);
  if (border) give_border_gradient(*border, replicated_gradient);
}

/// A fill around the tensor; a negative padding crops.
void constant_pad(Call& call) {
  const TensorForm input = call.tensor("self");
  const auto paddings = paddings_of(call, "pad", input.shape.size());
  const auto fill = literal_of(input.dtype, call.number("value", 0));
  if (!call.ok()) return;
  TensorForm whole = whole_form(call.builder(), call.provenance(), input);
  std::vector<Coordinate> at;
  Shape shape;
  bool adds = false;
  for (std::size_t n = 0; n < paddings.size(); ++n) {
    at.push_back(output_index(n, 1, -paddings[n].before));
    shape.push_back(input.shape[n] + paddings[n].before + paddings[n].after);
    adds = adds || paddings[n].before > 0 || paddings[n].after > 0;
  }
  if (adds) whole.fill = fill;
  call.give(remap(whole, shape, at));
}

/// Padding.
constexpr LoweringRow kRows[] = {
    {"constant_pad_nd", &constant_pad},
    {"reflection_pad1d reflection_pad2d reflection_pad3d", &reflection_pad},
    {"reflection_pad1d_backward reflection_pad2d_backward reflection_pad3d_backward",
     &reflection_pad_backward},
    {"replication_pad1d replication_pad2d replication_pad3d", &replication_pad},
    {"replication_pad1d_backward replication_pad2d_backward replication_pad3d_backward",
     &replication_pad_backward},
};

}  // namespace

const std::span<const LoweringRow> kPaddingRows = kRows;

}  // namespace dgx::lowering
