// Included by simd_kernels.cc, in its namespace, once for each instruction set.

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
inline constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));
inline constexpr int kPanelVectors = 16 / kLanes;

// The accumulators, one row's operands and nothing else must fit the registers: 14 × 2 panels of 32 with
// AVX-512, 6 × 2 vectors of 16 with AVX2, 6 × 4 of 32 with NEON.
#if HWY_TARGET == HWY_AVX3
inline constexpr int kTileRows = 14;
inline constexpr int kTilePanels = 2;
#else
inline constexpr int kTileRows = 6;
inline constexpr int kTilePanels = 1;
#endif

// The row panel of A as the micro-kernel reads it: the kRows elements of one k, then the next k.
template <int kRows>
struct ColumnsOfRowPanel {  // rows are adjacent: packed, or A is transposed
  explicit ColumnsOfRowPanel(const TileTask& task) : at(task.a), step(task.a_step) {}
  HWY_INLINE float row(int i) const { return at[i]; }
  HWY_INLINE void next() { at += step; }
  const float* HWY_RESTRICT at;
  const std::int64_t step;
};

template <int kRows>
struct RowsOfRowPanel {  // k are adjacent; one pointer per three rows, as many as there are registers for
  explicit RowsOfRowPanel(const TileTask& task) : stride(task.a_row_stride) {
    for (int i = 0; i < kPointers; ++i) at[i] = task.a + 3 * i * stride;
  }
  HWY_INLINE float row(int i) const { return at[i / 3][i % 3 * stride]; }
  HWY_INLINE void next() {
#pragma GCC unroll 8
    for (int i = 0; i < kPointers; ++i) ++at[i];
  }
  static constexpr int kPointers = (kRows + 2) / 3;
  const float* HWY_RESTRICT at[kPointers];
  const std::int64_t stride;
};

template <int kRows, int kVectors>
HWY_INLINE void clear(V (&sums)[kRows][kVectors]) {
#pragma GCC unroll 32
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) sums[i][v] = hn::Zero(D());
  }
}

// The place of vector v of row i in the task's `out`.
HWY_INLINE float* place_of(const TileTask& task, int i, int v) {
  return task.out + i * task.out_row_stride + v / kPanelVectors * task.out_panel_stride +
         v % kPanelVectors * kLanes;
}

// Loads the sums of a block that began before the task.
template <int kRows, int kVectors>
HWY_INLINE void load_block(const TileTask& task, V (&sums)[kRows][kVectors]) {
#pragma GCC unroll 32
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) sums[i][v] = hn::LoadU(D(), place_of(task, i, v));
  }
}

// Stores the sums of a block that goes on after the task.
template <int kRows, int kVectors>
HWY_INLINE void store_block(const TileTask& task, const V (&sums)[kRows][kVectors]) {
#pragma GCC unroll 32
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sums[i][v], D(), place_of(task, i, v));
  }
}

// Closes a block: adds it to its group, and a finished group to the groups before.
template <int kRows, int kVectors>
HWY_INLINE void store_tile(const TileTask& task, const V (&sums)[kRows][kVectors]) {
  const D d;
  // Copies, because a store through `out` might change `task` as far as the compiler knows.
  float* const out = task.out;
  const float* const group = task.group;
  const bool accumulate = task.accumulate;
  const std::int64_t row_stride = task.out_row_stride;
  const std::int64_t out_panel_stride = task.out_panel_stride;
#pragma GCC unroll 32
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      float* to = out + i * row_stride + v / kPanelVectors * out_panel_stride + v % kPanelVectors * kLanes;
      const V before = group != nullptr ? hn::LoadU(d, group + (i * kVectors + v) * kLanes) : hn::Zero(d);
      V sum = hn::Add(before, sums[i][v]);
      if (accumulate) sum = hn::Add(hn::LoadU(d, to), sum);
      hn::StoreU(sum, d, to);
    }
  }
}

template <class RowPanel, int kRows, int kPanels>
void tile(const TileTask& task) {
  constexpr int kVectors = kPanels * kPanelVectors;
  const D d;
  V sums[kRows][kVectors];
  clear(sums);
  if (HWY_UNLIKELY(task.resumes)) load_block<kRows, kVectors>(task, sums);
  RowPanel row_panel(task);
  const float* HWY_RESTRICT b = task.b;
  const std::int64_t b_step = task.b_step;
  const std::int64_t panel_stride = task.b_panel_stride;
  const char* ahead = task.ahead != nullptr ? task.ahead : reinterpret_cast<const char*>(b);
  const std::int64_t ahead_step = task.ahead_step;
  for (std::int64_t k = task.depth; k > 0; --k) {
    V lanes[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      lanes[v] = hn::LoadU(d, b + v / kPanelVectors * panel_stride + v % kPanelVectors * kLanes);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      const V x = hn::Set(d, row_panel.row(i));
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sums[i][v] = hn::MulAdd(x, lanes[v], sums[i][v]);
    }
    row_panel.next();
    b += b_step;
    __builtin_prefetch(ahead, 0, 3);
    ahead += ahead_step;
  }
  if (HWY_UNLIKELY(task.resumes)) return store_block<kRows, kVectors>(task, sums);
  store_tile<kRows, kVectors>(task, sums);
}

using TileFunction = void (*)(const TileTask&);

template <template <int> class RowPanel, int kPanels, int... kIndices>
void run_tile(const TileTask& task, int rows, std::integer_sequence<int, kIndices...>) {
  static constexpr TileFunction kTable[] = {tile<RowPanel<kIndices + 1>, kIndices + 1, kPanels>...};
  kTable[rows - 1](task);
}

template <int kPanels>
void run_panels(const TileTask& task, int rows) {
  constexpr auto kRowIndices = std::make_integer_sequence<int, kTileRows>();
  if (task.a_row_stride == 1) {
    run_tile<ColumnsOfRowPanel, kPanels>(task, rows, kRowIndices);
  } else {
    run_tile<RowsOfRowPanel, kPanels>(task, rows, kRowIndices);
  }
}

void tile_of(const TileTask& task, int rows, int panels) {
  if (panels == kTilePanels) {
    run_panels<kTilePanels>(task, rows);
  } else {
    run_panels<1>(task, rows);
  }
}

// A vector whose 4-lane block j holds the first 4 floats of row min(first + 4 j, last).
HWY_INLINE V load_blocks(const float* from, std::int64_t stride, int first, int last) {
  const D d;
  const auto row = [=](int j) { return from + std::min(first + 4 * j, last) * stride; };
#if HWY_TARGET == HWY_AVX3
  const hn::Half<D> half;
  const hn::Half<hn::Half<D>> quarter;
  return hn::Combine(d, hn::Combine(half, hn::LoadU(quarter, row(3)), hn::LoadU(quarter, row(2))),
                     hn::Combine(half, hn::LoadU(quarter, row(1)), hn::LoadU(quarter, row(0))));
#elif HWY_TARGET == HWY_AVX2
  const hn::Half<D> half;
  return hn::Combine(d, hn::LoadU(half, row(1)), hn::LoadU(half, row(0)));
#else
  return hn::LoadU(d, row(0));
#endif
}

// 4 × 4 transposes: rows r0 … r3 of every block become columns.
HWY_INLINE void transpose_blocks(const V r0, const V r1, const V r2, const V r3, V* out) {
  const D d;
  const hn::Repartition<double, D> wide;
  const auto low01 = hn::BitCast(wide, hn::InterleaveLower(d, r0, r1));
  const auto low23 = hn::BitCast(wide, hn::InterleaveLower(d, r2, r3));
  const auto high01 = hn::BitCast(wide, hn::InterleaveUpper(d, r0, r1));
  const auto high23 = hn::BitCast(wide, hn::InterleaveUpper(d, r2, r3));
  out[0] = hn::BitCast(d, hn::InterleaveLower(wide, low01, low23));
  out[1] = hn::BitCast(d, hn::InterleaveUpper(wide, low01, low23));
  out[2] = hn::BitCast(d, hn::InterleaveLower(wide, high01, high23));
  out[3] = hn::BitCast(d, hn::InterleaveUpper(wide, high01, high23));
}

// out[k] lane i is element k of row i, for 4 kQuads elements of the kLanes rows from `first`. All of a row's
// elements are read before the next row's: rows a power of two apart share a cache set, which holds fewer
// lines than there are rows.
template <int kQuads>
HWY_INLINE void load_transposed(const float* from, std::int64_t stride, int first, int last, V* out) {
  V rows[4][kQuads];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
#pragma GCC unroll 4
    for (int q = 0; q < kQuads; ++q) rows[i][q] = load_blocks(from + 4 * q, stride, first + i, last);
  }
#pragma GCC unroll 4
  for (int q = 0; q < kQuads; ++q)
    transpose_blocks(rows[0][q], rows[1][q], rows[2][q], rows[3][q], out + 4 * q);
}

// Packs 4 kQuads k of the row panel. If width is not a multiple of the lanes, stores overlap the next k's
// place, so they go in ascending order.
template <int kVectors, int kQuads>
HWY_INLINE void transpose_some(float* to, int width, const float* from, std::int64_t lane_stride) {
  V columns[kVectors][4 * kQuads];
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v)
    load_transposed<kQuads>(from, lane_stride, v * kLanes, width - 1, columns[v]);
#pragma GCC unroll 16
  for (int k = 0; k < 4 * kQuads; ++k) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) hn::StoreU(columns[v][k], D(), to + k * width + v * kLanes);
  }
}

template <int kVectors>
void transpose(float* to, int width, const float* from, std::int64_t lane_stride, std::int64_t depth) {
  constexpr int kQuads = kLanes == 16 ? 4 : 1;
  std::int64_t k = 0;
  for (; k + 4 * kQuads <= depth; k += 4 * kQuads) {
    transpose_some<kVectors, kQuads>(to + k * width, width, from + k, lane_stride);
  }
  for (; k + 4 <= depth; k += 4) transpose_some<kVectors, 1>(to + k * width, width, from + k, lane_stride);
  for (; k < depth; ++k) {
    for (int i = 0; i < width; ++i) to[k * width + i] = from[i * lane_stride + k];
  }
}

void pack_transposed(float* to, int width, const float* from, std::int64_t lane_stride, std::int64_t depth) {
  if (width <= kLanes) return transpose<1>(to, width, from, lane_stride, depth);
#if HWY_TARGET != HWY_AVX3
  if (width <= 2 * kLanes) return transpose<2>(to, width, from, lane_stride, depth);
  transpose<kPanelVectors>(to, width, from, lane_stride, depth);
#endif
}
