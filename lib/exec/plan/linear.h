#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "dgx/kernels/compiled.h"

namespace dgx::exec {

/// An affine access: it reads element base + Σ iteration[d]·i_d + Σ fold[d]·k_d of the flat value. Most
/// accesses are of this kind: views, permutations, broadcasts, slices. Those that divide, take an index from
/// a value, or may fall outside are not.
struct LinearAccess {
  kernels::ValueIndex value{};
  std::int64_t base = 0;
  std::vector<std::int64_t> iteration;  ///< one stride per dimension of the iteration shape
  std::vector<std::int64_t> fold;       ///< one per dimension of the fold shape
  bool operator==(const LinearAccess&) const = default;
};

/// All accesses of a primitive, or nullopt if one is not linear.
[[nodiscard]] std::optional<std::vector<LinearAccess>> linear_accesses(
    const kernels::CompiledPrimitive& primitive);

/// Any access: an affine part, and the coordinates that divide, may fall outside or take an index from a
/// value.
struct StripAccess {
  LinearAccess plain;
  std::vector<kernels::CompiledCoordinate> guarded;
  kernels::Slot fill{};
};

/// All accesses of a primitive, or nullopt if the arithmetic of a coordinate might wrap, or there are more
/// than kMaxRank dimensions of one kind or guarded coordinates of one access: strips have room for no more.
[[nodiscard]] std::optional<std::vector<StripAccess>> strip_accesses(
    const kernels::CompiledPrimitive& primitive);

/// Row-major strides of a shape.
[[nodiscard]] std::vector<std::int64_t> row_major_strides(const Shape& shape);

/// A loop nest over which several affine maps run together: extents, outermost first, and each map's strides.
struct LoopNest {
  Shape extents;
  std::vector<std::vector<std::int64_t>> strides;  ///< [map][dimension]

  /// Drops dimensions of extent 1 and joins neighbours that every map walks at one stride, except those that
  /// are `fixed`. Leaves at least one dimension. Returns the new number of each dimension, meaningful for
  /// fixed ones.
  std::vector<std::size_t> collapse(const std::vector<bool>& fixed = {});
  [[nodiscard]] std::int64_t inner_extent() const { return extents.back(); }
  /// Product of all extents.
  [[nodiscard]] std::int64_t count() const { return rows() * inner_extent(); }
  /// Product of all extents but the last.
  [[nodiscard]] std::int64_t rows() const;
  /// The offset that map `map` adds to its base at row `row`, or at row-major position `position`.
  [[nodiscard]] std::int64_t row_offset(std::size_t map, std::int64_t row) const;
  [[nodiscard]] std::int64_t offset(std::size_t map, std::int64_t position) const {
    return row_offset(map, position / inner_extent()) + position % inner_extent() * strides[map].back();
  }
  /// The index of dimension `dimension` (not the last) at row `row`.
  [[nodiscard]] std::int64_t row_index(std::size_t dimension, std::int64_t row) const;
};

}  // namespace dgx::exec
