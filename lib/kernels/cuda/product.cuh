#pragma once

// The exact matrix product, in tiles (tile.cuh) of 128 × 128 outputs where there are enough of them to fill a device, else of 64 × 64 or 32 × 32. What
// is deep and small is cut further, into its groups of 4,096 positions: their sums go to memory, and a second kernel adds them in order.

#include "words.h"

#include "dgx/kernels/cuda/device.h"
#include "dgx/kernels/scalar.h"
#include "tile.cuh"

namespace dgx::kernels::cuda {

/// What batch number `n` adds to the place of map `map`.
__device__ inline std::int64_t batch_offset(const Batch& batch, std::int64_t n, int map) {
  std::int64_t offset = 0;
  for (int d = batch.dimensions; d-- > 0;) {
    const auto at = static_cast<std::size_t>(d);
    offset += n % batch.extents[at] * batch.strides[static_cast<std::size_t>(map)][at];
    n /= batch.extents[at];
  }
  return offset;
}

/// Between neighbouring lines and positions of a side.
struct SideStrides {
  std::int64_t line = 0, depth = 0;
};

/// A group's sum to its own place, or to the total.
__device__ inline void put_sum(float* group, float* out, std::int64_t at, float sum, std::int64_t number) {
  if (group != nullptr) {
    group[at] = sum;
  } else {
    out[at] = canonical_nan((number == 0 ? 0.0F : out[at]) + sum);
  }
}

/// One side of a product: lines and positions at any strides.
template <int kPer>
class StridedSide {
 public:
  static constexpr int kLoads = TileShare<kPer>::kLoads;

  /// Lines from `first` of `lines` in all, positions from `begin` to `end`.
  __device__ StridedSide(const float* from, SideStrides strides, std::int64_t first, std::int64_t lines, std::int64_t begin, std::int64_t end)
      : share_(magnitude(strides.depth) <= magnitude(strides.line)) {
    const std::int64_t line = first + share_.line, k = begin + share_.k;
    at_ = from + line * strides.line + k * strides.depth;
    pitch_ = share_.line_step * strides.line + share_.k_step * strides.depth;
    step_ = kTileStep * strides.depth;
    for (int j = 0; j < kLoads; ++j) {
      if (line + j * share_.line_step < lines) ++lines_;
    }
    positions_ = static_cast<int>(end - k);
  }

  __device__ void start() {}
  __device__ void begin_block() {}
  __device__ void copy(TileBuffer<kPer>& to) {
    float* const first = &to[share_.k][share_.line];
    DGX_UNROLL
    for (int j = 0; j < kLoads; ++j) {
      const bool exists = j < lines_ && j * share_.k_step < positions_;
      copy_async<1>(first + j * (share_.k_step * kTilePitch<kPer> + share_.line_step), at_ + j * pitch_, exists);
    }
    at_ += step_;
    positions_ -= kTileStep;
  }

 private:
  __device__ static std::int64_t magnitude(std::int64_t stride) { return stride < 0 ? -stride : stride; }

  TileShare<kPer> share_;
  const float* at_;
  std::int64_t pitch_, step_;
  int lines_ = 0;  // of the elements, so many are of lines that exist
  int positions_;
};

/// The same where numbers lie in fours that are whole, neighbours along lines or positions, and 16-byte aligned (is_in_fours): one address a round.
class FourfoldSide {
 public:
  static constexpr int kPer = 8, kLoads = TileShare<kPer>::kLoads;
  static_assert(kLoads == 4);

  __device__ FourfoldSide(const float* from, SideStrides strides, std::int64_t first, std::int64_t lines, std::int64_t begin, std::int64_t end)
      : along_depth_(strides.depth == 1) {
    const int t = static_cast<int>(threadIdx.x);
    line_ = along_depth_ ? t / 2 : t % 32 * 4;
    k_ = along_depth_ ? t % 2 * 4 : t / 32;
    at_ = from + (first + line_) * strides.line + (begin + k_) * strides.depth;
    step_ = kTileStep * strides.depth;
    positions_ = first + line_ < lines ? static_cast<int>(end - begin) - k_ : 0;
  }

  __device__ void start() {}
  __device__ void begin_block() {}
  __device__ void copy(TileBuffer<kPer>& to) {
    float* const first = &to[k_][line_];
    if (along_depth_) {
      DGX_UNROLL
      for (int j = 0; j < kLoads; ++j) copy_async<1>(first + j * kTilePitch<kPer>, at_ + j, positions_ > 0);
    } else {
      copy_async<kLoads>(first, at_, positions_ > 0);
    }
    at_ += step_;
    positions_ -= kTileStep;
  }

 private:
  const float* at_;
  std::int64_t step_;
  int line_, k_, positions_;
  bool along_depth_;
};

/// Where a group's sum goes: into the total that lies in the output, or to its own place.
struct ProductOut {
  float* out;     ///< of this batch number
  float* groups;  ///< or null; of this batch number in group 0
  std::int64_t out_row, group_stride;
  std::int64_t first_row, first_column, rows, columns;

  __device__ std::int64_t row(int n) const {
    const std::int64_t r = first_row + n;
    return r < rows ? r * (groups != nullptr ? columns : out_row) : -1;
  }
  __device__ std::int64_t column(int n) const { return first_column + n < columns ? first_column + n : -1; }
  __device__ void put(std::int64_t row, std::int64_t column, float sum, std::int64_t group) const {
    put_sum(groups != nullptr ? groups + group * group_stride : nullptr, out, row + column, sum, group);
  }
};

/// P: Product or Dot.
template <class P>
[[nodiscard]] std::int64_t product_tiles(const P& p, int per) {
  const std::int64_t side = kTileSide * per;
  return (p.rows + side - 1) / side * ((p.columns + side - 1) / side) * p.batch.count;
}

/// Outputs of a thread, along each side: as many as leave a block of threads for each of a large device's processors.
template <class P>
[[nodiscard]] int product_per(const P& p) {
  constexpr std::int64_t kWantedBlocks = 132;
  if (p.tile != 0) return p.tile / kTileSide;
  const std::int64_t cut = p.groups == nullptr ? 1 : dot_groups(p.depth);
  for (const int per : {8, 4}) {
    if (product_tiles(p, per) * cut >= kWantedBlocks) return per;
  }
  return 2;
}

template <class P>
[[nodiscard]] Grid grid_of_tiles(const P& p) {
  return {product_tiles(p, product_per(p)) * (p.groups == nullptr ? 1 : dot_groups(p.depth)), kTileThreads};
}

/// What a block of threads makes: which tile, of which batch number, over which positions.
struct TileWork {
  template <class P>
  __device__ TileWork(const P& p, int side) {
    const std::int64_t across = (p.columns + side - 1) / side, down = (p.rows + side - 1) / side;
    const std::int64_t tile = blockIdx.x;
    first_column = tile % across * side;
    first_row = tile / across % down * side;
    batch = tile / (across * down) % p.batch.count;
    begin = p.groups == nullptr ? 0 : tile / (across * down) / p.batch.count * kGroupPositions;
    end = p.groups == nullptr || p.depth - begin < kGroupPositions ? p.depth : begin + kGroupPositions;
  }
  std::int64_t first_row, first_column, batch, begin, end;
};

template <int kPer, class Side>
__global__ void __launch_bounds__(kTileThreads, 2) run_product(Product p) {
  const TileWork work(p, kTileSide * kPer);
  Side left(p.a + batch_offset(p.batch, work.batch, 0), {p.a_row, p.a_depth}, work.first_row, p.rows, work.begin, work.end);
  Side right(p.b + batch_offset(p.batch, work.batch, 1), {p.b_column, p.b_depth}, work.first_column, p.columns, work.begin, work.end);
  const ProductOut out{p.out + batch_offset(p.batch, work.batch, 2),
                       p.groups == nullptr ? nullptr : p.groups + work.batch * p.rows * p.columns,
                       p.out_row,
                       p.batch.count * p.rows * p.columns,
                       work.first_row,
                       work.first_column,
                       p.rows,
                       p.columns};
  run_tile<kPer>(left, right, out, work.begin, work.end);
}

/// Whether both sides are FourfoldSides.
[[nodiscard]] inline bool is_in_fours(const Product& p) {
  const auto whole = [&p](const float* from, std::int64_t line, std::int64_t depth, std::int64_t lines, std::size_t map) {
    bool all = reinterpret_cast<std::uintptr_t>(from) % 16 == 0;
    for (std::int32_t d = 0; d < p.batch.dimensions; ++d) all = all && p.batch.strides[map][static_cast<std::size_t>(d)] % 4 == 0;
    return all && ((depth == 1 && line % 4 == 0 && p.depth % 4 == 0) || (line == 1 && depth % 4 == 0 && lines % 4 == 0));
  };
  return whole(p.a, p.a_row, p.a_depth, p.rows, 0) && whole(p.b, p.b_column, p.b_depth, p.columns, 1);
}

[[nodiscard]] inline auto product_kernel(const Product& p) {
  switch (product_per(p)) {
    case 8: return is_in_fours(p) ? run_product<8, FourfoldSide> : run_product<8, StridedSide<8>>;
    case 4: return run_product<4, StridedSide<4>>;
    default: return run_product<2, StridedSide<2>>;
  }
}

/// Where row r and column c of a batch number lie.
__device__ inline std::int64_t place_of(const Product& p, std::int64_t r, std::int64_t c) { return r * p.out_row + c; }

/// The total of the groups' sums: the second half of what is cut.
template <class P>
__global__ void add_groups(P p) {
  const std::int64_t each = p.rows * p.columns, count = p.batch.count * each;
  const std::int64_t n = global_thread();
  if (n >= count) return;
  float total = 0;
  const std::int64_t groups = dot_groups(p.depth);
  for (std::int64_t g = 0; g < groups; ++g) total = total + p.groups[g * count + n];
  const std::int64_t at = n % each;
  p.out[batch_offset(p.batch, n / each, 2) + place_of(p, at / p.columns, at % p.columns)] = canonical_nan(total);
}

}  // namespace dgx::kernels::cuda
