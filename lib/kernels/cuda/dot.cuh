#pragma once

// Dots whose sides are read through windows, in the same tiles as products (tile.cuh): convolutions and the
// gradients of their inputs and weights, with any stride, dilation and groups. Nothing is rearranged (no
// im2col).
//
// An element's offset is the sum of what its line adds and what its position adds, so a copy costs two
// additions and a test. The test is for padding: one of line and position has a bit for each of its taps, the
// other the bits of all taps with which it would be outside; if they share a bit, the element is outside. A
// thread keeps its lines in registers. Positions are worked out once per block of 256, each by one thread,
// and kept in shared memory for all: the divisions that split a number into indices then cost next to
// nothing.

#include "words.h"

#include <algorithm>

#include "dgx/kernels/cuda/device.h"
#include "dgx/kernels/scalar.h"
#include "product.cuh"
#include "tile.cuh"

namespace dgx::kernels::cuda {

inline constexpr int kParts = 1 + static_cast<int>(kDotGuards);

/// Adds to each part what index number `n` of the walk moves it by.
__device__ inline void add_walk(const Walk& walk, std::uint32_t n, std::int32_t (&parts)[kParts]) {
  DGX_NOT_UNROLLED
  for (int d = walk.dimensions; d-- > 0;) {
    const auto at = static_cast<std::size_t>(d);
    const auto extent = static_cast<std::uint32_t>(walk.extents[at]);
    const auto index = static_cast<std::int32_t>(n % extent);
    n /= extent;
    DGX_UNROLL
    for (std::size_t p = 0; p < kParts; ++p) parts[p] += index * walk.coefficients[p][at];
  }
}

/// The contribution of a line or a position to an element: an offset, and bits. If line and position have a
/// bit in common, there is no element.
struct alignas(8) WindowPart {
  std::int32_t place = 0;
  std::uint32_t bits = 0;
};
/// This bit is set in all lines, and in positions beyond the depth.
inline constexpr std::uint32_t kBeyond = std::uint32_t{1} << kDotTaps;

/// The part of a line or position whose indices are the taps of the guards.
__device__ inline WindowPart tap_part(const DotSide& side, const std::int32_t (&parts)[kParts]) {
  WindowPart out{parts[0], 0};
  DGX_NOT_UNROLLED
  for (std::int32_t g = 0; g < side.guard_count; ++g) {
    const std::int32_t tap = side.guards[static_cast<std::size_t>(g)].first_tap + parts[g + 1];
    out.place += side.taps[static_cast<std::size_t>(tap)].moves;
    out.bits |= std::uint32_t{1} << static_cast<unsigned>(tap);
  }
  return out;
}

/// True if the coordinate is inside.
__device__ inline bool is_inside(const DotGuard& guard, std::int32_t coordinate) {
  if (guard.divisor == 1)
    return static_cast<std::uint32_t>(coordinate) < static_cast<std::uint32_t>(guard.size);
  return coordinate >= 0 && coordinate / guard.divisor < guard.size && coordinate % guard.divisor == 0;
}

/// The part of a line or position that gives the guards' coordinates: its bits are the taps that lead
/// outside.
__device__ inline WindowPart coordinate_part(const DotSide& side, const std::int32_t (&parts)[kParts]) {
  WindowPart out{parts[0], 0};
  DGX_NOT_UNROLLED
  for (std::int32_t g = 0; g < side.guard_count; ++g) {
    const DotGuard& guard = side.guards[static_cast<std::size_t>(g)];
    const std::int32_t coordinate = side.base[static_cast<std::size_t>(g + 1)] + parts[g + 1];
    std::int32_t quotient = coordinate;  // rounded down
    if (guard.divisor != 1) {
      quotient = coordinate / guard.divisor;
      if (quotient * guard.divisor > coordinate) --quotient;
    }
    out.place += quotient * guard.stride;
    DGX_NOT_UNROLLED
    for (std::int32_t tap = guard.first_tap; tap < guard.first_tap + guard.tap_count; ++tap) {
      if (!is_inside(guard, coordinate + side.taps[static_cast<std::size_t>(tap)].coordinate))
        out.bits |= std::uint32_t{1} << static_cast<unsigned>(tap);
    }
  }
  return out;
}

/// Parts of the positions of two blocks of 256: while one is used, the next is made. Before the first, the
/// second holds the parts of the lines.
using WindowParts = WindowPart[2][kDotBlock];

/// Copies one side of a dot. S: TileSide. Neighbouring threads take neighbouring positions of a few lines if
/// kAlong, else neighbouring lines.
template <class S, bool kAlong>
class WindowSide {
 public:
  static constexpr bool kHasEdges = false;

  __device__ WindowSide(const DotSide& side, const float* from, std::int64_t first, std::int64_t lines,
                        std::int64_t begin, std::int64_t end, WindowParts& parts)
      : side_(side),
        from_(from),
        parts_(parts),
        next_(static_cast<std::uint32_t>(begin)),
        end_(static_cast<std::uint32_t>(end)) {
    const unsigned t = threadIdx.x;
    line_ = kAlong ? t / kPositions : t % kNeighbours;
    k_ = kAlong ? t % kPositions : t / kNeighbours * kOwn;
    keep_in_register(k_);
    keep_in_register(from_);
    first_ = static_cast<std::uint32_t>(first);
    most_ = static_cast<std::uint32_t>(lines - 1);
  }

  [[nodiscard]] __device__ int share() const { return static_cast<int>(k_ * S::kPitch + line_); }
  [[nodiscard]] __device__ bool has_all_lines() const { return true; }

  __device__ void start() {
    describe(0);
    for (unsigned n = threadIdx.x; n < S::kLines; n += S::kThreads) {
      std::int32_t moved[kParts] = {side_.base[0]};
      // Lines beyond the last repeat it; their outputs are not stored.
      add_walk(side_.lines, first_ + n < most_ ? first_ + n : most_, moved);
      parts_[1][n] = side_.lines_are_taps ? tap_part(side_, moved) : coordinate_part(side_, moved);
    }
  }
  __device__ void started() {
    DGX_UNROLL
    for (unsigned j = 0; j < kLines; ++j) {
      lines_[j] = parts_[1][line_ + j * kLineStep];
      lines_[j].bits |= kBeyond;
    }
  }
  __device__ void begin_block() {
    described_ ^= 1U;
    describe(described_);
  }

  template <bool kIsWhole>
  __device__ void copy(SharedPlace to, int) {
    const WindowPart* const parts = &parts_[0][0] + (round_ % (2 * kBlockRounds) * kTileStep + k_);
    DGX_UNROLL
    for (unsigned batch = 0; batch < kOwn; batch += kAtOnce) {
      // In registers first: reads and copies that alternate would wait for each other.
      WindowPart positions[kAtOnce];
      DGX_UNROLL
      for (unsigned n = 0; n < kAtOnce; n += kPair) {
        const auto pair = *reinterpret_cast<const Pair*>(parts + (batch + n) * kStep);
        DGX_UNROLL
        for (unsigned i = 0; i < kPair; ++i) positions[n + i] = pair.at[i];
      }
      DGX_UNROLL
      for (unsigned n = 0; n < kAtOnce; ++n) {
        DGX_UNROLL
        for (unsigned j = 0; j < kLines; ++j) {
          // Not negative if the element exists: base, lines and positions are all within one value.
          const float* const element =
              from_ + static_cast<std::uint32_t>(lines_[j].place + positions[n].place);
          copy_async<1>(to, static_cast<int>((batch + n) * kStep * S::kPitch + j * kLineStep), element,
                        (lines_[j].bits & positions[n].bits) == 0);
        }
      }
    }
    ++round_;
  }

 private:
  static constexpr unsigned kPositions = 8;  // positions that adjacent threads take, if kAlong
  static constexpr unsigned kNeighbours = S::kLines < S::kThreads ? S::kLines : S::kThreads;
  static constexpr unsigned kLineStep = kAlong ? S::kThreads / kPositions : kNeighbours;
  static constexpr unsigned kLines = S::kLines / kLineStep;   // per thread
  static constexpr unsigned kOwn = S::kLoads / kLines;        // positions per round and thread
  static constexpr unsigned kStep = kAlong ? kPositions : 1;  // from one of them to the next
  static constexpr unsigned kAtOnce = kOwn < 8 ? kOwn : 8;
  static constexpr unsigned kPair = kStep == 1 && kOwn % 2 == 0 ? 2 : 1;
  struct alignas(8 * kPair) Pair {
    WindowPart at[kPair];
  };
  static_assert(S::kLines <= kDotBlock && kLines * kOwn == S::kLoads && kOwn % kAtOnce == 0);

  /// Works out the parts of the next block's positions.
  __device__ void describe(unsigned slot) {
    for (unsigned t = threadIdx.x; t < kDotBlock; t += S::kThreads) {
      std::int32_t moved[kParts] = {};
      WindowPart part{0, kBeyond};
      if (next_ + t < end_) {
        add_walk(side_.positions, next_ + t, moved);
        part = side_.lines_are_taps ? coordinate_part(side_, moved) : tap_part(side_, moved);
      }
      parts_[slot][t] = part;
    }
    next_ += static_cast<std::uint32_t>(kDotBlock);
  }

  const DotSide& side_;
  const float* from_;
  WindowParts& parts_;
  std::uint32_t next_, end_;    // the first position that is not described yet, and the end
  std::uint32_t first_, most_;  // the first and the last line
  WindowPart lines_[kLines];
  std::uint32_t line_, k_;
  unsigned round_ = 0, described_ = 0;
};

/// The places of a tile's outputs (Out of run_tile).
struct DotOut {
  const Dot& dot;
  float* out;     ///< outputs of this batch number
  float* pieces;  ///< this batch number's part of piece 0, or null
  std::int64_t piece_stride, first_row, first_column;
  bool in_fours;

  __device__ static std::int64_t place(const Walk& walk, std::int64_t n) {
    std::int32_t parts[kParts] = {};
    add_walk(walk, static_cast<std::uint32_t>(n), parts);
    return parts[0];
  }
  __device__ std::int64_t row(int n) const {
    const std::int64_t r = first_row + n;
    if (r >= dot.rows) return -1;
    return pieces != nullptr ? r * dot.columns : place(dot.out_rows, r);
  }
  __device__ std::int64_t column(int n) const {
    const std::int64_t c = first_column + n;
    if (c >= dot.columns) return -1;
    return pieces != nullptr ? c : place(dot.out_columns, c);
  }
  template <int kCount>
  __device__ void put(std::int64_t place, const Numbers<kCount>& sums, std::int64_t number) const {
    put_sums(pieces != nullptr ? pieces + number * piece_stride : nullptr, out, place, sums, number);
  }
};

__device__ inline std::int64_t place_of(const Dot& d, std::int64_t r, std::int64_t c) {
  return DotOut::place(d.out_rows, r) + DotOut::place(d.out_columns, c);
}

template <class Tile, bool kAlong>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kTogether) run_dot(Dot d, bool out_in_fours) {
  alignas(16) __shared__ WindowParts a_parts;
  alignas(16) __shared__ WindowParts b_parts;
  const TileWork work(d, Tile::kRows, Tile::kColumns);
  const float* const a = d.a.from + batch_offset(d.batch, work.batch, 0);
  const float* const b = d.b.from + batch_offset(d.batch, work.batch, 1);
  WindowSide<typename Tile::Left, kAlong> left(d.a, a, work.first_row, d.rows, work.begin, work.end, a_parts);
  WindowSide<typename Tile::Right, kAlong> right(d.b, b, work.first_column, d.columns, work.begin, work.end,
                                                 b_parts);
  const DotOut out{d,
                   d.out + batch_offset(d.batch, work.batch, 2),
                   d.pieces == nullptr ? nullptr : d.pieces + work.batch * d.rows * d.columns,
                   d.batch.count * d.rows * d.columns,
                   work.first_row,
                   work.first_column,
                   out_in_fours};
  run_tile<Tile>(left, right, out, work.begin, work.end, work.piece);
}
/// True if every four numbers from a multiple of four on are adjacent, at a multiple of four from the first.
[[nodiscard]] inline bool is_in_fours(const Walk& walk) {
  const auto& moves = walk.coefficients[0];
  auto d = static_cast<std::size_t>(walk.dimensions);
  std::int32_t together = 1;  // this many are adjacent
  while (d > 0 && moves[d - 1] == together) together *= walk.extents[--d];
  return together % 4 == 0 && std::all_of(moves.begin(), moves.begin() + static_cast<std::ptrdiff_t>(d),
                                          [](std::int32_t move) { return move % 4 == 0; });
}

/// True if the output can be put in fours (run_tile), as for products.
[[nodiscard]] inline bool is_out_in_fours(const Dot& d) {
  if (d.pieces != nullptr) return d.columns % 4 == 0;
  bool all = is_in_fours(d.out_columns) && reinterpret_cast<std::uintptr_t>(d.out) % 16 == 0;
  for (std::size_t n = 0; n < static_cast<std::size_t>(d.out_rows.dimensions); ++n)
    all = all && d.out_rows.coefficients[0][n] % 4 == 0;
  for (std::size_t n = 0; n < static_cast<std::size_t>(d.batch.dimensions); ++n)
    all = all && d.batch.strides[2][n] % 4 == 0;
  return all;
}

template <class Tile>
[[nodiscard]] auto dot_kernel_of(const Dot& d) {
  return d.b.along_depth ? run_dot<Tile, true> : run_dot<Tile, false>;
}

[[nodiscard]] inline auto dot_kernel(const Dot& d) {
  switch (form_of_launch(d).tile) {
    case Tile::k128x128: return dot_kernel_of<TileShape<16, 16, 8, 8>>(d);
    case Tile::k128x64: return dot_kernel_of<TileShape<16, 8, 8, 8>>(d);
    case Tile::k64x128: return dot_kernel_of<TileShape<8, 16, 8, 8>>(d);
    case Tile::k64x64: return dot_kernel_of<TileShape<8, 8, 8, 8>>(d);
    case Tile::k64x64Fine: return dot_kernel_of<TileShape<16, 16, 4, 4>>(d);
    case Tile::k32x128: return dot_kernel_of<TileShape<8, 16, 4, 8>>(d);
    case Tile::k16x256: return dot_kernel_of<TileShape<4, 32, 4, 8>>(d);
    default: return dot_kernel_of<TileShape<16, 16, 2, 2>>(d);
  }
}

}  // namespace dgx::kernels::cuda
