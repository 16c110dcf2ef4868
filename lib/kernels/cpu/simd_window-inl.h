// Included after simd_matmul-inl.h: the same tiles with one operand in a window grid
// (dgx/kernels/cpu/window.h), whose offset for each k comes from a table.

// A packed ([k][row]), panels of B at b + offsets[k].
template <int kRows, int kPanels>
void window_columns_tile(const TileTask& task, const std::int32_t* HWY_RESTRICT offsets) {
  constexpr int kVectors = kPanels * kPanelVectors;
  const D d;
  V sums[kRows][kVectors];
  clear(sums);
  const float* HWY_RESTRICT a = task.a;
  for (std::int64_t k = 0; k < task.depth; ++k) {
    const float* HWY_RESTRICT b = task.b + offsets[k];
    V lanes[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) lanes[v] = hn::LoadU(d, b + v * kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      const V x = hn::Set(d, a[i]);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sums[i][v] = hn::MulAdd(x, lanes[v], sums[i][v]);
    }
    a += kRows;
  }
  store_tile<kRows, kVectors>(task, sums);
}

// Row i of A at a + i * a_row_stride + offsets[k], panels of B packed.
template <int kRows, int kPanels>
void window_rows_tile(const TileTask& task, const std::int32_t* HWY_RESTRICT offsets) {
  constexpr int kVectors = kPanels * kPanelVectors;
  constexpr int kPointers = (kRows + 2) / 3;  // one per three rows, as many as there are registers for
  const D d;
  V sums[kRows][kVectors];
  clear(sums);
  if (HWY_UNLIKELY(task.resumes)) load_block<kRows, kVectors>(task, sums);
  const std::int64_t stride = task.a_row_stride;
  const float* HWY_RESTRICT b = task.b;
  for (std::int64_t k = 0; k < task.depth; ++k) {
    V lanes[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      lanes[v] = hn::LoadU(d, b + v / kPanelVectors * task.b_panel_stride + v % kPanelVectors * kLanes);
    }
    const float* HWY_RESTRICT at[kPointers];
    at[0] = task.a + offsets[k];
#pragma GCC unroll 8
    for (int i = 1; i < kPointers; ++i) at[i] = at[i - 1] + 3 * stride;
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      const V x = hn::Set(d, at[i / 3][i % 3 * stride]);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sums[i][v] = hn::MulAdd(x, lanes[v], sums[i][v]);
    }
    b += 16;
  }
  if (HWY_UNLIKELY(task.resumes)) return store_block<kRows, kVectors>(task, sums);
  store_tile<kRows, kVectors>(task, sums);
}

using WindowTileFunction = void (*)(const TileTask&, const std::int32_t*);

template <int kPanels, int... kIndices>
void run_window_columns(const TileTask& task, const std::int32_t* offsets, int rows,
                        std::integer_sequence<int, kIndices...>) {
  static constexpr WindowTileFunction kTable[] = {window_columns_tile<kIndices + 1, kPanels>...};
  kTable[rows - 1](task, offsets);
}

template <int kPanels, int... kIndices>
void run_window_rows(const TileTask& task, const std::int32_t* offsets, int rows,
                     std::integer_sequence<int, kIndices...>) {
  static constexpr WindowTileFunction kTable[] = {window_rows_tile<kIndices + 1, kPanels>...};
  kTable[rows - 1](task, offsets);
}

void window_columns(const TileTask& task, const std::int32_t* offsets, int rows, int panels) {
  constexpr auto kRowIndices = std::make_integer_sequence<int, kTileRows>();
  if (panels == kTilePanels) return run_window_columns<kTilePanels>(task, offsets, rows, kRowIndices);
  run_window_columns<1>(task, offsets, rows, kRowIndices);
}

void window_rows(const TileTask& task, const std::int32_t* offsets, int rows, int panels) {
  constexpr auto kRowIndices = std::make_integer_sequence<int, kTileRows>();
  if (panels == kTilePanels) return run_window_rows<kTilePanels>(task, offsets, rows, kRowIndices);
  run_window_rows<1>(task, offsets, rows, kRowIndices);
}
