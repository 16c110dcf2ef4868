#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "plan.h"

namespace dgx::exec {

/// A map whose elements come from one access or another by where one of its indices lies, as torch.cat makes them: steps that compare
/// that index with numbers (`lt`), and selects between accesses.
struct Concatenation {
  struct Piece {
    std::int64_t begin = 0, end = 0;  ///< indices of the dimension
    std::size_t access = 0;
  };
  std::size_t dimension = 0;
  std::vector<Piece> pieces;  ///< in order; together all of the dimension
};

/// Nullopt for a line of another form.
[[nodiscard]] std::optional<Concatenation> concatenation_of(const kernels::Primitive& line);

/// What a piece is alone: a map of its own part of the iteration, which copies. An access that is linear there has no fill.
[[nodiscard]] kernels::Primitive line_of_piece(const kernels::Primitive& line, const Concatenation& whole, const Concatenation::Piece& piece);

/// Nullopt for a line of another form, and for one whose pieces are no long runs: as a map it is not slower. `types`: of all values.
[[nodiscard]] std::optional<ConcatenationTask> recognise_concatenation(kernels::ValueIndex value, const kernels::Primitive& line,
                                                                       std::span<const kernels::ValueType> types);

}  // namespace dgx::exec
