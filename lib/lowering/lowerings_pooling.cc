#include <algorithm>
#include <limits>

#include "pointwise.h"
#include "pooling.h"

namespace dgx::lowering {

using kernels::Coordinate;
using kernels::Kind;
using kernels::ScalarOp;

namespace {

/// The pooled tensor: leading dimensions as they are, an axis for each spatial one.
struct Pool {
  Call& call;
  std::size_t leading = 0;
  std::vector<PoolAxis> axes = {};

  [[nodiscard]] std::size_t dimension(std::size_t axis) const { return leading + axis; }
  [[nodiscard]] bool is_disjoint() const {
    return std::all_of(axes.begin(), axes.end(), [](const PoolAxis& axis) { return axis.is_disjoint(); });
  }
  [[nodiscard]] bool is_adaptive() const {
    return std::any_of(axes.begin(), axes.end(), [](const PoolAxis& axis) { return axis.is_adaptive(); });
  }
  [[nodiscard]] TensorForm whole(const TensorForm& form) const {
    return whole_form(call.builder(), call.provenance(), form);
  }
  /// Coordinates of all dimensions; `at` gives those of the axes.
  template <class At>
  std::vector<Coordinate> indices(At at) const {
    std::vector<Coordinate> result = output_indices(leading);
    for (std::size_t n = 0; n < axes.size(); ++n) result.push_back(at(n));
    return result;
  }
  [[nodiscard]] Shape spans() const {
    Shape fold;
    for (const PoolAxis& axis : axes) fold.push_back(axis.span());
    return fold;
  }
  [[nodiscard]] Shape back_spans() const {
    Shape fold;
    for (const PoolAxis& axis : axes) fold.push_back(axis.back_span());
    return fold;
  }
  /// The number of a position in its plane, given its coordinates.
  template <class At>
  Expression flat(At at) const {
    Expression number = at(0);
    for (std::size_t n = 1; n < axes.size(); ++n) number = number * axes[n].input() + at(n);
    return number;
  }
};

void add_condition(std::optional<Expression>& all, const std::optional<Expression>& one) {
  if (one) all = all ? step(ScalarOp::kAnd, {*all, *one}) : *one;
}

bool has_axes(Call& call, const TensorForm& input, const Shape& output, std::size_t rank) {
  return call.ok() && call.require(input.dtype == DType::kF32, "pooling that is not f32") &&
         call.require(rank >= 1 && input.shape.size() > rank && output.size() == input.shape.size(),
                      "tensors of an unsupported rank");
}

/// The pool of kernel_size, stride, padding and dilation.
std::optional<Pool> window_pool(Call& call, const TensorForm& input, const Shape& output) {
  const std::size_t rank = spatial_rank(call.name());
  if (!has_axes(call, input, output, rank)) return std::nullopt;
  const auto list = [&](const char* name) {
    return call.given(name) ? call.integers(name) : std::vector<std::int64_t>{};
  };
  const auto sizes = list("kernel_size"), strides = list("stride"), paddings = list("padding"),
             dilations = list("dilation");
  Pool pool{call, input.shape.size() - rank};
  for (std::size_t n = 0; n < rank; ++n) {
    const std::int64_t size = option(sizes, n, 1);
    const Window window{size, option(strides, n, size), option(paddings, n, 0), option(dilations, n, 1)};
    if (!call.require(window.size >= 1 && window.stride >= 1 && window.dilation >= 1 && window.padding >= 0,
                      "a window of no size"))
      return std::nullopt;
    pool.axes.emplace_back(input.shape[pool.leading + n], output[pool.leading + n], window);
  }
  return pool;
}

std::optional<Pool> adaptive_pool(Call& call, const TensorForm& input, const Shape& output) {
  const std::size_t rank = spatial_rank(call.name());
  if (!has_axes(call, input, output, rank)) return std::nullopt;
  Pool pool{call, input.shape.size() - rank};
  for (std::size_t n = 0; n < rank; ++n)
    pool.axes.emplace_back(input.shape[pool.leading + n], output[pool.leading + n]);
  return pool;
}

/// max or argmax over each output's positions; padding reads as −infinity.
TensorForm extreme(const Pool& pool, Kind kind, const TensorForm& input, const Shape& shape) {
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  LineWriter line(pool.call.builder(), pool.call.provenance(), kind, shape, pool.spans());
  const auto at = pool.indices([&](std::size_t n) { return pool.axes[n].input_at(pool.dimension(n), n); });
  Expression item =
      line.read(window_access(pool.whole(input), at, shape, pool.spans(), kLowest), DType::kF32);
  std::optional<Expression> covered;
  for (std::size_t n = 0; n < pool.axes.size(); ++n)
    add_condition(covered, pool.axes[n].covers(line.index(pool.dimension(n)), line.fold(n)));
  if (covered) item = select(*covered, item, kLowest);
  return line.finish(kind == Kind::kMax ? DType::kF32 : DType::kI64, item);
}

/// The largest of each output's positions and, as in libtorch, the number of that position in its plane.
void give_maximum(const Pool& pool, const TensorForm& input) {
  Call& call = pool.call;
  const Shape shape = call.result_shape();
  call.give(extreme(pool, Kind::kMax, input, shape), 0);
  if (!call.wants(1)) return;
  const TensorForm chosen = extreme(pool, Kind::kArgmax, input, shape);
  LineWriter line(call.builder(), call.provenance(), shape);
  std::vector<Expression> offsets(pool.axes.size(), line.read(chosen));
  Expression rest = line.read(chosen);
  for (std::size_t n = pool.axes.size(); n-- > 1;) {
    offsets[n] = step(ScalarOp::kImod, {rest, pool.axes[n].span()});
    rest = step(ScalarOp::kIdiv, {rest, pool.axes[n].span()});
  }
  offsets[0] = rest;
  call.give(line.finish(DType::kI64, pool.flat([&](std::size_t n) {
    return pool.axes[n].position(line.index(pool.dimension(n)), offsets[n]);
  })),
            1);
}

/// Each position sums the gradients of the outputs that chose it.
void give_maximum_gradient(const Pool& pool, const TensorForm& gradient, const TensorForm& chosen) {
  Call& call = pool.call;
  const Shape shape = call.result_shape();
  const bool disjoint = pool.is_disjoint();
  const Shape fold = disjoint ? Shape{} : pool.back_spans();
  LineWriter line(call.builder(), call.provenance(), disjoint ? Kind::kMap : Kind::kSum, shape, fold);
  const auto at = pool.indices([&](std::size_t n) {
    const std::size_t i = pool.dimension(n);
    return disjoint ? pool.axes[n].only_output_at(i) : pool.axes[n].output_at(i, n);
  });
  const Expression number =
      line.read(window_access(pool.whole(chosen), at, shape, fold, std::int64_t{-1}), chosen.dtype);
  const Expression one = line.read(window_access(pool.whole(gradient), at, shape, fold, 0.0F), DType::kF32);
  const Expression own = pool.flat([&](std::size_t n) { return line.index(pool.dimension(n)); });
  call.give(line.finish(DType::kF32, select(compare(ScalarOp::kEq, number, own), one, 0.0F)));
}

/// The sum over each output's positions, along axes [first, last). The tensor has the outputs' sizes along
/// earlier axes and the inputs' along later ones.
TensorForm window_sum(const Pool& pool, const TensorForm& input, std::size_t first, std::size_t last) {
  Shape shape = input.shape, fold;
  for (std::size_t n = first; n < last; ++n) {
    shape[pool.dimension(n)] = pool.axes[n].output();
    fold.push_back(pool.axes[n].span());
  }
  LineWriter line(pool.call.builder(), pool.call.provenance(), Kind::kSum, shape, fold);
  const auto at = pool.indices([&](std::size_t n) {
    const std::size_t i = pool.dimension(n);
    return n >= first && n < last ? pool.axes[n].input_at(i, n - first) : output_index(i);
  });
  Expression item = line.read(window_access(pool.whole(input), at, shape, fold, 0.0F), DType::kF32);
  std::optional<Expression> covered;
  for (std::size_t n = first; n < last; ++n)
    add_condition(covered, pool.axes[n].covers(line.index(pool.dimension(n)), line.fold(n - first)));
  if (covered) item = select(*covered, item, 0.0F);
  return line.finish(DType::kF32, item);
}

/// The gradient of window_sum(): the sum over the outputs that cover a position.
TensorForm window_sum_backward(const Pool& pool, const TensorForm& gradient, std::size_t first,
                               std::size_t last) {
  Shape shape = gradient.shape, fold;
  bool disjoint = true;
  for (std::size_t n = first; n < last; ++n) {
    shape[pool.dimension(n)] = pool.axes[n].input();
    fold.push_back(pool.axes[n].back_span());
    disjoint = disjoint && pool.axes[n].is_disjoint();
  }
  if (disjoint) fold.clear();
  LineWriter line(pool.call.builder(), pool.call.provenance(), disjoint ? Kind::kMap : Kind::kSum, shape,
                  fold);
  const auto at = pool.indices([&](std::size_t n) {
    const std::size_t i = pool.dimension(n);
    if (n < first || n >= last) return output_index(i);
    return disjoint ? pool.axes[n].only_output_at(i) : pool.axes[n].output_at(i, n - first);
  });
  Expression item = line.read(window_access(pool.whole(gradient), at, shape, fold, 0.0F), DType::kF32);
  std::optional<Expression> covered;
  for (std::size_t n = first; n < last; ++n) {
    const Expression i = line.index(pool.dimension(n));
    add_condition(covered,
                  disjoint ? pool.axes[n].is_in_only(i) : pool.axes[n].is_covered(i, line.fold(n - first)));
  }
  if (covered) item = select(*covered, item, 0.0F);
  return line.finish(DType::kF32, item);
}

/// Sums an adaptive pool one axis at a time, any other at once.
template <class Sum>
TensorForm summed(const Pool& pool, TensorForm form, Sum sum) {
  if (!pool.is_adaptive()) return sum(pool, form, std::size_t{0}, pool.axes.size());
  for (std::size_t n = 0; n < pool.axes.size(); ++n) {
    if (pool.axes[n].input() != pool.axes[n].output()) form = sum(pool, form, n, n + 1);
  }
  return form;
}

/// `form`, of the outputs' shape, divided by the number of positions that each output averages.
TensorForm divided_by_count(const Pool& pool, const TensorForm& form, bool with_padding,
                            std::optional<std::int64_t> divisor) {
  LineWriter line(pool.call.builder(), pool.call.provenance(), form.shape);
  std::int64_t same = divisor.value_or(1);
  std::optional<Expression> varying;
  for (std::size_t n = 0; n < pool.axes.size() && !divisor; ++n) {
    if (const auto count = pool.axes[n].same_count(with_padding)) {
      same *= *count;
    } else {
      const Expression own = pool.axes[n].count(line.index(pool.dimension(n)), with_padding);
      varying = varying ? *varying * own : own;
    }
  }
  const Expression item = line.read(form);
  if (!varying) return same == 1 ? form : line.finish(DType::kF32, item / static_cast<float>(same));
  return line.finish(DType::kF32, item / to_float(same == 1 ? *varying : *varying * same));
}

std::optional<std::int64_t> divisor_of(Call& call) {
  return call.given("divisor_override") ? std::optional(call.integer("divisor_override")) : std::nullopt;
}

void max_pool(Call& call) {
  const TensorForm input = call.tensor("self");
  const auto pool = window_pool(call, input, call.result_shape());
  if (!pool) return;
  for (const PoolAxis& axis : pool->axes) {
    if (!call.require(axis.is_filled(), "a window of padding alone")) return;
  }
  give_maximum(*pool, input);
}

void max_pool_backward(Call& call) {
  const TensorForm gradient = call.tensor("grad_output"), input = call.tensor("self"),
                   chosen = call.tensor("indices");
  const auto pool = window_pool(call, input, gradient.shape);
  if (pool) give_maximum_gradient(*pool, gradient, chosen);
}

void adaptive_max_pool(Call& call) {
  const TensorForm input = call.tensor("self");
  const auto pool = adaptive_pool(call, input, call.result_shape());
  if (pool) give_maximum(*pool, input);
}

void adaptive_max_pool_backward(Call& call) {
  const TensorForm gradient = call.tensor("grad_output"), input = call.tensor("self"),
                   chosen = call.tensor("indices");
  const auto pool = adaptive_pool(call, input, gradient.shape);
  if (pool) give_maximum_gradient(*pool, gradient, chosen);
}

/// Each number at the position it was chosen from, zero elsewhere; if several are at one position, the last.
void max_unpool(Call& call) {
  const TensorForm input = call.tensor("self"), chosen = call.tensor("indices");
  const std::size_t rank = spatial_rank(call.name());
  const Shape shape = call.result_shape();
  if (!has_axes(call, input, shape, rank) ||
      !call.require(chosen.shape == input.shape, "indices of another shape"))
    return;
  const std::size_t leading = shape.size() - rank;
  const Shape fold(input.shape.begin() + static_cast<std::ptrdiff_t>(leading), input.shape.end());
  LineWriter line(call.builder(), call.provenance(), Kind::kChain, shape, fold);
  std::vector<Coordinate> at = output_indices(leading);
  for (std::size_t n = 0; n < rank; ++n) at.push_back(fold_index(n));
  const Expression number = line.read(without_splat(call.builder(), input), at);
  const Expression position = line.read(without_splat(call.builder(), chosen), at);
  Expression own = line.index(leading);
  for (std::size_t n = 1; n < rank; ++n) own = own * shape[leading + n] + line.index(leading + n);
  call.give(line.finish_chain(DType::kF32, number, compare(ScalarOp::kEq, position, own), 0.0F));
}

void avg_pool(Call& call) {
  const TensorForm input = call.tensor("self");
  const auto pool = window_pool(call, input, call.result_shape());
  if (!pool) return;
  const TensorForm total = summed(*pool, without_splat(call.builder(), input), window_sum);
  call.give(divided_by_count(*pool, total, call.boolean("count_include_pad", true), divisor_of(call)));
}

void avg_pool_backward(Call& call) {
  const TensorForm gradient = call.tensor("grad_output"), input = call.tensor("self");
  const auto pool = window_pool(call, input, gradient.shape);
  if (!pool) return;
  const TensorForm share =
      divided_by_count(*pool, gradient, call.boolean("count_include_pad", true), divisor_of(call));
  if (call.ok()) call.give(summed(*pool, share, window_sum_backward));
}

void adaptive_avg_pool(Call& call) {
  const TensorForm input = call.tensor("self");
  const auto pool = adaptive_pool(call, input, call.result_shape());
  if (pool) call.give(divided_by_count(*pool, summed(*pool, input, window_sum), false, std::nullopt));
}

void adaptive_avg_pool_backward(Call& call) {
  const TensorForm gradient = call.tensor("grad_output"), input = call.tensor("self");
  const auto pool = adaptive_pool(call, input, gradient.shape);
  if (pool)
    call.give(summed(*pool, divided_by_count(*pool, gradient, false, std::nullopt), window_sum_backward));
}

/// Pooling in one to three dimensions.
constexpr LoweringRow kRows[] = {
    {"max_pool1d_with_indices max_pool2d_with_indices max_pool3d_with_indices", &max_pool},
    {"max_pool2d_with_indices_backward max_pool3d_with_indices_backward", &max_pool_backward},
    {"adaptive_max_pool2d adaptive_max_pool3d", &adaptive_max_pool},
    {"adaptive_max_pool2d_backward adaptive_max_pool3d_backward", &adaptive_max_pool_backward},
    {"max_unpool2d max_unpool3d", &max_unpool},
    {"avg_pool2d avg_pool3d", &avg_pool},
    {"avg_pool2d_backward avg_pool3d_backward", &avg_pool_backward},
    {"_adaptive_avg_pool2d _adaptive_avg_pool3d", &adaptive_avg_pool},
    {"_adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward", &adaptive_avg_pool_backward},
};

}  // namespace

const std::span<const LoweringRow> kPoolingRows = kRows;

}  // namespace dgx::lowering
