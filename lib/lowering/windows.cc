#include "windows.h"

#include <algorithm>

#include "lowering.h"

namespace dgx::lowering {

using kernels::Access;
using kernels::Coordinate;
using kernels::Term;
using Division = Coordinate::Division;

namespace {

Coordinate divided(Coordinate dividend, std::int64_t divisor, Division division) {
  if (divisor == 1) return dividend;
  dividend.division = division;
  dividend.divisor = divisor;
  return dividend;
}

/// True if each coordinate is an index of its own, over the whole of its dimension.
bool is_permuted_whole(const TensorForm& form) {
  if (form.splat || form.fill || form.coordinates.size() != form.shape.size()) return false;
  std::vector<bool> seen(form.shape.size(), false);
  for (std::size_t n = 0; n < form.coordinates.size(); ++n) {
    const Coordinate& coordinate = form.coordinates[n];
    if (coordinate.terms.size() != 1) return false;
    const auto index = static_cast<std::size_t>(coordinate.terms[0].index);
    if (coordinate != output_index(index) || seen[index] || form.base[n] != form.shape[index]) return false;
    seen[index] = true;
  }
  return true;
}

bool may_be_outside(const Coordinate& coordinate, std::int64_t size, const Shape& iteration,
                    const Shape& fold) {
  std::int64_t low = coordinate.constant, high = low;
  for (const Term& term : coordinate.terms) {
    if (term.symbol == Term::Symbol::kAccess) return true;
    const Shape& sizes = term.symbol == Term::Symbol::kIndex ? iteration : fold;
    const std::int64_t most = term.coefficient * (sizes[static_cast<std::size_t>(term.index)] - 1);
    (most < 0 ? low : high) += most;
  }
  return coordinate.division == Division::kExact || low < 0 || high >= size * coordinate.divisor;
}

}  // namespace

Coordinate affine(const std::vector<Scaled>& terms, std::int64_t constant) {
  Coordinate result = constant_index(constant);
  for (const Scaled& term : terms)
    result.terms.push_back({term.symbol, static_cast<std::int32_t>(term.index), term.coefficient});
  std::sort(result.terms.begin(), result.terms.end(), [](const Term& a, const Term& b) {
    return std::pair(a.symbol, a.index) < std::pair(b.symbol, b.index);
  });
  return result;
}

Coordinate exactly_divided(Coordinate dividend, std::int64_t divisor) {
  return divided(std::move(dividend), divisor, Division::kExact);
}

Coordinate floor_divided(Coordinate dividend, std::int64_t divisor) {
  return divided(std::move(dividend), divisor, Division::kFloor);
}

Coordinate read_by(std::size_t access) {
  return {{{Term::Symbol::kAccess, static_cast<std::int32_t>(access), 1}}, 0, Division::kNone, 1};
}

TensorForm whole_form(Builder& builder, const std::string& provenance, const TensorForm& form) {
  if (is_permuted_whole(form)) return form;
  TensorForm whole = is_contiguous(form) ? form : materialise(builder, provenance, form);
  // A dimension of 1 may be written as the constant 0, which has no outside.
  whole.coordinates = output_indices(whole.shape.size());
  return whole;
}

TensorForm whole_form(Builder& builder, const std::string& provenance, const TensorForm& form,
                      const Shape& shape) {
  if (form.shape == shape) return whole_form(builder, provenance, form);
  TensorForm whole = is_contiguous(form) ? form : materialise(builder, provenance, form);
  whole.shape = whole.base = shape;
  whole.coordinates = output_indices(shape.size());
  return whole;
}

Access window_access(const TensorForm& whole, const std::vector<Coordinate>& at, const Shape& iteration,
                     const Shape& fold, kernels::Literal fill) {
  Access access;
  access.value = whole.value;
  if (whole.base != whole.value_shape) access.view = whole.base;
  bool needs_fill = false;
  for (std::size_t n = 0; n < whole.base.size(); ++n) {
    const Coordinate& coordinate = at[static_cast<std::size_t>(whole.coordinates[n].terms[0].index)];
    needs_fill = needs_fill || may_be_outside(coordinate, whole.base[n], iteration, fold);
    access.coordinates.push_back(coordinate);
  }
  if (needs_fill) access.fill = fill;
  return access;
}

std::size_t spatial_rank(std::string_view name) {
  for (const char rank : {'1', '2', '3'}) {
    if (name.find(std::string{rank, 'd'}) != std::string_view::npos)
      return static_cast<std::size_t>(rank - '0');
  }
  return 0;
}

std::int64_t option(const std::vector<std::int64_t>& list, std::size_t n, std::int64_t otherwise) {
  if (list.empty()) return otherwise;
  return list[list.size() == 1 ? 0 : std::min(n, list.size() - 1)];
}

Coordinate Window::position(const Scaled& output, const Scaled& offset) const {
  Scaled scaled_output = output, scaled_offset = offset;
  scaled_output.coefficient *= stride;
  scaled_offset.coefficient *= dilation;
  return affine({scaled_output, scaled_offset}, -padding);
}

Coordinate Window::output_of(std::size_t position, std::size_t offset) const {
  return exactly_divided(affine({output_term(position), fold_term(offset, -dilation)}, padding), stride);
}

}  // namespace dgx::lowering
