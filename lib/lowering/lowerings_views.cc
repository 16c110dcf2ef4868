#include <fmt/format.h>

#include <algorithm>

#include "pointwise.h"

namespace dgx::lowering {

using kernels::Coordinate;
using kernels::ScalarOp;

namespace {

/// The form with dimension d read at `index` and the others as they are.
TensorForm with_index(const TensorForm& form, Shape shape, std::size_t dimension, const Coordinate& index) {
  auto indices = output_indices(form.shape.size());
  indices[dimension] = index;
  return remap(form, std::move(shape), indices);
}

TensorForm range_of(const TensorForm& form, std::size_t dimension, std::int64_t start, std::int64_t length,
                    std::int64_t step = 1) {
  Shape shape = form.shape;
  shape[dimension] = length;
  return with_index(form, std::move(shape), dimension, output_index(dimension, step, start));
}

/// The form with dimension `dimension` fixed at `index` and dropped.
TensorForm taken(const TensorForm& form, std::size_t dimension, std::int64_t index) {
  Shape shape = form.shape;
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(dimension));
  std::vector<Coordinate> indices;
  for (std::size_t n = 0; n < form.shape.size(); ++n) {
    indices.push_back(n == dimension ? constant_index(index) : output_index(n < dimension ? n : n - 1));
  }
  return remap(form, std::move(shape), indices);
}

TensorForm permuted(const TensorForm& form, const std::vector<std::size_t>& order) {
  Shape shape;
  std::vector<Coordinate> indices(order.size());
  for (std::size_t n = 0; n < order.size(); ++n) {
    shape.push_back(form.shape[order[n]]);
    indices[order[n]] = output_index(n);
  }
  return remap(form, std::move(shape), indices);
}

std::int64_t clamped(std::int64_t index, std::int64_t size) {
  return std::clamp(index < 0 ? index + size : index, std::int64_t{0}, size);
}

void constant(Call& call, double number) {
  call.give(splat_form(call.result_dtype(), call.result_shape(), literal_of(call.result_dtype(), number)));
}

/// Most parts in one map: each costs two steps, an access and their text.
constexpr std::size_t kMaxParts = 24;

/// Joins the parts along a dimension, in one map that selects by index.
TensorForm joined_few(Call& call, const std::vector<TensorForm>& parts, std::size_t dimension) {
  if (parts.size() == 1) return parts[0];
  Shape shape = parts[0].shape;
  shape[dimension] = 0;
  for (const TensorForm& part : parts) shape[dimension] += part.shape[dimension];
  LineWriter line(call.builder(), call.provenance(), shape);
  std::int64_t start = 0;
  std::vector<std::pair<std::int64_t, Expression>> pieces;
  for (const TensorForm& part : parts) {
    Expression piece = 0.0F;
    if (part.splat) {
      piece = line.read(splat_form(part.dtype, {}, *part.splat));
    } else {
      auto indices = output_indices(part.shape.size());
      indices[dimension] = output_index(dimension, 1, -start);
      piece = line.read(zeros_around(call, part), indices);
    }
    start += part.shape[dimension];
    pieces.emplace_back(start, piece);
  }
  Expression result = pieces.back().second;
  for (std::size_t n = pieces.size() - 1; n-- > 0;) {
    result = select(compare(ScalarOp::kLt, line.index(dimension), pieces[n].first), pieces[n].second, result);
  }
  return line.finish(call.result_dtype(), result);
}

/// Joins many parts in groups, and the groups likewise.
void joined(Call& call, std::vector<TensorForm> parts, std::size_t dimension) {
  std::erase_if(parts, [&](const TensorForm& part) { return part.shape[dimension] == 0; });
  if (!call.require(!parts.empty(), "no parts")) return;
  while (parts.size() > kMaxParts) {
    std::vector<TensorForm> groups;
    for (std::size_t begin = 0; begin < parts.size(); begin += kMaxParts) {
      const auto first = parts.begin() + static_cast<std::ptrdiff_t>(begin);
      const auto count = static_cast<std::ptrdiff_t>(std::min(kMaxParts, parts.size() - begin));
      groups.push_back(joined_few(call, {first, first + count}, dimension));
    }
    parts = std::move(groups);
  }
  call.give(joined_few(call, parts, dimension));
}

void alias(Call& call) { call.give(call.tensor("self")); }

/// view, flatten, squeeze, unsqueeze, …: the result's shape says everything.
void reshape(Call& call) {
  const TensorForm form = call.tensor("self");
  if (call.ok()) call.give(form);
}

/// The elements of the flattened tensor at strides. The recorder takes it of dense tensors alone, whose
/// memory is their elements in order.
void as_strided(Call& call) {
  const TensorForm form = call.tensor("self");
  const auto sizes = call.integers("size"), strides = call.integers("stride");
  const std::int64_t offset = call.integer("storage_offset", 0);
  if (!call.ok() || !call.require(sizes == call.result_shape() && strides.size() == sizes.size(),
                                  "strides of another rank"))
    return;
  const std::int64_t count = *element_count(form.shape);
  Coordinate at = constant_index(offset);
  std::int64_t last = offset;
  for (std::size_t n = 0; n < sizes.size(); ++n) {
    if (sizes[n] == 1 || strides[n] == 0) continue;
    if (!call.require(strides[n] > 0 && strides[n] < count && last >= 0, "a negative stride or offset"))
      return;
    at.terms.push_back({kernels::Term::Symbol::kIndex, static_cast<std::int32_t>(n), strides[n]});
    last += (sizes[n] - 1) * strides[n];
    if (!call.require(last < count, "elements outside the tensor")) return;
  }
  if (!call.require(offset >= 0 && last < count, "elements outside the tensor")) return;
  call.give(remap(reshaped(call.builder(), call.provenance(), form, {count}), call.result_shape(), {at}));
}

void transpose_two(Call& call) {
  const TensorForm form = call.tensor("self");
  if (!call.require(form.shape.size() <= 2, "more than two dimensions")) return;
  call.give(form.shape.size() == 2 ? permuted(form, {1, 0}) : form);
}

void transpose(Call& call) {
  const TensorForm form = call.tensor("self");
  const std::size_t first = call.dimension("dim0", form.shape.size()),
                    second = call.dimension("dim1", form.shape.size());
  if (!call.ok()) return;
  std::vector<std::size_t> order;
  for (std::size_t n = 0; n < form.shape.size(); ++n) order.push_back(n);
  std::swap(order[first], order[second]);
  call.give(permuted(form, order));
}

void permute(Call& call) {
  const TensorForm form = call.tensor("self");
  std::vector<std::size_t> order;
  for (const std::int64_t dimension : call.integers("dims"))
    order.push_back(call.wrap(dimension, form.shape.size()));
  if (!call.require(order.size() == form.shape.size(), "a permutation of another rank")) return;
  call.give(permuted(form, order));
}

/// expand, and copy(self, src): the source broadcast to the result.
void expand(Call& call) {
  const TensorForm form = call.tensor(call.has("src") ? "src" : "self");
  if (!call.ok() ||
      !call.require(broadcasts(form.shape, call.result_shape()), "shapes that do not broadcast"))
    return;
  call.give(broadcast_to(form, call.result_shape()));
}

void select(Call& call) {
  const TensorForm form = call.tensor("self");
  const std::size_t dimension = call.dimension("dim", form.shape.size());
  const std::int64_t index = call.integer("index");
  if (!call.ok()) return;
  const std::int64_t size = form.shape[dimension];
  if (!call.require(index >= -size && index < size, "an index outside")) return;
  call.give(taken(form, dimension, index < 0 ? index + size : index));
}

void slice(Call& call) {
  const TensorForm form = call.tensor("self");
  const std::size_t dimension = call.given("dim") ? call.dimension("dim", form.shape.size()) : 0;
  const std::int64_t start = call.integer("start", 0), step = call.integer("step", 1);
  if (!call.ok() ||
      !call.require(step >= 1 && call.result_shape().size() == form.shape.size(), "a step below 1"))
    return;
  call.give(
      range_of(form, dimension, clamped(start, form.shape[dimension]), call.result_shape()[dimension], step));
}

void slice_backward(Call& call) {
  const Shape shape = call.result_shape();
  const Pieces* const pieces = call.pieces("grad_output");
  if (pieces && pieces->pieces[0].form.shape == shape) return call.give_pieces(*pieces);
  const TensorForm gradient = call.tensor("grad_output");
  const std::size_t dimension = call.dimension("dim", shape.size());
  const std::int64_t start = call.integer("start", 0), step = call.integer("step", 1);
  if (!call.ok() || !call.require(step >= 1 && gradient.shape.size() == shape.size(), "a step below 1"))
    return;
  if (gradient.shape == shape) return call.give(gradient);
  const std::int64_t begin = clamped(start, shape[dimension]);
  TensorForm form =
      with_index(zeros_around(call, gradient), shape, dimension, output_index(dimension, 1, -begin));
  if (step > 1) {
    form.coordinates[dimension].division = Coordinate::Division::kExact;
    form.coordinates[dimension].divisor = step;
  } else {
    call.give_pieces({dimension, {{begin, begin + gradient.shape[dimension], form}}});
  }
  call.give(form);
}

void select_backward(Call& call) {
  const TensorForm gradient = call.tensor("grad_output");
  const Shape shape = call.result_shape();
  const std::size_t dimension = call.dimension("dim", shape.size());
  const std::int64_t index = call.integer("index");
  if (!call.ok() || !call.require(gradient.shape.size() + 1 == shape.size(), "another rank")) return;
  Shape kept = shape;
  kept[dimension] = 1;
  const TensorForm whole = reshaped(call.builder(), call.provenance(),
                                    materialise(call.builder(), call.provenance(), gradient), kept);
  TensorForm form = whole;
  form.fill = literal_of(gradient.dtype, 0);
  const std::int64_t begin = index < 0 ? index + shape[dimension] : index;
  form = with_index(form, shape, dimension, output_index(dimension, 1, -begin));
  call.give_pieces({dimension, {{begin, begin + 1, form}}});
  call.give(form);
}

void flip(Call& call) {
  TensorForm form = call.tensor("self");
  for (const std::int64_t listed : call.integers("dims")) {
    const std::size_t dimension = call.wrap(listed, form.shape.size());
    if (!call.ok()) return;
    form = with_index(form, form.shape, dimension, output_index(dimension, -1, form.shape[dimension] - 1));
  }
  call.give(form);
}

void split(Call& call) {
  const TensorForm form = call.tensor("self");
  const std::size_t dimension = call.dimension("dim", form.shape.size());
  const std::int64_t size = call.integer("split_size");
  if (!call.ok() || !call.require(size >= 1, "parts of no size")) return;
  std::size_t part = 0;
  for (std::int64_t start = 0; start < form.shape[dimension]; start += size) {
    call.give(range_of(form, dimension, start, std::min(size, form.shape[dimension] - start)), part++);
  }
}

void split_with_sizes(Call& call) {
  const TensorForm form = call.tensor("self");
  const std::size_t dimension = call.dimension("dim", form.shape.size());
  std::int64_t start = 0;
  std::size_t part = 0;
  for (const std::int64_t size : call.integers("split_sizes")) {
    if (!call.ok()) return;
    call.give(range_of(form, dimension, start, size), part++);
    start += size;
  }
}

void unbind(Call& call) {
  const TensorForm form = call.tensor("self");
  const std::size_t dimension = call.given("dim") ? call.dimension("dim", form.shape.size()) : 0;
  if (!call.ok() || !call.require(!form.shape.empty(), "a scalar")) return;
  for (std::int64_t n = 0; n < form.shape[dimension]; ++n)
    call.give(taken(form, dimension, n), static_cast<std::size_t>(n));
}

void cat(Call& call) {
  std::vector<TensorForm> parts = call.tensors("tensors");
  const std::size_t rank = call.result_shape().size();
  const std::size_t dimension = call.given("dim") ? call.dimension("dim", rank) : 0;
  if (!call.ok()) return;
  for (const TensorForm& part : parts) {
    if (!call.require(part.shape.size() == rank, "parts of other ranks")) return;
  }
  joined(call, parts, dimension);
}

void stack(Call& call) {
  std::vector<TensorForm> parts = call.tensors("tensors");
  const std::size_t dimension = call.given("dim") ? call.dimension("dim", call.result_shape().size()) : 0;
  if (!call.ok()) return;
  for (TensorForm& part : parts) {
    Shape shape = part.shape;
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(dimension), 1);
    part = reshaped(call.builder(), call.provenance(), part, shape);
  }
  joined(call, parts, dimension);
}

void filled(Call& call) {
  const char* name = call.has("fill_value") ? "fill_value" : call.has("value") ? "value" : "s";
  const TensorForm form = call.number_or_tensor(name);
  if (const auto number = splat_number(form); number && call.ok()) return constant(call, *number);
  Pointwise map(call);
  map.out(map.read(form, name));
}

void zeros(Call& call) { constant(call, 0); }
void ones(Call& call) { constant(call, 1); }

void arange(Call& call) {
  const double start = call.number("start", 0), step = call.number("step", 1);
  if (!call.require(call.result_shape().size() == 1, "not one dimension")) return;
  LineWriter line(call.builder(), call.provenance(), call.result_shape());
  if (call.result_dtype() == DType::kF32) {
    return call.give(line, fma(to_float(line.index(0)), static_cast<float>(step), static_cast<float>(start)));
  }
  call.give(line, line.index(0) * static_cast<std::int64_t>(step) + static_cast<std::int64_t>(start));
}

/// A change of dtype. u8 also stands for torch's bool, which is converted differently from numbers.
void convert(Call& call) {
  const TensorForm form = call.tensor("self");
  if (call.result_is_boolean() && !call.is_boolean("self")) {
    Pointwise map(call);
    const Expression x = map.in("self");
    const bool is_float = x.type == kernels::NumberType::kFloat;
    return map.out(compare(ScalarOp::kNe, x, is_float ? Expression(0.0F) : Expression(std::int64_t{0})));
  }
  if (form.dtype == call.result_dtype()) return call.give(form);
  if (!call.require(call.result_dtype() != DType::kU8, fmt::format("{} to u8 or bool", name_of(form.dtype))))
    return;
  Pointwise map(call);
  map.out(map.in("self"));
}

/// Views, parts and filled tensors: no work, or a copy.
constexpr LoweringRow kRows[] = {
    {"alias detach clone contiguous lift_fresh lift", &alias},
    {"view reshape _unsafe_view _reshape_alias flatten unflatten squeeze unsqueeze", &reshape},
    {"as_strided", &as_strided},
    {"t numpy_T", &transpose_two},
    {"transpose", &transpose},
    {"permute", &permute},
    {"expand expand_as copy", &expand},
    {"select", &select},
    {"slice", &slice},
    {"slice_backward", &slice_backward},
    {"select_backward", &select_backward},
    {"flip", &flip},
    {"split", &split},
    {"split_with_sizes", &split_with_sizes},
    {"unbind", &unbind},
    {"cat", &cat},
    {"stack", &stack},
    {"_to_copy to", &convert},
    {"full full_like new_full scalar_tensor fill", &filled},
    {"zeros zeros_like new_zeros empty empty_like empty_strided empty_permuted new_empty new_empty_strided",
     &zeros},
    {"ones ones_like new_ones", &ones},
    {"arange", &arange},
    {"unsafe_split", &split},
    {"unsafe_split_with_sizes", &split_with_sizes},
};

}  // namespace

const std::span<const LoweringRow> kViewRows = kRows;

}  // namespace dgx::lowering
