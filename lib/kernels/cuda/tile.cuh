#pragma once

// A tile of dots, by a block of threads: out[r, c] = dot over k of left(r, k) · right(k, c), in the order of
// dgx-numerics(7), "Folds".
//
// A thread makes kTall × kWide outputs, 8 × 8 where there are enough of them. Both sides come through shared
// memory, a round of 16 positions at a time, by copies that bypass registers (async_copy.cuh) into two or
// three buffers: while one is multiplied, the next are on their way, and one barrier per round is enough. A
// round of 8 × 8 is 1,024 fma for 64 reads of 16 bytes from shared memory and 4 to 24 copies per thread, so
// that the fma decide the time.
//
// Blocks of 256 positions end between two rounds. A block's running results are in registers. The group's are
// touched only once per 256 positions and kept in local memory meanwhile, so that 16 warps share a
// multiprocessor's registers. Local memory is written through to the L2 cache, so the first block of a group
// reads no sums from it, and the last leaves none in it if the outputs are put in fours: shallow products
// would else wait for it. A group's
// result, once per 4,096 positions, goes to memory (Out), so no third set is needed. Beyond the depth both
// sides are 0: adding 0 · 0 to a block changes at most -0 to +0, which makes no difference when the block is
// added to a group's +0. Lines that do not exist hold zeros or another line; their outputs are not stored.

#include "words.h"

#include <climits>
#include <cstdint>

#include "async_copy.cuh"
#include "dgx/kernels/fold_order.h"

namespace dgx::kernels::cuda {

inline constexpr int kTileStep = 16;  ///< positions of a round
inline constexpr int kBlockRounds = static_cast<int>(kDotBlock) / kTileStep;
static_assert(kDotBlock % kTileStep == 0);

/// One side of a tile: kAlong threads with kPer_ lines each.
template <int kAlong, int kPer_, int kThreads_>
struct TileSide {
  static constexpr int kPer = kPer_, kThreads = kThreads_, kLines = kAlong * kPer;
  static constexpr int kLoads = kLines * kTileStep / kThreads;  ///< elements of a round that a thread copies
  static constexpr int kRun = kPer < 4 ? kPer : 4;
  /// Lines are padded so that 8 positions of 4 lines are in 32 different banks.
  static constexpr int kPitch = kLines + 4;
  using Buffer = float[kTileStep][kPitch];

  /// Line i of a thread: its lines come in runs of kRun adjacent ones, with the runs of all threads side by
  /// side.
  __device__ static int line(int thread, int i) { return (i / kRun * kAlong + thread) * kRun + i % kRun; }

  __device__ static void read(const Buffer& buffer, int k, int thread, float (&out)[kPer]) {
    DGX_UNROLL
    for (int run = 0; run < kPer / kRun; ++run) {
      const auto row = *reinterpret_cast<const Numbers<kRun>*>(&buffer[k][line(thread, run * kRun)]);
      DGX_UNROLL
      for (int i = 0; i < kRun; ++i) out[run * kRun + i] = row.at[i];
    }
  }
};

/// kDown × kAcross threads, each with kTall × kWide outputs.
template <int kDown_, int kAcross_, int kTall_, int kWide_>
struct TileShape {
  static constexpr int kDown = kDown_, kAcross = kAcross_, kTall = kTall_, kWide = kWide_;
  static constexpr int kThreads = kDown * kAcross, kRows = kDown * kTall, kColumns = kAcross * kWide;
  /// Blocks that share a multiprocessor: 128 registers per thread.
  static constexpr int kTogether = 512 / kThreads;
  using Left = TileSide<kDown, kTall, kThreads>;
  using Right = TileSide<kAcross, kWide, kThreads>;
  static constexpr int kBufferBytes =
      static_cast<int>(sizeof(typename Left::Buffer) + sizeof(typename Right::Buffer));
  static constexpr int kBuffers = 3 * kBufferBytes <= 40960 ? 3 : 2;
};

/// A thread's place in its tile. A warp is 4 × 8 threads. Among 16 consecutive threads pairs read the same
/// columns, and neighbouring pairs the same rows: then the 16 bytes for each of the 16 are read at once.
template <class Tile>
struct TilePlace {
  static_assert(Tile::kDown % 4 == 0 && Tile::kAcross % 8 == 0);
  __device__ TilePlace() {
    constexpr int kWarpsAcross = Tile::kAcross / 8;
    const int t = static_cast<int>(threadIdx.x), warp = t / 32, lane = t % 32;
    row = warp / kWarpsAcross * 4 + lane / 16 * 2 + lane % 2;
    column = warp % kWarpsAcross * 8 + lane % 16 / 2;
  }
  int row, column;
};

template <class Tile>
struct TileBuffers {
  alignas(16) typename Tile::Left::Buffer left[Tile::kBuffers];
  alignas(16) typename Tile::Right::Buffer right[Tile::kBuffers];
};

/// Feeds the rounds: keeps all buffers but one on their way, and multiplies the one that has arrived.
template <class Tile, class Left, class Right>
class TileRounds {
 public:
  /// `positions`: the number of positions in all rounds.
  __device__ TileRounds(Left& left, Right& right, TileBuffers<Tile>& buffers, int positions)
      : left_(left),
        right_(right),
        buffers_(buffers),
        positions_(positions),
        whole_(left.has_all_lines() && right.has_all_lines() ? kTileStep : INT_MAX),
        to_left_(&buffers.left[0][0][0] + left.share()),
        to_right_(&buffers.right[0][0][0] + right.share()) {
    left_.start();
    right_.start();
    __syncthreads();
    left_.started();
    right_.started();
    __syncthreads();
    for (int n = 0; n < Tile::kBuffers - 1; ++n) copy(false);
  }

  /// Call before the first round of each block of positions.
  __device__ void begin_block() {
    left_.begin_block();
    right_.begin_block();
  }

  /// Adds the products of the next round to `sums`.
  __device__ void round(float (&sums)[Tile::kTall][Tile::kWide]) {
    wait_for_copies<Tile::kBuffers - 2>();
    __syncthreads();
    copy(buffer_ == 0);  // over the buffer that all threads have used
    const typename Tile::Left::Buffer& left = buffers_.left[buffer_];
    const typename Tile::Right::Buffer& right = buffers_.right[buffer_];
    float a[2][Tile::kTall], b[2][Tile::kWide];  // read one position ahead
    Tile::Left::read(left, 0, place_.row, a[0]);
    Tile::Right::read(right, 0, place_.column, b[0]);
    DGX_UNROLL
    for (int k = 0; k < kTileStep; ++k) {
      if (k + 1 < kTileStep) {
        Tile::Left::read(left, k + 1, place_.row, a[(k + 1) % 2]);
        Tile::Right::read(right, k + 1, place_.column, b[(k + 1) % 2]);
      }
      DGX_UNROLL
      for (int i = 0; i < Tile::kTall; ++i) {
        DGX_UNROLL
        for (int j = 0; j < Tile::kWide; ++j) sums[i][j] = fmaf(a[k % 2][i], b[k % 2][j], sums[i][j]);
      }
    }
    buffer_ = buffer_ + 1 == Tile::kBuffers ? 0 : buffer_ + 1;
  }

 private:
  /// Begins the copies of a round to the next buffer.
  __device__ void copy(bool is_last_buffer) {
    if (!Left::kHasEdges && !Right::kHasEdges) {
      left_.template copy<true>(to_left_, positions_);
      right_.template copy<true>(to_right_, positions_);
    } else if (positions_ >= whole_) {
      left_.template copy<true>(to_left_, positions_);
      right_.template copy<true>(to_right_, positions_);
    } else {
      left_.template copy<false>(to_left_, positions_);
      right_.template copy<false>(to_right_, positions_);
    }
    end_copies();
    positions_ -= kTileStep;
    constexpr int kLeft = sizeof(typename Tile::Left::Buffer), kRight = sizeof(typename Tile::Right::Buffer),
                  kBack = -(Tile::kBuffers - 1);
    to_left_.move(is_last_buffer ? kBack * kLeft : kLeft);
    to_right_.move(is_last_buffer ? kBack * kRight : kRight);
  }

  Left& left_;
  Right& right_;
  TileBuffers<Tile>& buffers_;
  const TilePlace<Tile> place_;
  int positions_, whole_;  // positions not copied yet; and the fewest that make a whole round
  SharedPlace to_left_, to_right_;
  int buffer_ = 0;
};

/// A thread's sums of the blocks of a group so far, row after row. They are touched only once per 256
/// positions, so the compiler is made to keep them in local memory rather than in registers.
template <class Tile>
class GroupSums {
 public:
  static constexpr int kRun = Tile::Right::kRun, kRuns = Tile::kWide / kRun;

  __device__ GroupSums() : at_(sums_) {
#ifdef __CUDA_ARCH__
    asm volatile("" : "+l"(at_));
#endif
  }
  GroupSums(const GroupSums&) = delete;

  /// Adds what is kept to a block's sums, or +0 if that block is the group's first.
  __device__ void add_to(float (&block)[Tile::kTall][Tile::kWide], bool is_first) const {
    DGX_UNROLL
    for (int n = 0; n < Tile::kTall * kRuns; ++n) {
      Numbers<kRun> sums{};
      if (!is_first) sums = at_[n];
      DGX_UNROLL
      for (int j = 0; j < kRun; ++j) {
        float& number = block[n / kRuns][n % kRuns * kRun + j];
        number = sums.at[j] + number;
      }
    }
  }
  __device__ void keep(const float (&sums)[Tile::kTall][Tile::kWide]) {
    DGX_UNROLL
    for (int n = 0; n < Tile::kTall * kRuns; ++n) at_[n] = run_of(sums, n / kRuns, n % kRuns);
  }
  /// A row's run of what is kept.
  [[nodiscard]] __device__ const Numbers<kRun>& kept(int row, int run) const {
    return at_[row * kRuns + run];
  }

  /// A row's run of sums in registers.
  [[nodiscard]] __device__ static Numbers<kRun> run_of(const float (&sums)[Tile::kTall][Tile::kWide], int row,
                                                       int run) {
    Numbers<kRun> out;
    DGX_UNROLL
    for (int j = 0; j < kRun; ++j) out.at[j] = sums[row][run * kRun + j];
    return out;
  }

 private:
  Numbers<kRun> sums_[Tile::kTall * kRuns];
  Numbers<kRun>* at_;
};

/// Hands the sums of a group, the thread's kTall × kWide outputs, to `out` in fours.
template <class Tile, class Out>
__device__ void put_fours(const Out& out, const TilePlace<Tile>& place,
                          const float (&sums)[Tile::kTall][Tile::kWide], std::int64_t number) {
  using Sums = GroupSums<Tile>;
  const int first_row = not_before_here(place.row), first_column = not_before_here(place.column);
  std::int64_t columns[Sums::kRuns];
  DGX_UNROLL
  for (int run = 0; run < Sums::kRuns; ++run)
    columns[run] = out.column(Tile::Right::line(first_column, run * Sums::kRun));
  DGX_UNROLL
  for (int i = 0; i < Tile::kTall; ++i) {
    const std::int64_t row = out.row(Tile::Left::line(first_row, i));
    DGX_UNROLL
    for (int run = 0; run < Sums::kRuns; ++run) {
      if (row >= 0 && columns[run] >= 0) out.put(row + columns[run], Sums::run_of(sums, i, run), number);
    }
  }
}

/// Hands the sums of a group, which `group` keeps, to `out` one by one. Not unrolled: it would need more
/// registers than the rounds.
template <class Tile, class Out>
__device__ void put_ones(const Out& out, const TilePlace<Tile>& place, const GroupSums<Tile>& group,
                         std::int64_t number) {
  constexpr int kRun = GroupSums<Tile>::kRun;
  const int first_row = not_before_here(place.row), first_column = not_before_here(place.column);
  std::int64_t columns[Tile::kWide];
  DGX_UNROLL
  for (int j = 0; j < Tile::kWide; ++j) columns[j] = out.column(Tile::Right::line(first_column, j));
  DGX_NOT_UNROLLED
  for (int i = 0; i < Tile::kTall; ++i) {
    const std::int64_t row = out.row(Tile::Left::line(first_row, i));
    if (row < 0) continue;
    DGX_UNROLL
    for (int j = 0; j < Tile::kWide; ++j) {
      if (columns[j] >= 0)
        out.put(row + columns[j], Numbers<1>{{group.kept(i, j / kRun).at[j % kRun]}}, number);
    }
  }
}

/// Computes positions [begin, end) of a tile, fewer than 2^31; `begin` is where a group or a piece of one
/// begins, and the sides start there. Gives every group's sum of every output of the tile (one sum, 0, if
/// there are no positions), numbered from `group_number`, to `out`.
///
/// Out has
/// - std::int64_t row(int) const, column(int) const: the offset of a row or column of the tile; -1 if there
///   is none;
/// - bool in_fours: true if four columns from a multiple of four on exist together, adjacent and 16-byte
///   aligned;
/// - template <int n> void put(std::int64_t place, const Numbers<n>& sums, std::int64_t group) const.
///
/// Left and Right have
/// - bool has_all_lines() const: true if all lines of the tile exist;
/// - int share() const: the offset in a buffer, in numbers, of this thread's share;
/// - void start(), started(), begin_block(): called at the beginning, after start() of all threads, and
///   before the first round of each block of 256 positions;
/// - void copy<whole>(SharedPlace to, int positions): begins to copy this thread's share of the next round, 0
///   beyond the depth; `positions` are left; unless `whole`, some of the round's positions or of the lines
///   may not exist;
/// - kHasEdges: true if `whole` means anything.
///
/// A thread may read what others left in shared memory in begin_block() in all copies of the block but those
/// of its first two rounds, and what they left in start() in all copies.
template <class Tile, class Left, class Right, class Out>
__device__ void run_tile(Left& left, Right& right, const Out& out, std::int64_t begin, std::int64_t end,
                         std::int64_t group_number) {
  __shared__ TileBuffers<Tile> buffers;
  const auto positions = static_cast<int>(end - begin);
  TileRounds<Tile, Left, Right> rounds(left, right, buffers, positions);
  const TilePlace<Tile> place;
  int left_over = (positions - 1 + kTileStep) / kTileStep;  // rounds
  GroupSums<Tile> group;
  int blocks = 0;  // of the group so far
  do {
    float sums[Tile::kTall][Tile::kWide] = {};
    int count = left_over < kBlockRounds ? left_over : kBlockRounds;
    left_over -= count;
    rounds.begin_block();
    for (; count > 0; --count) rounds.round(sums);
    group.add_to(sums, blocks == 0);
    if (++blocks < kDotGroupBlocks && left_over > 0) {
      group.keep(sums);
      continue;
    }
    if (GroupSums<Tile>::kRun == 4 && out.in_fours) {
      put_fours(out, place, sums, group_number);
    } else {
      group.keep(sums);
      put_ones(out, place, group, group_number);
    }
    ++group_number;
    blocks = 0;
  } while (left_over > 0);
  wait_for_copies<0>();  // copies of rounds beyond the last
}

}  // namespace dgx::kernels::cuda
