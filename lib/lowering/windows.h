#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "builder.h"
#include "tensor_form.h"

namespace dgx::lowering {

/// A term of affine(): iN or kN with its coefficient.
struct Scaled {
  kernels::Term::Symbol symbol;
  std::size_t index;
  std::int64_t coefficient = 1;
};
[[nodiscard]] inline Scaled output_term(std::size_t n, std::int64_t coefficient = 1) {
  return {kernels::Term::Symbol::kIndex, n, coefficient};
}
[[nodiscard]] inline Scaled fold_term(std::size_t n, std::int64_t coefficient = 1) {
  return {kernels::Term::Symbol::kFold, n, coefficient};
}

/// The sum of the terms and a constant.
[[nodiscard]] kernels::Coordinate affine(const std::vector<Scaled>& terms, std::int64_t constant);
/// `dividend` divided exactly, or rounded down; a divisor of 1 leaves it as it is.
[[nodiscard]] kernels::Coordinate exactly_divided(kernels::Coordinate dividend, std::int64_t divisor);
[[nodiscard]] kernels::Coordinate floor_divided(kernels::Coordinate dividend, std::int64_t divisor);
/// `$j`: the integer that access j reads.
[[nodiscard]] kernels::Coordinate read_by(std::size_t access);

/// The tensor in a form whose outside is its value's outside, so that padding can be a fill: each coordinate
/// is an index of its own. A copy if it is not so already.
[[nodiscard]] TensorForm whole_form(Builder& builder, const std::string& provenance, const TensorForm& form);
/// whole_form() in another shape of equal count.
[[nodiscard]] TensorForm whole_form(Builder& builder, const std::string& provenance, const TensorForm& form,
                                    const Shape& shape);

/// The access to a whole form at coordinates that may be outside it and may be divided; `fill` is dropped if
/// no index reaches the outside.
[[nodiscard]] kernels::Access window_access(const TensorForm& whole,
                                            const std::vector<kernels::Coordinate>& at,
                                            const Shape& iteration, const Shape& fold, kernels::Literal fill);

/// The number of spatial dimensions in an op's name: the 2 of "aten::avg_pool2d".
[[nodiscard]] std::size_t spatial_rank(std::string_view name);
/// Entry n of an option that may be given per dimension, once for all dimensions, or not at all.
[[nodiscard]] std::int64_t option(const std::vector<std::int64_t>& list, std::size_t n,
                                  std::int64_t otherwise);

/// The movement of a window along one dimension: output o reads input positions stride·o + dilation·k −
/// padding, k below size.
struct Window {
  std::int64_t size = 1, stride = 1, padding = 0, dilation = 1;

  /// The input position at these output and offset indices.
  [[nodiscard]] kernels::Coordinate position(const Scaled& output, const Scaled& offset) const;
  /// The output that reads the input position at `offset`; its exact division misses if there is none.
  [[nodiscard]] kernels::Coordinate output_of(std::size_t position, std::size_t offset) const;
  /// True if each position is in at most one window.
  [[nodiscard]] bool is_disjoint() const { return dilation == 1 && size <= stride; }
};

}  // namespace dgx::lowering
