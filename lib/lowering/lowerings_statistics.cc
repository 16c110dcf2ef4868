#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "pointwise.h"

namespace dgx::lowering {

using kernels::Kind;
using kernels::ScalarOp;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::int64_t count_of(const Shape& shape, const std::vector<std::size_t>& dimensions) {
  std::int64_t count = 1;
  for (const std::size_t dimension : dimensions) count *= shape[dimension];
  return count;
}

TensorForm sum_of(Call& call, const TensorForm& form, const std::vector<std::size_t>& dimensions) {
  return sum_over(call.builder(), call.provenance(), form, dimensions);
}

/// A map of `term` of each element, which may read others that broadcast to it.
template <class Term>
TensorForm mapped(Call& call, const TensorForm& form, Term term, DType dtype = DType::kF32) {
  LineWriter line(call.builder(), call.provenance(), form.shape);
  return line.finish(dtype, term(line, line.read(form)));
}

/// A fold of `term` of each element over dimensions, which become 1.
template <class Term>
TensorForm folded(Call& call, Kind kind, DType dtype, const TensorForm& form,
                  const std::vector<std::size_t>& dimensions, Term term) {
  const Reduction over = reduction_over(form.shape, dimensions);
  LineWriter line(call.builder(), call.provenance(), kind, over.shape,
                  over.fold.empty() ? Shape{1} : over.fold);
  const Expression item = line.read(without_splat(call.builder(), form), over.indices);
  return over.restored(line.finish(dtype, term(item)));
}

Expression same(const Expression& x) { return x; }

Expression is_true(const Expression& x) {
  return x.type == kernels::NumberType::kFloat ? compare(ScalarOp::kNe, x, 0.0F)
                                               : compare(ScalarOp::kNe, x, std::int64_t{0});
}

/// The minimum, as 0 - max(-x). Unlike neg, 0 - x never makes −0 of a 0, just as max gives none.
TensorForm smallest(Call& call, const TensorForm& form, const std::vector<std::size_t>& dimensions) {
  const TensorForm greatest =
      folded(call, Kind::kMax, form.dtype, form, dimensions, [](auto x) { return -x; });
  return mapped(
      call, greatest,
      [](LineWriter&, const Expression& x) {
        return x.type == kernels::NumberType::kFloat ? 0.0F - x : std::int64_t{0} - x;
      },
      form.dtype);
}

struct Moments {
  TensorForm mean, variance;
};

/// The mean, then the sum of squared differences from it, divided by count - correction.
Moments moments(Call& call) {
  const TensorForm form = call.tensor("self");
  const auto dimensions = call.dimensions("dim", form.shape.size());
  double correction = call.boolean("unbiased", true) ? 1 : 0;
  if (call.given("correction")) correction = call.number("correction");
  if (!call.ok() || !call.require(form.dtype == DType::kF32, "integers")) return {form, form};
  const std::int64_t size = count_of(form.shape, dimensions);
  const double divisor = std::max(static_cast<double>(size) - correction, 0.0);
  if (!call.require(divisor > 0, "too few numbers")) return {form, form};
  const auto divided = [](double by) {
    return [by](LineWriter&, const Expression& x) { return x / static_cast<float>(by); };
  };
  const TensorForm mean = mapped(call, sum_of(call, form, dimensions), divided(static_cast<double>(size)));
  const TensorForm squares = mapped(call, form, [&](LineWriter& line, const Expression& x) {
    const Expression centred = x - line.read(mean);
    return centred * centred;
  });
  return {mean, mapped(call, sum_of(call, squares, dimensions), divided(divisor))};
}

TensorForm root(Call& call, const TensorForm& form) {
  return mapped(call, form, [](LineWriter&, const Expression& x) { return sqrt(x); });
}

/// A running fold along a dimension: each element folds those up to and including itself.
template <class Next>
void running(Call& call, Next next, float start) {
  const TensorForm form = call.tensor("self");
  if (form.shape.empty()) return call.give(form);
  const std::size_t dimension = call.dimension("dim", form.shape.size());
  if (!call.ok() || !call.require(call.result_dtype() != DType::kU8, "u8 or bool")) return;
  LineWriter line(call.builder(), call.provenance(), Kind::kChain, form.shape, {form.shape[dimension]});
  auto at = output_indices(form.shape.size());
  at[dimension] = fold_index(0);
  const bool is_float = call.result_dtype() == DType::kF32;
  const Expression read = line.read(without_splat(call.builder(), form), at);
  const Expression item = is_float ? to_float(read) : to_integer(read);
  const auto type = is_float ? kernels::NumberType::kFloat : kernels::NumberType::kInteger;
  const Expression first = is_float ? Expression(start) : Expression(static_cast<std::int64_t>(start));
  const Expression when = compare(ScalarOp::kLe, line.fold(0), line.index(dimension));
  call.give(line.finish_chain(call.result_dtype(), next(line.accumulator(type), item), when, first));
}

void var(Call& call) {
  const Moments found = moments(call);
  call.give(found.variance);
}

void std_deviation(Call& call) {
  const Moments found = moments(call);
  if (call.ok()) call.give(root(call, found.variance));
}

void var_mean(Call& call) {
  const Moments found = moments(call);
  call.give(found.variance, 0);
  call.give(found.mean, 1);
}

void std_mean(Call& call) {
  const Moments found = moments(call);
  if (!call.ok()) return;
  call.give(root(call, found.variance), 0);
  call.give(found.mean, 1);
}

/// The norms of order 2, 1, 0 and ±infinity.
void vector_norm(Call& call) {
  const TensorForm form = call.tensor("self");
  const double order = call.has("ord") ? call.number("ord", 2) : call.number("p", 2);
  const auto dimensions = call.dimensions("dim", form.shape.size());
  if (!call.ok() || !call.require(form.dtype == DType::kF32, "integers")) return;
  const auto magnitude = [](LineWriter&, const Expression& x) { return abs(x); };
  if (order == 2) {
    const TensorForm squares = mapped(call, form, [](LineWriter&, const Expression& x) { return x * x; });
    return call.give(root(call, sum_of(call, squares, dimensions)));
  }
  if (order == 0) {
    const TensorForm counted =
        mapped(call, form, [](LineWriter&, const Expression& x) { return to_float(is_true(x)); });
    return call.give(sum_of(call, counted, dimensions));
  }
  const TensorForm magnitudes = mapped(call, form, magnitude);
  if (order == 1) return call.give(sum_of(call, magnitudes, dimensions));
  if (order == HUGE_VAL)
    return call.give(folded(call, Kind::kMax, DType::kF32, magnitudes, dimensions, same));
  if (order == -HUGE_VAL) return call.give(smallest(call, magnitudes, dimensions));
  call.require(false, fmt::format("order {}", order));
}

/// The maximum m (0 instead if it is infinite), then log Σ exp(x - m) + m.
void logsumexp(Call& call) {
  const TensorForm form = call.tensor("self");
  const auto dimensions = call.dimensions("dim", form.shape.size());
  if (!call.ok() || !call.require(form.dtype == DType::kF32, "integers")) return;
  const TensorForm greatest = folded(call, Kind::kMax, DType::kF32, form, dimensions, same);
  const TensorForm shift = mapped(call, greatest, [](LineWriter&, const Expression& m) {
    return select(compare(ScalarOp::kEq, abs(m), kInfinity), 0.0F, m);
  });
  const TensorForm powers =
      mapped(call, form, [&](LineWriter& line, const Expression& x) { return exp(x - line.read(shift)); });
  call.give(mapped(call, sum_of(call, powers, dimensions),
                   [&](LineWriter& line, const Expression& sum) { return log(sum) + line.read(shift); }));
}

/// The product as a chain, in order.
void prod(Call& call) {
  const TensorForm form = call.tensor("self");
  const auto dimensions = call.dimensions("dim", form.shape.size());
  if (!call.ok()) return;
  const Reduction over = reduction_over(form.shape, dimensions);
  const bool is_float = call.result_dtype() == DType::kF32;
  LineWriter line(call.builder(), call.provenance(), Kind::kChain, over.shape,
                  over.fold.empty() ? Shape{1} : over.fold);
  const Expression read = line.read(without_splat(call.builder(), form), over.indices);
  const auto type = is_float ? kernels::NumberType::kFloat : kernels::NumberType::kInteger;
  const Expression product = line.accumulator(type) * (is_float ? to_float(read) : to_integer(read));
  const Expression one = is_float ? Expression(1.0F) : Expression(std::int64_t{1});
  call.give(over.restored(line.finish_chain(call.result_dtype(), product, std::nullopt, one)));
}

void amin(Call& call) {
  const TensorForm form = call.tensor("self");
  const auto dimensions = call.dimensions("dim", form.shape.size());
  if (call.ok() && call.require(form.dtype != DType::kU8, "u8 or bool"))
    call.give(smallest(call, form, dimensions));
}

void argmin(Call& call) {
  const TensorForm form = call.tensor("self");
  const auto dimensions = call.dimensions("dim", form.shape.size());
  if (call.ok() && call.require(form.dtype != DType::kU8, "u8 or bool"))
    call.give(folded(call, Kind::kArgmax, DType::kI64, form, dimensions, [](auto x) { return -x; }));
}

void pairwise(Call& call, Expression (*of)(const Expression&, const Expression&)) {
  Pointwise map(call);
  map.out(of(map.in("self"), map.in("other")));
}

void maximum(Call& call) { pairwise(call, &max); }
void minimum(Call& call) { pairwise(call, &min); }

/// max: along a dimension, the greatest and its first position; of two tensors, the greater; of all, the
/// greatest.
void greatest(Call& call) {
  if (call.given("other")) return maximum(call);
  const TensorForm form = call.tensor("self");
  const auto dimensions = call.dimensions("dim", form.shape.size());
  if (!call.ok()) return;
  call.give(folded(call, Kind::kMax, form.dtype, form, dimensions, same), 0);
  if (call.wants(1)) call.give(folded(call, Kind::kArgmax, DType::kI64, form, dimensions, same), 1);
}

void least(Call& call) {
  if (call.given("other")) return minimum(call);
  const TensorForm form = call.tensor("self");
  const auto dimensions = call.dimensions("dim", form.shape.size());
  if (!call.ok() || !call.require(form.dtype != DType::kU8, "u8 or bool")) return;
  call.give(smallest(call, form, dimensions), 0);
  if (call.wants(1))
    call.give(folded(call, Kind::kArgmax, DType::kI64, form, dimensions, [](auto x) { return -x; }), 1);
}

void any(Call& call) {
  const TensorForm form = call.tensor("self");
  const auto dimensions = call.dimensions("dim", form.shape.size());
  if (!call.ok()) return;
  const TensorForm count = folded(call, Kind::kSum, DType::kI64, form, dimensions, is_true);
  call.give(mapped(
      call, count, [](LineWriter&, const Expression& n) { return is_true(n); }, DType::kU8));
}

void all(Call& call) {
  const TensorForm form = call.tensor("self");
  const auto dimensions = call.dimensions("dim", form.shape.size());
  if (!call.ok()) return;
  const std::int64_t size = count_of(form.shape, dimensions);
  const TensorForm count = folded(call, Kind::kSum, DType::kI64, form, dimensions, is_true);
  const auto is_all = [&](LineWriter&, const Expression& n) { return compare(ScalarOp::kEq, n, size); };
  call.give(mapped(call, count, is_all, DType::kU8));
}

void count_nonzero(Call& call) {
  const TensorForm form = call.tensor("self");
  const auto dimensions = call.dimensions("dim", form.shape.size());
  if (call.ok()) call.give(folded(call, Kind::kSum, DType::kI64, form, dimensions, is_true));
}

void nan_to_num(Call& call) {
  const float nan = call.given("nan") ? call.real("nan") : 0.0F;
  const float most = call.given("posinf") ? call.real("posinf") : std::numeric_limits<float>::max();
  const float least = call.given("neginf") ? call.real("neginf") : std::numeric_limits<float>::lowest();
  Pointwise map(call);
  const Expression x = map.in("self");
  if (x.type != kernels::NumberType::kFloat) return map.out(x);
  const Expression bounded = select(compare(ScalarOp::kEq, x, kInfinity), most,
                                    select(compare(ScalarOp::kEq, x, -kInfinity), least, x));
  map.out(select(compare(ScalarOp::kNe, x, x), nan, bounded));
}

void cumsum(Call& call) {
  running(
      call, [](const Expression& sum, const Expression& x) { return sum + x; }, 0);
}
void cumprod(Call& call) {
  running(
      call, [](const Expression& product, const Expression& x) { return product * x; }, 1);
}

/// Reductions made of others, and running reductions.
constexpr LoweringRow kRows[] = {
    {"maximum", &maximum},
    {"minimum", &minimum},
    {"amin", &amin},
    {"max", &greatest},
    {"min", &least},
    {"argmin", &argmin},
    {"var", &var},
    {"std", &std_deviation},
    {"var_mean", &var_mean},
    {"std_mean", &std_mean},
    {"linalg_vector_norm norm", &vector_norm},
    {"logsumexp", &logsumexp},
    {"prod", &prod},
    {"any", &any},
    {"all", &all},
    {"count_nonzero", &count_nonzero},
    {"nan_to_num", &nan_to_num},
    {"cumsum", &cumsum},
    {"cumprod", &cumprod},
};

}  // namespace

const std::span<const LoweringRow> kStatisticRows = kRows;

}  // namespace dgx::lowering
