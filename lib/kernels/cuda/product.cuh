#pragma once

// The exact matrix product, in tiles (tile.cuh) of a suitable form (forms.h). A deep and small product is cut
// further, into its groups of 4,096 positions or its blocks of 256: their sums go to memory, and a second
// kernel adds them in order.

#include "words.h"

#include <type_traits>

#include "dgx/kernels/cuda/device.h"
#include "dgx/kernels/cuda/forms.h"
#include "dgx/kernels/scalar.h"
#include "product_side.cuh"
#include "tile.cuh"

namespace dgx::kernels::cuda {

/// The offset that batch number `n` adds to the place of map `map`.
__device__ inline std::int64_t batch_offset(const Batch& batch, std::uint32_t n, int map) {
  std::int64_t offset = 0;
  for (int d = batch.dimensions; d-- > 0;) {
    const auto at = static_cast<std::size_t>(d);
    const auto extent = static_cast<std::uint32_t>(batch.extents[at]);
    offset += n % extent * batch.strides[static_cast<std::size_t>(map)][at];
    n /= extent;
  }
  return offset;
}

/// Writes the sums of a group to their own place, or adds them to the total in the output.
template <int kCount>
__device__ inline void put_sums(float* pieces, float* out, std::int64_t at, const Numbers<kCount>& sums,
                                std::int64_t number) {
  if (pieces != nullptr) {
    *reinterpret_cast<Numbers<kCount>*>(pieces + at) = sums;
    return;
  }
  auto* const to = reinterpret_cast<Numbers<kCount>*>(out + at);
  Numbers<kCount> total{};
  if (number != 0) total = *to;
  DGX_UNROLL
  for (int n = 0; n < kCount; ++n) total.at[n] = canonical_nan(total.at[n] + sums.at[n]);
  *to = total;
}

/// The places of a tile's outputs (Out of run_tile).
struct ProductOut {
  float* out;     ///< outputs of this batch number
  float* pieces;  ///< this batch number's part of piece 0, or null
  std::int64_t out_row, piece_stride;
  std::int64_t first_row, first_column, rows, columns;
  bool in_fours;

  __device__ std::int64_t row(int n) const {
    const std::int64_t r = first_row + n;
    return r < rows ? r * (pieces != nullptr ? columns : out_row) : -1;
  }
  __device__ std::int64_t column(int n) const { return first_column + n < columns ? first_column + n : -1; }
  template <int kCount>
  __device__ void put(std::int64_t place, const Numbers<kCount>& sums, std::int64_t number) const {
    put_sums(pieces != nullptr ? pieces + number * piece_stride : nullptr, out, place, sums, number);
  }
};

/// The form of a launch, with its tile chosen. P: Product or Dot.
template <class P>
[[nodiscard]] TileForm form_of_launch(const P& p) {
  TileForm form = p.form;
  if (form.tile == Tile::kAny)
    form.tile = choose_tile({p.rows, p.columns, p.depth, p.batch.count, std::is_same_v<P, Dot>}, form.piece);
  return form;
}

template <class P>
[[nodiscard]] Grid grid_of_tiles(const P& p) {
  const TileForm form = form_of_launch(p);
  const TileExtent tile = extent_of(form.tile);
  return {tiles_of(tile, p.rows, p.columns) * p.batch.count * pieces_of(p.depth, form.piece),
          static_cast<unsigned>(tile.threads)};
}

/// The work of a block of threads: the corner of its tile, its batch number, and its positions.
struct TileWork {
  template <class P>
  __device__ TileWork(const P& p, int rows, int columns) {
    const auto across = static_cast<std::uint32_t>((p.columns + columns - 1) / columns),
               down = static_cast<std::uint32_t>((p.rows + rows - 1) / rows);
    std::uint32_t rest = blockIdx.x;
    first_column = static_cast<std::int64_t>(rest % across) * columns;
    rest /= across;
    first_row = static_cast<std::int64_t>(rest % down) * rows;
    rest /= down;
    batch = rest % static_cast<std::uint32_t>(p.batch.count);
    piece = rest / static_cast<std::uint32_t>(p.batch.count);
    begin = piece * p.form.piece;
    end = p.form.piece == 0 || p.depth - begin < p.form.piece ? p.depth : begin + p.form.piece;
  }
  std::int64_t first_row, first_column, piece, begin, end;
  std::uint32_t batch;
};

template <class Tile, SideForm kLeft, SideForm kRight>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kTogether) run_product(Product p, bool out_in_fours) {
  const TileWork work(p, Tile::kRows, Tile::kColumns);
  StridedSide<typename Tile::Left, kLeft> left(p.a + batch_offset(p.batch, work.batch, 0),
                                               {p.a_row, p.a_depth}, work.first_row, p.rows, work.begin);
  StridedSide<typename Tile::Right, kRight> right(p.b + batch_offset(p.batch, work.batch, 1),
                                                  {p.b_column, p.b_depth}, work.first_column, p.columns,
                                                  work.begin);
  const ProductOut out{p.out + batch_offset(p.batch, work.batch, 2),
                       p.pieces == nullptr ? nullptr : p.pieces + work.batch * p.rows * p.columns,
                       p.out_row,
                       p.batch.count * p.rows * p.columns,
                       work.first_row,
                       work.first_column,
                       p.rows,
                       p.columns,
                       out_in_fours};
  run_tile<Tile>(left, right, out, work.begin, work.end, work.piece);
}

/// The fastest form that a side can have.
[[nodiscard]] inline SideForm side_form(const float* from, std::int64_t line, std::int64_t depth,
                                        std::int64_t lines, const Batch& batch, std::size_t map) {
  constexpr std::int64_t kNear = std::int64_t{1} << 22;  // 128 of them are less than 2^31 bytes
  if (depth == 1 && line >= 0 && line < kNear) return SideForm::kAlong;
  bool in_fours = line == 1 && depth >= 0 && depth < kNear && depth % 4 == 0 && lines % 4 == 0 &&
                  reinterpret_cast<std::uintptr_t>(from) % 16 == 0;
  for (std::int32_t d = 0; d < batch.dimensions; ++d)
    in_fours = in_fours && batch.strides[map][static_cast<std::size_t>(d)] % 4 == 0;
  return in_fours ? SideForm::kFours : SideForm::kAny;
}

/// True if the output's numbers can be put in fours (run_tile).
[[nodiscard]] inline bool is_out_in_fours(const Product& p) {
  if (p.columns % 4 != 0) return false;
  if (p.pieces != nullptr) return true;
  bool all = p.out_row % 4 == 0 && reinterpret_cast<std::uintptr_t>(p.out) % 16 == 0;
  for (std::int32_t d = 0; d < p.batch.dimensions; ++d)
    all = all && p.batch.strides[2][static_cast<std::size_t>(d)] % 4 == 0;
  return all;
}

template <class Tile>
[[nodiscard]] auto product_kernel_of(const Product& p) {
  const SideForm a = side_form(p.a, p.a_row, p.a_depth, p.rows, p.batch, 0),
                 b = side_form(p.b, p.b_column, p.b_depth, p.columns, p.batch, 1);
  constexpr SideForm kAlong = SideForm::kAlong, kFours = SideForm::kFours;
  if (a == kAlong && b == kAlong) return run_product<Tile, kAlong, kAlong>;
  if (a == kAlong && b == kFours) return run_product<Tile, kAlong, kFours>;
  if (a == kFours && b == kFours) return run_product<Tile, kFours, kFours>;
  return run_product<Tile, SideForm::kAny, SideForm::kAny>;
}

[[nodiscard]] inline auto product_kernel(const Product& p) {
  constexpr SideForm kAny = SideForm::kAny;
  switch (form_of_launch(p).tile) {
    case Tile::k128x128: return product_kernel_of<TileShape<16, 16, 8, 8>>(p);
    case Tile::k128x64: return product_kernel_of<TileShape<16, 8, 8, 8>>(p);
    case Tile::k64x128: return product_kernel_of<TileShape<8, 16, 8, 8>>(p);
    case Tile::k64x64: return product_kernel_of<TileShape<8, 8, 8, 8>>(p);
    case Tile::k64x64Fine: return product_kernel_of<TileShape<16, 16, 4, 4>>(p);
    case Tile::k32x128: return run_product<TileShape<8, 16, 4, 8>, kAny, kAny>;
    case Tile::k16x256: return run_product<TileShape<4, 32, 4, 8>, kAny, kAny>;
    default: return run_product<TileShape<16, 16, 2, 2>, kAny, kAny>;
  }
}

/// The offset of row r and column c within a batch number.
__device__ inline std::int64_t place_of(const Product& p, std::int64_t r, std::int64_t c) {
  return r * p.out_row + c;
}

/// Adds up the sums of the pieces: the second kernel of a launch whose depth is cut.
template <class P>
__global__ void add_pieces(P p) {
  const std::int64_t each = p.rows * p.columns, count = p.batch.count * each;
  const std::int64_t n = global_thread();
  if (n >= count) return;
  const float* at = p.pieces + n;
  std::int64_t left_over = pieces_of(p.depth, p.form.piece);
  const int together = static_cast<int>(kDotGroupPositions / p.form.piece);  // pieces of a group
  float total = 0;
  while (left_over > 0) {
    const int here = left_over < together ? static_cast<int>(left_over) : together;
    float group = 0;
    for (int i = 0; i < here; ++i) group = group + at[i * count];
    total = total + group;
    at += here * count;
    left_over -= here;
  }
  const std::int64_t at_output = n % each;
  p.out[batch_offset(p.batch, static_cast<std::uint32_t>(n / each), 2) +
        place_of(p, at_output / p.columns, at_output % p.columns)] = canonical_nan(total);
}

}  // namespace dgx::kernels::cuda
