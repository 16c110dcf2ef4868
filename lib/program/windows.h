#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dgx/program/builder.h"
#include "tensor_form.h"

namespace dgx::program {

/// iN and kN with their coefficients, for affine().
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
/// `dividend` divided exactly, or rounded down; by 1: as it is.
[[nodiscard]] kernels::Coordinate exactly_divided(kernels::Coordinate dividend, std::int64_t divisor);
[[nodiscard]] kernels::Coordinate floor_divided(kernels::Coordinate dividend, std::int64_t divisor);
/// `$j`: what access j reads.
[[nodiscard]] kernels::Coordinate read_by(std::size_t access);

/// The tensor in a form whose outside is its value's outside, so that padding can be a fill: each coordinate
/// is an index of its own. A copy where it is not so already.
[[nodiscard]] TensorForm whole_form(Builder& builder, const std::string& provenance, const TensorForm& form);
/// The same in another shape of equal count.
[[nodiscard]] TensorForm whole_form(Builder& builder, const std::string& provenance, const TensorForm& form,
                                    const Shape& shape);

/// The access to a whole form at coordinates that may be outside it and may be divided; `fill` is dropped
/// where no index reaches the outside.
[[nodiscard]] kernels::Access window_access(const TensorForm& whole,
                                            const std::vector<kernels::Coordinate>& at,
                                            const Shape& iteration, const Shape& fold, kernels::Literal fill);

/// The 2 of "aten::avg_pool2d".
[[nodiscard]] std::size_t spatial_rank(std::string_view name);
/// Entry n of an option that may be given once for all dimensions, or not at all.
[[nodiscard]] std::int64_t option(const std::vector<std::int64_t>& list, std::size_t n,
                                  std::int64_t otherwise);

/// How a window moves along one dimension: output o reads input positions stride·o + dilation·k − padding, k
/// below size.
struct Window {
  std::int64_t size = 1, stride = 1, padding = 0, dilation = 1;

  /// The input position, o and k being these indices.
  [[nodiscard]] kernels::Coordinate position(const Scaled& output, const Scaled& offset) const;
  /// The output that reads the input position at `offset`: exact division says whether there is one.
  [[nodiscard]] kernels::Coordinate output_of(std::size_t position, std::size_t offset) const;
  /// Each position is in one window at most.
  [[nodiscard]] bool is_disjoint() const { return dilation == 1 && size <= stride; }
};

}  // namespace dgx::program
