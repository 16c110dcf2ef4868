#include "tensor_form.h"

#include <algorithm>
#include <map>

namespace dgx::lowering {

using kernels::Access;
using kernels::Coordinate;
using kernels::Literal;
using kernels::Term;

namespace {

/// `coordinate` with iN replaced by indices[N], in normal form (line.h).
Coordinate substitute(const Coordinate& coordinate, const std::vector<Coordinate>& indices) {
  std::map<std::pair<Term::Symbol, std::int32_t>, std::int64_t> sum;
  Coordinate result;
  result.constant = coordinate.constant;
  for (const Term& outer : coordinate.terms) {
    const Coordinate& index = indices[static_cast<std::size_t>(outer.index)];
    result.constant += outer.coefficient * index.constant;
    for (const Term& inner : index.terms)
      sum[{inner.symbol, inner.index}] += outer.coefficient * inner.coefficient;
  }
  for (const auto& [symbol, coefficient] : sum) {
    if (coefficient != 0) result.terms.push_back({symbol.first, symbol.second, coefficient});
  }
  result.division = coordinate.division;
  result.divisor = coordinate.divisor;
  return result;
}

/// Row-major strides of the dimensions [begin, end) of `shape`.
std::vector<std::int64_t> strides_of(const Shape& shape, std::size_t begin, std::size_t end) {
  std::vector<std::int64_t> strides(end - begin, 1);
  for (std::size_t n = end - begin; n-- > 1;) strides[n - 1] = strides[n] * shape[begin + n];
  return strides;
}

/// Each old index as a sum of new ones, if every old dimension is one new dimension or is split into several;
/// else nullopt.
std::optional<std::vector<Coordinate>> split_indices(const Shape& from, const Shape& to) {
  std::vector<Coordinate> indices;
  std::size_t at = 0;
  for (const std::int64_t size : from) {
    const std::size_t begin = at;
    std::int64_t product = 1;
    while (product < size && at < to.size()) product *= to[at++];
    if (product != size) return std::nullopt;
    Coordinate index;
    const auto strides = strides_of(to, begin, at);
    for (std::size_t n = 0; n < strides.size(); ++n) {
      if (to[begin + n] != 1)
        index.terms.push_back({Term::Symbol::kIndex, static_cast<std::int32_t>(begin + n), strides[n]});
    }
    indices.push_back(std::move(index));
  }
  return indices;
}

}  // namespace

kernels::Literal literal_of(DType dtype, double number) {
  return dtype == DType::kF32 ? kernels::Literal(static_cast<float>(number))
                              : kernels::Literal(static_cast<std::int64_t>(number));
}

Coordinate constant_index(std::int64_t value) { return {{}, value, Coordinate::Division::kNone, 1}; }

Coordinate output_index(std::size_t n, std::int64_t scale, std::int64_t shift) {
  return {
      {{Term::Symbol::kIndex, static_cast<std::int32_t>(n), scale}}, shift, Coordinate::Division::kNone, 1};
}

Coordinate fold_index(std::size_t n) {
  return {{{Term::Symbol::kFold, static_cast<std::int32_t>(n), 1}}, 0, Coordinate::Division::kNone, 1};
}

std::vector<Coordinate> output_indices(std::size_t rank) {
  std::vector<Coordinate> indices;
  for (std::size_t n = 0; n < rank; ++n) indices.push_back(output_index(n));
  return indices;
}

TensorForm splat_form(DType dtype, Shape shape, Literal number) {
  TensorForm form;
  form.dtype = dtype;
  form.shape = std::move(shape);
  form.splat = number;
  return form;
}

TensorForm value_form(kernels::ValueIndex value, DType dtype, Shape shape) {
  TensorForm form;
  form.dtype = dtype;
  form.coordinates = output_indices(shape.size());
  form.value_shape = shape;
  form.base = shape;
  form.shape = std::move(shape);
  form.value = value;
  return form;
}

Access access_at(const TensorForm& form, const std::vector<Coordinate>& indices) {
  Access access;
  access.value = form.value;
  if (form.base != form.value_shape) access.view = form.base;
  access.fill = form.fill;
  for (const Coordinate& coordinate : form.coordinates) {
    Coordinate composed = substitute(coordinate, indices);
    // A division without terms has no spelling, so it is settled here; a miss becomes a coordinate outside.
    if (composed.terms.empty() && composed.division != Coordinate::Division::kNone) {
      const bool misses = composed.constant < 0 || (composed.division == Coordinate::Division::kExact &&
                                                    composed.constant % composed.divisor != 0);
      composed = constant_index(misses ? -1 : composed.constant / composed.divisor);
    }
    access.coordinates.push_back(std::move(composed));
  }
  return access;
}

TensorForm remap(const TensorForm& form, Shape shape, const std::vector<Coordinate>& indices) {
  TensorForm result = form;
  result.shape = std::move(shape);
  if (!form.splat) result.coordinates = access_at(form, indices).coordinates;
  return result;
}

bool broadcasts(const Shape& from, const Shape& to) {
  if (from.size() > to.size()) return false;
  const std::size_t offset = to.size() - from.size();
  for (std::size_t n = 0; n < from.size(); ++n) {
    if (from[n] != 1 && from[n] != to[n + offset]) return false;
  }
  return true;
}

TensorForm broadcast_to(const TensorForm& form, const Shape& shape) {
  std::vector<Coordinate> indices;
  const std::size_t offset = shape.size() - form.shape.size();
  for (std::size_t n = 0; n < form.shape.size(); ++n) {
    indices.push_back(form.shape[n] == 1 ? constant_index(0) : output_index(n + offset));
  }
  return remap(form, shape, indices);
}

bool is_contiguous(const TensorForm& form) {
  if (form.splat || form.fill || form.base != form.shape) return false;
  for (std::size_t n = 0; n < form.shape.size(); ++n) {
    const bool single = form.shape[n] == 1 && form.coordinates[n] == constant_index(0);
    if (!single && form.coordinates[n] != output_index(n)) return false;
  }
  return true;
}

std::optional<TensorForm> reshape(const TensorForm& form, const Shape& shape) {
  if (form.shape == shape) return form;
  const auto from = element_count(form.shape), to = element_count(shape);
  if (!from.ok() || !to.ok() || *from != *to) return std::nullopt;
  if (form.splat) return splat_form(form.dtype, shape, *form.splat);
  // A view has at least one dimension (dgx-program(5), "Accesses"), so a scalar reads the one element where
  // it is.
  if (is_contiguous(form) && !shape.empty()) {
    TensorForm result = form;
    result.shape = shape;
    result.base = shape;
    result.coordinates = output_indices(shape.size());
    return result;
  }
  // Dimensions of one element carry no index: once the old ones are dropped, only splits and merges are left.
  Shape kept;
  std::vector<std::size_t> kept_dimensions;
  for (std::size_t n = 0; n < form.shape.size(); ++n) {
    if (form.shape[n] == 1) continue;
    kept.push_back(form.shape[n]);
    kept_dimensions.push_back(n);
  }
  const auto split = split_indices(kept, shape);
  if (!split) return std::nullopt;
  std::vector<Coordinate> indices(form.shape.size(), constant_index(0));
  for (std::size_t n = 0; n < kept.size(); ++n) indices[kept_dimensions[n]] = (*split)[n];
  return remap(form, shape, indices);
}

Reduction reduction_over(const Shape& shape, const std::vector<std::size_t>& dimensions) {
  Reduction result;
  for (std::size_t n = 0; n < shape.size(); ++n) {
    const bool summed = std::find(dimensions.begin(), dimensions.end(), n) != dimensions.end();
    result.restored_shape.push_back(summed ? 1 : shape[n]);
    if (shape[n] == 1) {
      result.indices.push_back(constant_index(0));
    } else if (summed) {
      result.indices.push_back(fold_index(result.fold.size()));
      result.fold.push_back(shape[n]);
    } else {
      result.indices.push_back(output_index(result.shape.size()));
    }
    if (!summed) result.shape.push_back(shape[n]);
  }
  return result;
}

TensorForm Reduction::restored(const TensorForm& value) const {
  // Kept dimensions are those of restored_shape in order; a kept one of size 1 may stand for any of size 1.
  std::vector<Coordinate> back;
  std::size_t at = 0;
  for (const std::int64_t size : shape) {
    if (size == 1) {
      back.push_back(constant_index(0));
      continue;
    }
    while (restored_shape[at] == 1) ++at;
    back.push_back(output_index(at++));
  }
  return remap(value, restored_shape, back);
}

}  // namespace dgx::lowering
