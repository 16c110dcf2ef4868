#pragma once

#include <optional>
#include <string>
#include <vector>

#include "builder.h"
#include "tensor_form.h"

namespace dgx::lowering {

/// A tensor that is 0 outside ranges of one dimension: the gradient of a slice or a select, or a sum of such
/// gradients.
///
/// A loop over x[:,t] leaves a gradient for each t, as large as x and mostly 0, and T - 1 sums of them. Kept
/// as pieces, sums of disjoint ones are one map that selects by index.
struct Pieces {
  struct Piece {
    std::int64_t begin = 0, end = 0;  ///< [begin, end)
    TensorForm form;                  ///< a form of the whole tensor's shape; reads 0 outside the range
  };
  std::size_t dimension = 0;
  std::vector<Piece> pieces;  ///< in ascending order, disjoint
};

/// a + b, or nullopt if they are not along one dimension or overlap.
[[nodiscard]] std::optional<Pieces> sum_of_disjoint(const Pieces& a, const Pieces& b);

/// The whole tensor, put together from its pieces.
[[nodiscard]] TensorForm whole(Builder& builder, const std::string& provenance, const Pieces& pieces);

}  // namespace dgx::lowering
