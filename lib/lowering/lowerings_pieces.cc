#include <algorithm>
#include <optional>

#include "pointwise.h"

namespace dgx::lowering {

using kernels::Coordinate;
using kernels::ScalarOp;

namespace {

Expression zero(LineWriter& line, DType dtype) {
  return line.read(splat_form(dtype, {}, literal_of(dtype, 0)));
}

/// Keeps the elements on one side of a diagonal of the last two dimensions.
void triangle(Call& call, ScalarOp kept) {
  const TensorForm self = call.tensor("self");
  const std::size_t rank = self.shape.size();
  if (!call.ok() || !call.require(rank >= 2, "fewer than two dimensions")) return;
  LineWriter line(call.builder(), call.provenance(), self.shape);
  const std::int64_t diagonal = call.integer("diagonal", 0);
  const Expression row = diagonal == 0 ? line.index(rank - 2) : line.index(rank - 2) + diagonal;
  call.give(line, select(compare(kept, line.index(rank - 1), row), line.read(self), zero(line, self.dtype)));
}

/// The two dimensions of a diagonal, and the row and column at which it starts.
struct Diagonal {
  std::size_t rows = 0, columns = 1;
  std::int64_t row = 0, column = 0;
};

Diagonal diagonal_of(Call& call, std::size_t rank) {
  const auto wrapped = [&](const char* name, std::int64_t otherwise) {
    return call.wrap(call.integer(name, otherwise), rank);
  };
  const std::int64_t offset = call.integer("offset", 0);
  const Diagonal result{wrapped("dim1", 0), wrapped("dim2", 1), std::max<std::int64_t>(-offset, 0),
                        std::max<std::int64_t>(offset, 0)};
  call.require(result.rows != result.columns, "a diagonal of one dimension");
  return result;
}

/// The coordinates at which elements of a tensor of this rank read one that holds the diagonal as its last
/// dimension.
std::vector<Coordinate> along_diagonal(const Diagonal& diagonal, std::size_t rank) {
  std::vector<Coordinate> at;
  for (std::size_t n = 0; n < rank; ++n) {
    if (n != diagonal.rows && n != diagonal.columns) at.push_back(output_index(n));
  }
  at.push_back(output_index(diagonal.rows, 1, -diagonal.row));
  return at;
}

/// `inside` where an element is on the diagonal, `outside` elsewhere.
void on_diagonal(Call& call, const TensorForm& inside, const TensorForm& outside, const Diagonal& diagonal) {
  const Shape shape = call.result_shape();
  if (!call.ok() || !call.require(inside.shape.size() + 1 == shape.size(), "another rank")) return;
  LineWriter line(call.builder(), call.provenance(), shape);
  const Expression row = line.index(diagonal.rows), column = line.index(diagonal.columns);
  const std::int64_t offset = diagonal.column - diagonal.row;
  const Expression here = compare(ScalarOp::kEq, offset == 0 ? row : row + offset, column);
  const TensorForm value = inside.splat ? inside : zeros_around(call, inside);
  call.give(line, select(here, line.read(value, along_diagonal(diagonal, shape.size())), line.read(outside)));
}

/// True where an index is in [start, start + length · step) and a multiple of step from start.
Expression in_range(LineWriter& line, std::size_t dimension, std::int64_t start, std::int64_t length,
                    std::int64_t step_size) {
  const Expression at = line.index(dimension);
  const Expression inside = step(ScalarOp::kAnd, {compare(ScalarOp::kGe, at, start),
                                                  compare(ScalarOp::kLt, at, start + length * step_size)});
  if (step_size == 1) return inside;
  const Expression rest = step(ScalarOp::kImod, {at - start, Expression(step_size)});
  return step(ScalarOp::kAnd, {inside, compare(ScalarOp::kEq, rest, std::int64_t{0})});
}

/// Puts `source`, of self's rank, in place of self's elements start, start + step, … of a dimension.
void put_range(Call& call, const TensorForm& self, const TensorForm& source, std::size_t dimension,
               std::int64_t start, std::int64_t step_size) {
  const Shape& shape = self.shape;
  if (!call.require(source.shape.size() == shape.size(), "another rank")) return;
  const std::int64_t length = source.shape[dimension];
  if (start == 0 && step_size == 1 && length == shape[dimension]) return call.give(source);
  LineWriter line(call.builder(), call.provenance(), shape);
  auto at = output_indices(shape.size());
  at[dimension] = output_index(dimension, 1, -start);
  if (step_size > 1) {
    at[dimension].division = Coordinate::Division::kExact;
    at[dimension].divisor = step_size;
  }
  Expression put = zero(line, source.dtype);
  if (source.splat) {
    put = line.read(splat_form(source.dtype, {}, *source.splat));
  } else {
    kernels::Access access = access_at(zeros_around(call, source), output_indices(shape.size()));
    access.coordinates = at;
    put = line.read(std::move(access), source.dtype);
  }
  call.give(line, select(in_range(line, dimension, start, length, step_size), put, line.read(self)));
}

/// Moves a dimension's elements on by `shift` places; those that fall out come in again at the other end.
TensorForm rolled(Call& call, const TensorForm& form, std::size_t dimension, std::int64_t shift) {
  const std::int64_t size = form.shape[dimension];
  const std::int64_t by = ((shift % size) + size) % size;
  if (by == 0 || form.splat) return form;
  const TensorForm whole = zeros_around(call, form);
  LineWriter line(call.builder(), call.provenance(), form.shape);
  const auto read = [&](std::int64_t offset) {
    auto at = output_indices(form.shape.size());
    at[dimension] = output_index(dimension, 1, offset);
    return line.read(whole, at);
  };
  const Expression wrapped = read(size - by), moved = read(-by);
  return line.finish(form.dtype, select(compare(ScalarOp::kLt, line.index(dimension), by), wrapped, moved));
}

void tril(Call& call) { triangle(call, ScalarOp::kLe); }
void triu(Call& call) { triangle(call, ScalarOp::kGe); }

void roll(Call& call) {
  TensorForm form = call.tensor("self");
  const auto shifts = call.integers("shifts");
  const auto listed = call.given("dims") ? call.integers("dims") : std::vector<std::int64_t>{};
  if (!call.ok()) return;
  if (listed.empty()) {
    if (!call.require(shifts.size() == 1, "shifts without dimensions")) return;
    form = reshaped(call.builder(), call.provenance(), form, {*element_count(form.shape)});
    return call.give(rolled(call, form, 0, shifts[0]));
  }
  if (!call.require(shifts.size() == listed.size(), "shifts for other dimensions")) return;
  for (std::size_t n = 0; n < listed.size(); ++n) {
    const std::size_t dimension = call.wrap(listed[n], form.shape.size());
    if (!call.ok()) return;
    form = rolled(call, form, dimension, shifts[n]);
  }
  call.give(form);
}

/// Repeats the whole tensor along each dimension: a copy whose iteration has each dimension as (repeat,
/// element).
void repeat(Call& call) {
  TensorForm form = call.tensor("self");
  const auto repeats = call.integers("repeats");
  if (!call.ok() || !call.require(repeats.size() >= form.shape.size(), "fewer repeats than dimensions"))
    return;
  Shape padded = form.shape;
  padded.insert(padded.begin(), repeats.size() - padded.size(), 1);
  form = reshaped(call.builder(), call.provenance(), form, padded);
  Shape repeated;
  std::vector<Coordinate> at;
  for (std::size_t n = 0; n < padded.size(); ++n) {
    if (repeats[n] != 1) repeated.push_back(repeats[n]);
    at.push_back(padded[n] == 1 ? constant_index(0) : output_index(repeated.size()));
    if (padded[n] != 1) repeated.push_back(padded[n]);
  }
  if (!call.require(repeated.size() <= 8, "more than eight dimensions and repeats")) return;
  call.give(remap(form, repeated, at));
}

void diagonal(Call& call) {
  const TensorForm self = call.tensor("self");
  const Diagonal diagonal = diagonal_of(call, self.shape.size());
  if (!call.ok()) return;
  const Shape shape = call.result_shape();
  std::vector<Coordinate> at;
  std::size_t kept = 0;
  for (std::size_t n = 0; n < self.shape.size(); ++n) {
    at.push_back(n == diagonal.rows      ? output_index(shape.size() - 1, 1, diagonal.row)
                 : n == diagonal.columns ? output_index(shape.size() - 1, 1, diagonal.column)
                                         : output_index(kept++));
  }
  call.give(remap(self, shape, at));
}

void trace(Call& call) {
  const TensorForm self = call.tensor("self");
  if (!call.ok() || !call.require(self.shape.size() == 2, "another rank")) return;
  const TensorForm along =
      remap(self, {std::min(self.shape[0], self.shape[1])}, {output_index(0), output_index(0)});
  call.give(sum_over(call.builder(), call.provenance(), along, {0}));
}

void diagonal_backward(Call& call) {
  const TensorForm gradient = call.tensor("grad_output");
  const Diagonal diagonal = diagonal_of(call, call.result_shape().size());
  on_diagonal(call, gradient, splat_form(gradient.dtype, call.result_shape(), literal_of(gradient.dtype, 0)),
              diagonal);
}

void diagonal_scatter(Call& call) {
  const TensorForm self = call.tensor("self"), source = call.tensor("src");
  on_diagonal(call, source, self, diagonal_of(call, self.shape.size()));
}

/// Puts the last dimension on a diagonal of two new ones, with zeros elsewhere.
void diag_embed(Call& call) {
  const TensorForm self = call.tensor("self");
  const std::size_t rank = call.result_shape().size();
  const Diagonal diagonal{call.wrap(call.integer("dim1", -2), rank),
                          call.wrap(call.integer("dim2", -1), rank),
                          std::max<std::int64_t>(-call.integer("offset", 0), 0),
                          std::max<std::int64_t>(call.integer("offset", 0), 0)};
  on_diagonal(call, self, splat_form(self.dtype, call.result_shape(), literal_of(self.dtype, 0)), diagonal);
}

void slice_scatter(Call& call) {
  const TensorForm self = call.tensor("self"), source = call.tensor("src");
  const std::size_t dimension = call.given("dim") ? call.dimension("dim", self.shape.size()) : 0;
  const std::int64_t start = call.integer("start", 0), step_size = call.integer("step", 1);
  if (!call.ok() || !call.require(step_size >= 1 && !self.shape.empty(), "a step below 1")) return;
  const std::int64_t size = self.shape[dimension];
  put_range(call, self, source, dimension,
            std::clamp(start < 0 ? start + size : start, std::int64_t{0}, size), step_size);
}

void select_scatter(Call& call) {
  const TensorForm self = call.tensor("self");
  TensorForm source = call.tensor("src");
  const std::size_t dimension = call.dimension("dim", std::max<std::size_t>(self.shape.size(), 1));
  const std::int64_t index = call.integer("index");
  if (!call.ok() || !call.require(source.shape.size() + 1 == self.shape.size(), "another rank")) return;
  Shape shape = source.shape;
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(dimension), 1);
  source = reshaped(call.builder(), call.provenance(), source, shape);
  put_range(call, self, source, dimension, index < 0 ? index + self.shape[dimension] : index, 1);
}

/// A dimension of a flattened tensor that is seen as digits: `size` of them from `start` on are put.
struct Digit {
  std::int64_t radix, start, size;
  std::optional<std::size_t> dimension;  ///< of the source; none for what lies within its smallest stride
};

/// The digits of flat positions, the largest stride first, and where the elements at `strides` from `offset`
/// lie in them. Each element then has a position of its own; require() fails where that is not so, or where a
/// row of them crosses into the next digit.
std::vector<Digit> digits_of(Call& call, std::int64_t count, const Shape& sizes,
                             const std::vector<std::int64_t>& strides, std::int64_t offset) {
  std::vector<std::size_t> order;
  for (std::size_t n = 0; n < sizes.size(); ++n) {
    if (sizes[n] != 1) order.push_back(n);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return strides[a] > strides[b]; });
  std::vector<Digit> digits;
  std::int64_t block = count, rest = offset;
  for (const std::size_t n : order) {
    const std::int64_t stride = strides[n];
    if (!call.require(stride > 0 && block % stride == 0, "strides that do not divide each other")) return {};
    digits.push_back({block / stride, rest / stride, sizes[n], n});
    rest %= stride;
    block = stride;
  }
  if (block > 1) digits.push_back({block, rest, 1, std::nullopt});
  for (const Digit& digit : digits) {
    if (!call.require(digit.start + digit.size <= digit.radix, "elements of more than one row")) return {};
  }
  return digits;
}

/// Puts the source in place of the elements that as_strided() would read, no two of which may be the same.
void as_strided_scatter(Call& call) {
  const TensorForm self = call.tensor("self"), source = call.tensor("src");
  const auto sizes = call.integers("size"), strides = call.integers("stride");
  const std::int64_t offset = call.integer("storage_offset", 0);
  const std::int64_t count = call.ok() ? *element_count(self.shape) : 0;
  if (!call.ok() || !call.require(sizes == source.shape && strides.size() == sizes.size() && offset >= 0 &&
                                      offset < std::max<std::int64_t>(count, 1),
                                  "strides of another tensor"))
    return;
  const std::vector<Digit> digits = digits_of(call, count, sizes, strides, offset);
  if (!call.ok() || !call.require(digits.size() <= 8, "more than eight dimensions")) return;
  Shape shape;
  std::vector<Coordinate> at(sizes.size(), constant_index(0));
  for (const Digit& digit : digits) {
    if (digit.dimension) at[*digit.dimension] = output_index(shape.size(), 1, -digit.start);
    shape.push_back(digit.radix);
  }
  LineWriter line(call.builder(), call.provenance(), shape);
  const Expression put = source.splat ? line.read(splat_form(source.dtype, {}, *source.splat))
                                      : line.read(zeros_around(call, source), at);
  std::optional<Expression> inside;
  for (std::size_t n = 0; n < digits.size(); ++n) {
    if (digits[n].size == digits[n].radix) continue;
    const Expression here = in_range(line, n, digits[n].start, digits[n].size, 1);
    inside = inside ? step(ScalarOp::kAnd, {*inside, here}) : here;
  }
  if (!inside) return call.give(line, put);
  call.give(line, select(*inside, put, line.read(reshaped(call.builder(), call.provenance(), self, shape))));
}

/// Windows of a dimension, whose elements become a new last dimension.
void unfold(Call& call) {
  const TensorForm self = call.tensor("self");
  const std::size_t dimension = call.dimension("dimension", std::max<std::size_t>(self.shape.size(), 1));
  const std::int64_t step_size = call.integer("step");
  if (!call.ok() || !call.require(!self.shape.empty(), "a scalar")) return;
  auto at = output_indices(self.shape.size());
  at[dimension].terms = {{kernels::Term::Symbol::kIndex, static_cast<std::int32_t>(dimension), step_size},
                         {kernels::Term::Symbol::kIndex, static_cast<std::int32_t>(self.shape.size()), 1}};
  call.give(remap(self, call.result_shape(), at));
}

/// The sum over the windows that hold an element.
void unfold_backward(Call& call) {
  const TensorForm gradient = call.tensor("grad_in");
  const Shape shape = call.result_shape();
  const std::size_t dimension = call.dimension("dim", std::max<std::size_t>(shape.size(), 1));
  const std::int64_t size = call.integer("size"), step_size = call.integer("step");
  if (!call.ok() || !call.require(gradient.shape.size() == shape.size() + 1, "another rank")) return;
  LineWriter line(call.builder(), call.provenance(), kernels::Kind::kSum, shape, {size});
  kernels::Access access = access_at(zeros_around(call, without_splat(call.builder(), gradient)),
                                     output_indices(gradient.shape.size()));
  Coordinate& window = access.coordinates[dimension];
  window.terms = {{kernels::Term::Symbol::kIndex, static_cast<std::int32_t>(dimension), 1},
                  {kernels::Term::Symbol::kFold, 0, -1}};
  if (step_size > 1) {
    window.division = Coordinate::Division::kExact;
    window.divisor = step_size;
  }
  access.coordinates.back() = fold_index(0);
  call.give(line.finish(DType::kF32, line.read(std::move(access), DType::kF32)));
}

void eye(Call& call) {
  if (!call.require(call.result_shape().size() == 2, "another rank")) return;
  LineWriter line(call.builder(), call.provenance(), call.result_shape());
  call.give(line, compare(ScalarOp::kEq, line.index(0), line.index(1)));
}

/// Counts from both ends, so that both are exact.
void linspace(Call& call) {
  if (!call.require(call.result_shape().size() == 1 && call.result_dtype() == DType::kF32, "integers"))
    return;
  const double start = call.number("start"), end = call.number("end");
  const std::int64_t count = call.result_shape()[0];
  const auto by = static_cast<float>(count > 1 ? (end - start) / static_cast<double>(count - 1) : 0);
  LineWriter line(call.builder(), call.provenance(), call.result_shape());
  const Expression n = line.index(0);
  const Expression left = step(ScalarOp::kSub, {Expression(count - 1), n});
  call.give(line, select(compare(ScalarOp::kLt, n, (count + 1) / 2),
                         fma(to_float(n), by, static_cast<float>(start)),
                         fma(to_float(left), -by, static_cast<float>(end))));
}

/// Parts of tensors, put together and moved.
constexpr LoweringRow kRows[] = {
    {"tril", &tril},
    {"triu", &triu},
    {"roll", &roll},
    {"repeat", &repeat},
    {"diagonal", &diagonal},
    {"trace", &trace},
    {"diagonal_backward", &diagonal_backward},
    {"diagonal_scatter", &diagonal_scatter},
    {"diag_embed", &diag_embed},
    {"slice_scatter", &slice_scatter},
    {"select_scatter", &select_scatter},
    {"as_strided_scatter", &as_strided_scatter},
    {"unfold", &unfold},
    {"unfold_backward", &unfold_backward},
    {"eye", &eye},
    {"linspace", &linspace},
};

}  // namespace

const std::span<const LoweringRow> kPieceRows = kRows;

}  // namespace dgx::lowering
