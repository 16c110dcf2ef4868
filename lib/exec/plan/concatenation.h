#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plan/operation.h"

namespace dgx::exec {

/// A map that copies one of several accesses, chosen by the range that one of its indices is in, as torch.cat
/// does: its steps compare that index with constants (`lt`) and select between accesses.
struct ConcatenationForm {
  struct Piece {
    std::int64_t begin = 0, end = 0;  ///< indices of the dimension
    std::size_t access = 0;
  };
  std::size_t dimension = 0;
  std::vector<Piece> pieces;  ///< in order; together they cover the dimension
};

/// Nullopt for a line of another form.
[[nodiscard]] std::optional<ConcatenationForm> concatenation_of(const kernels::Primitive& line);

/// One piece as a line of its own: a map that copies the piece's part of the iteration. Its access loses its
/// fill: only an access that is inside throughout the piece is compiled to a linear one.
[[nodiscard]] kernels::Primitive line_of_piece(const kernels::Primitive& line, const ConcatenationForm& whole,
                                               const ConcatenationForm::Piece& piece);

/// Nullopt for a line of another form, and for one whose pieces are not long runs: a map is as fast there.
/// `types`: of all values.
[[nodiscard]] std::optional<Concatenation> recognise_concatenation(
    kernels::ValueIndex value, const kernels::Primitive& line,
    const kernels::ByValue<kernels::ValueType>& types);

}  // namespace dgx::exec
