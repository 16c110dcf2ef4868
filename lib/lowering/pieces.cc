#include "pieces.h"

#include <algorithm>

#include "line_writer.h"

namespace dgx::lowering {

using kernels::ScalarOp;

namespace {

/// Most pieces in one map: each costs two steps, an access and their text.
constexpr std::size_t kMaxPieces = 24;

/// The elements of dimension `dimension` from the first piece's begin to the last one's end, as one map.
TensorForm covered(Builder& builder, const std::string& provenance, std::size_t dimension,
                   const std::vector<Pieces::Piece>& pieces) {
  const std::int64_t begin = pieces.front().begin;
  Shape shape = pieces.front().form.shape;
  shape[dimension] = pieces.back().end - begin;
  LineWriter line(builder, provenance, shape);
  auto at = output_indices(shape.size());
  at[dimension] = output_index(dimension, 1, begin);
  std::vector<Expression> read;
  for (const Pieces::Piece& piece : pieces) read.push_back(line.read(piece.form, at));
  Expression result = read.back();
  for (std::size_t n = pieces.size() - 1; n-- > 0;) {
    const Expression before_end = compare(ScalarOp::kLt, line.index(dimension), pieces[n].end - begin);
    result = select(before_end, read[n], result);
  }
  return line.finish(pieces.front().form.dtype, result);
}

/// `part`, which covers [begin, …) of a dimension, in a tensor of `shape` that is 0 elsewhere.
TensorForm placed(const TensorForm& part, const Shape& shape, std::size_t dimension, std::int64_t begin) {
  TensorForm filled = part;
  filled.fill = literal_of(part.dtype, 0);
  auto at = output_indices(shape.size());
  at[dimension] = output_index(dimension, 1, -begin);
  return remap(filled, shape, at);
}

}  // namespace

std::optional<Pieces> sum_of_disjoint(const Pieces& a, const Pieces& b) {
  if (a.dimension != b.dimension) return std::nullopt;
  Pieces sum = a;
  sum.pieces.insert(sum.pieces.end(), b.pieces.begin(), b.pieces.end());
  std::stable_sort(sum.pieces.begin(), sum.pieces.end(),
                   [](const auto& first, const auto& second) { return first.begin < second.begin; });
  for (std::size_t n = 1; n < sum.pieces.size(); ++n) {
    if (sum.pieces[n].begin < sum.pieces[n - 1].end) return std::nullopt;
  }
  return sum;
}

TensorForm whole(Builder& builder, const std::string& provenance, const Pieces& pieces) {
  std::vector<Pieces::Piece> parts = pieces.pieces;
  const Shape shape = parts.front().form.shape;
  while (parts.size() > 1) {
    std::vector<Pieces::Piece> groups;
    for (std::size_t n = 0; n < parts.size(); n += kMaxPieces) {
      const auto first = parts.begin() + static_cast<std::ptrdiff_t>(n);
      const auto count = static_cast<std::ptrdiff_t>(std::min(kMaxPieces, parts.size() - n));
      const std::vector<Pieces::Piece> group(first, first + count);
      const TensorForm map = covered(builder, provenance, pieces.dimension, group);
      const std::int64_t begin = group.front().begin;
      groups.push_back({begin, group.back().end, placed(map, shape, pieces.dimension, begin)});
    }
    parts = std::move(groups);
  }
  return parts.front().form;
}

}  // namespace dgx::lowering
