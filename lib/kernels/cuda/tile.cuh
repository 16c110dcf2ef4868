#pragma once

// A tile of dots, by a block of 256 threads: out[r, c] = dot over k of left(r, k) · right(k, c), in the order of dgx-numerics(7), "Folds".
//
// A thread makes kPer × kPer outputs, 16 × 16 threads a tile of (16 kPer)². Both sides come through shared memory, a round of 8 positions at a
// time, by copies that pass no registers (async_copy.cuh) into four buffers: while one is multiplied, the next are on their way, and one barrier a
// round is enough. A round of the largest tile is 512 fma for 32 reads of 16 bytes from shared memory and two to eight copies a thread, so
// that the fma are what it waits for. A warp is 4 × 8 threads: what it reads together from shared memory lies in different banks or is one number.
//
// Blocks of 256 positions end between two rounds. A block's running results are in registers. The group's are touched once in 256
// positions: two blocks of threads share a processor's registers because the compiler keeps these elsewhere meanwhile. A group's
// end, once in 4,096 positions, goes to memory (Out), so no third set is needed. Beyond the depth both sides are 0: 0 · 0 added to a block
// changes at most -0 to +0, which a group's +0 does not tell apart.

#include "words.h"

#include <cstdint>

#include "async_copy.cuh"
#include "dgx/kernels/fold_order.h"

#ifdef __CUDACC__
#define DGX_UNROLL _Pragma("unroll")
#else
#define DGX_UNROLL
#endif

namespace dgx::kernels::cuda {

inline constexpr int kTileThreads = 256;
inline constexpr int kTileSide = 16;  ///< threads along a side of a tile
inline constexpr int kTileStep = 8;   ///< positions of a round
inline constexpr unsigned kTileBuffers = 4;  ///< a power of two
inline constexpr std::int64_t kGroupPositions = kDotBlock * kDotGroup;
static_assert(kTileSide * kTileSide == kTileThreads && kDotBlock % kTileStep == 0);

/// A side of a round in shared memory: [position][line]. Lines are padded so that threads which take neighbouring positions of a line write
/// to different banks.
template <int kPer>
inline constexpr int kTilePitch = kTileSide * kPer + 4;
template <int kPer>
using TileBuffer = float[kTileStep][kTilePitch<kPer>];

/// Which elements of one side a thread takes to shared memory: element j of kLoads is of line `line` + j · line_step at position k + j · k_step
/// of the round. Neighbouring threads take neighbouring positions if those are nearer in memory, else neighbouring lines.
template <int kPer>
struct TileShare {
  static constexpr int kLines = kTileSide * kPer;
  static constexpr int kLoads = kLines * kTileStep / kTileThreads;

  __device__ explicit TileShare(bool along_depth) {
    const int t = static_cast<int>(threadIdx.x);
    line = along_depth ? t / kTileStep : t % kLines;
    k = along_depth ? t % kTileStep : t / kLines;
    line_step = along_depth ? kTileThreads / kTileStep : 0;
    k_step = along_depth ? 0 : kTileThreads / kLines;
  }

  int line, k, line_step, k_step;
};

/// A thread's kPer lines of a side: in runs of kRun neighbours, the runs of all threads side by side.
template <int kPer>
struct TileLines {
  static constexpr int kRun = kPer < 4 ? kPer : 4;

  __device__ static int line(int thread, int i) { return (i / kRun * kTileSide + thread) * kRun + i % kRun; }

  __device__ static void read(const TileBuffer<kPer>& buffer, int k, int thread, float (&out)[kPer]) {
    DGX_UNROLL
    for (int run = 0; run < kPer / kRun; ++run) {
      const auto row = *reinterpret_cast<const Numbers<kRun>*>(&buffer[k][line(thread, run * kRun)]);
      DGX_UNROLL
      for (int i = 0; i < kRun; ++i) out[run * kRun + i] = row.at[i];
    }
  }
};

/// A thread's place in its tile.
struct TilePlace {
  __device__ TilePlace() {
    const int t = static_cast<int>(threadIdx.x), warp = t / 32, lane = t % 32;
    row = warp / 2 * 4 + lane / 8;
    column = warp % 2 * 8 + lane % 8;
  }
  int row, column;
};

template <int kPer>
using TileBuffers = TileBuffer<kPer>[kTileBuffers];

template <int kPer, class Left, class Right>
class TileRounds {
 public:
  __device__ TileRounds(Left& left, Right& right, TileBuffers<kPer>& left_buffers, TileBuffers<kPer>& right_buffers)
      : left_(left), right_(right), left_buffers_(left_buffers), right_buffers_(right_buffers) {
    left_.start();
    right_.start();
    __syncthreads();
    for (unsigned n = 0; n < kTileBuffers - 1; ++n) copy(n);
  }

  /// Before the first round of a block of positions.
  __device__ void begin_block() {
    left_.begin_block();
    right_.begin_block();
  }

  /// Adds the products of the next round to `sums`.
  __device__ void round(float (&sums)[kPer][kPer]) {
    wait_for_copies<kTileBuffers - 2>();
    __syncthreads();
    copy((buffer_ + kTileBuffers - 1) % kTileBuffers);  // over the last round's, which all have used
    DGX_UNROLL
    for (int k = 0; k < kTileStep; ++k) {
      float a[kPer], b[kPer];
      TileLines<kPer>::read(left_buffers_[buffer_], k, place_.row, a);
      TileLines<kPer>::read(right_buffers_[buffer_], k, place_.column, b);
      DGX_UNROLL
      for (int i = 0; i < kPer; ++i) {
        DGX_UNROLL
        for (int j = 0; j < kPer; ++j) sums[i][j] = fmaf(a[i], b[j], sums[i][j]);
      }
    }
    buffer_ = (buffer_ + 1) % kTileBuffers;
  }

 private:
  __device__ void copy(unsigned n) {
    left_.copy(left_buffers_[n]);
    right_.copy(right_buffers_[n]);
    end_copies();
  }

  Left& left_;
  Right& right_;
  TileBuffers<kPer>& left_buffers_;
  TileBuffers<kPer>& right_buffers_;
  const TilePlace place_;
  unsigned buffer_ = 0;
};

inline constexpr int kBlockRounds = static_cast<int>(kDotBlock) / kTileStep;

template <int kPer, class Out>
__device__ void put_group(const Out& out, const TilePlace& place, const float (&group)[kPer][kPer], std::int64_t number) {
  std::int64_t columns[kPer];
  DGX_UNROLL
  for (int j = 0; j < kPer; ++j) columns[j] = out.column(TileLines<kPer>::line(place.column, j));
  DGX_UNROLL
  for (int i = 0; i < kPer; ++i) {
    const std::int64_t row = out.row(TileLines<kPer>::line(place.row, i));
    DGX_UNROLL
    for (int j = 0; j < kPer; ++j) {
      if (row >= 0 && columns[j] >= 0) out.put(row, columns[j], group[i][j], number);
    }
  }
}

/// Positions [begin, end) of a tile, fewer than 2^31, `begin` where a group begins; the sides stand there. Gives every group's sum of every output of
/// the tile (where there are no positions: one, 0) to
///   std::int64_t row(int) const, column(int) const;    where a row or a column of the tile lies; -1 if it does not exist
///   void put(std::int64_t row, std::int64_t column, float sum, std::int64_t group) const;
/// Left and Right have
///   void start(), begin_block();      at the beginning, and before the first round of each block of 256 positions
///   void copy(TileBuffer<kPer>&);     begins to copy this thread's share of the next round, 0 beyond the depth
/// What one thread leaves in shared memory in start() and begin_block(), others may read in the block's copies but the first two rounds', and
/// after start() in all.
template <int kPer, class Left, class Right, class Out>
__device__ void run_tile(Left& left, Right& right, const Out& out, std::int64_t begin, std::int64_t end) {
  alignas(16) __shared__ TileBuffers<kPer> left_buffers;
  alignas(16) __shared__ TileBuffers<kPer> right_buffers;
  TileRounds<kPer, Left, Right> rounds(left, right, left_buffers, right_buffers);
  const TilePlace place;
  std::int64_t group_number = begin / kGroupPositions;
  int left_over = static_cast<int>((end - begin + kTileStep - 1) / kTileStep);  // rounds
  do {
    float group[kPer][kPer] = {};
    for (int blocks = kDotGroup; blocks > 0 && left_over > 0; --blocks) {
      float block[kPer][kPer] = {};
      int count = left_over < kBlockRounds ? left_over : kBlockRounds;
      left_over -= count;
      rounds.begin_block();
      for (; count > 0; --count) rounds.round(block);
      DGX_UNROLL
      for (int i = 0; i < kPer; ++i) {
        DGX_UNROLL
        for (int j = 0; j < kPer; ++j) group[i][j] = group[i][j] + block[i][j];
      }
    }
    put_group<kPer>(out, place, group, group_number);
    ++group_number;
  } while (left_over > 0);
  wait_for_copies<0>();  // those of rounds that do not come
}

}  // namespace dgx::kernels::cuda
