// Included after simd_matmul-inl.h: tiles that read both operands in place, run by run (WindowRun).

// Most rows of a one-panel tile. With AVX-512 each number loaded from A serves one multiplication only, so
// the more rows share the panel's load the better.
#if HWY_TARGET == HWY_AVX3
inline constexpr int kOnePanelRows = 28;
#else
inline constexpr int kOnePanelRows = kTileRows;
#endif

// Adds rows [kFirst, kEnd) of a run; one pointer per three or five rows, as many as there are registers for.
template <int kRows, int kVectors, int kFirst, int kEnd>
HWY_INLINE void add_run(const TileTask& task, const WindowRun& run, V (&sums)[kRows][kVectors]) {
  constexpr int kRowsOfPointer = kRows > kTileRows ? 5 : 3;
  constexpr int kPointers = ceil_div(kRows, kRowsOfPointer);
  const D d;
  const std::int64_t stride = task.a_row_stride;
  const std::int64_t step = task.a_step;
  const std::int64_t b_step = task.b_step;
  const std::int64_t panel_stride = task.b_panel_stride;
  const float* HWY_RESTRICT b = task.b + run.b;
  const float* HWY_RESTRICT at[kPointers];
#pragma GCC unroll 8
  for (int p = 0; p < kPointers; ++p) at[p] = task.a + run.a + kRowsOfPointer * p * stride;
  for (std::int64_t t = run.count; t > 0; --t) {
    V lanes[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      lanes[v] = hn::LoadU(d, b + v / kPanelVectors * panel_stride + v % kPanelVectors * kLanes);
    }
#pragma GCC unroll 32
    for (int i = kFirst; i < kEnd; ++i) {
      const V x = hn::Set(d, at[i / kRowsOfPointer][i % kRowsOfPointer * stride]);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sums[i][v] = hn::MulAdd(x, lanes[v], sums[i][v]);
    }
#pragma GCC unroll 8
    for (int p = 0; p < kPointers; ++p) at[p] += step;
    b += b_step;
  }
}

// add_run() for a tile that is partly outside: rows outside [run.begin, run.end) read a zero.
template <int kRows, int kVectors>
HWY_INLINE void add_some_rows(const TileTask& task, const WindowRun& run, V (&sums)[kRows][kVectors]) {
  static constexpr float kZero = 0;
  const D d;
  const float* at[kRows];
  std::int64_t steps[kRows];
  for (int i = 0; i < kRows; ++i) {
    const bool inside = i >= run.begin && i < run.end;
    at[i] = inside ? task.a + run.a + i * task.a_row_stride : &kZero;
    steps[i] = inside ? task.a_step : 0;
  }
  const float* b = task.b + run.b;
  for (std::int64_t t = run.count; t > 0; --t) {
    V lanes[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      lanes[v] = hn::LoadU(d, b + v / kPanelVectors * task.b_panel_stride + v % kPanelVectors * kLanes);
    }
#pragma GCC unroll 32
    for (int i = 0; i < kRows; ++i) {
      const V x = hn::Set(d, *at[i]);
      at[i] += steps[i];
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sums[i][v] = hn::MulAdd(x, lanes[v], sums[i][v]);
    }
    b += task.b_step;
  }
}

template <int kRows, int kPanels>
void window_runs_tile(const TileTask& task, const WindowRun* runs, std::size_t count) {
  constexpr int kVectors = kPanels * kPanelVectors;
  V sums[kRows][kVectors];
  clear(sums);
  if (HWY_UNLIKELY(task.resumes)) load_block<kRows, kVectors>(task, sums);
  for (const WindowRun* run = runs; run < runs + count; ++run) {
    switch (run->rows) {
      case WindowRun::Rows::kAll: add_run<kRows, kVectors, 0, kRows>(task, *run, sums); break;
      case WindowRun::Rows::kButFirst: add_run<kRows, kVectors, 1, kRows>(task, *run, sums); break;
      case WindowRun::Rows::kButLast: add_run<kRows, kVectors, 0, kRows - 1>(task, *run, sums); break;
      case WindowRun::Rows::kSome: add_some_rows<kRows, kVectors>(task, *run, sums); break;
    }
  }
  if (HWY_UNLIKELY(task.resumes)) return store_block<kRows, kVectors>(task, sums);
  store_tile<kRows, kVectors>(task, sums);
}

using RunsTileFunction = void (*)(const TileTask&, const WindowRun*, std::size_t);

template <int kPanels, int... kIndices>
void run_window_runs(const TileTask& task, const WindowRun* runs, std::size_t count, int rows,
                     std::integer_sequence<int, kIndices...>) {
  static constexpr RunsTileFunction kTable[] = {window_runs_tile<kIndices + 1, kPanels>...};
  kTable[rows - 1](task, runs, count);
}

void window_runs(const TileTask& task, const WindowRun* runs, std::size_t count, int rows, int panels) {
  if (panels == 1)
    return run_window_runs<1>(task, runs, count, rows, std::make_integer_sequence<int, kOnePanelRows>());
  run_window_runs<kTilePanels>(task, runs, count, rows, std::make_integer_sequence<int, kTileRows>());
}

// Weight gradients of 16 planes: rows are adjacent columns of the other side and panels the planes at three
// taps, so that each number read serves three multiplications. The rows of a run (WindowRun) are panels here.
#if HWY_TARGET == HWY_AVX3
inline constexpr int kTapRows = 8;
#else
inline constexpr int kTapRows = 0;  // too few registers
#endif
inline constexpr int kTaps = 3;

template <int kRows, int kFirst, int kEnd>
HWY_INLINE void add_taps(const TileTask& task, const WindowRun& run, V (&sums)[kRows][kTaps]) {
  const D d;
  const std::int64_t a_step = task.a_step;
  const std::int64_t b_step = task.b_step;
  const float* HWY_RESTRICT a = task.a + run.a;
  const float* HWY_RESTRICT at[kTaps];
#pragma GCC unroll 3
  for (int v = kFirst; v < kEnd; ++v) at[v] = task.b + run.b + v * task.b_panel_stride;
  for (std::int64_t t = run.count; t > 0; --t) {
    V lanes[kTaps];
#pragma GCC unroll 3
    for (int v = kFirst; v < kEnd; ++v) {
      lanes[v] = hn::LoadU(d, at[v]);
      at[v] += b_step;
    }
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const V x = hn::Set(d, a[i]);
#pragma GCC unroll 3
      for (int v = kFirst; v < kEnd; ++v) sums[i][v] = hn::MulAdd(x, lanes[v], sums[i][v]);
    }
    a += a_step;
  }
}

// add_taps() for a tile that is partly outside: panels outside [run.begin, run.end) are zeros.
template <int kRows>
HWY_INLINE void add_some_taps(const TileTask& task, const WindowRun& run, V (&sums)[kRows][kTaps]) {
  const D d;
  for (std::int64_t t = 0; t < run.count; ++t) {
    const float* const a = task.a + run.a + t * task.a_step;
    const float* const b = task.b + run.b + t * task.b_step;
#pragma GCC unroll 3
    for (int v = 0; v < kTaps; ++v) {
      const V lanes = v >= run.begin && v < run.end ? hn::LoadU(d, b + v * task.b_panel_stride) : hn::Zero(d);
#pragma GCC unroll 8
      for (int i = 0; i < kRows; ++i) sums[i][v] = hn::MulAdd(hn::Set(d, a[i]), lanes, sums[i][v]);
    }
  }
}

template <int kRows>
void window_taps_tile(const TileTask& task, const WindowRun* runs, std::size_t count) {
  V sums[kRows][kTaps];
  clear(sums);
  if (HWY_UNLIKELY(task.resumes)) load_block<kRows, kTaps>(task, sums);
  for (const WindowRun* run = runs; run < runs + count; ++run) {
    switch (run->rows) {
      case WindowRun::Rows::kAll: add_taps<kRows, 0, kTaps>(task, *run, sums); break;
      case WindowRun::Rows::kButFirst: add_taps<kRows, 1, kTaps>(task, *run, sums); break;
      case WindowRun::Rows::kButLast: add_taps<kRows, 0, kTaps - 1>(task, *run, sums); break;
      case WindowRun::Rows::kSome: add_some_taps<kRows>(task, *run, sums); break;
    }
  }
  if (HWY_UNLIKELY(task.resumes)) return store_block<kRows, kTaps>(task, sums);
  store_tile<kRows, kTaps>(task, sums);
}

template <int... kIndices>
void run_window_taps(const TileTask& task, const WindowRun* runs, std::size_t count, int rows,
                     std::integer_sequence<int, kIndices...>) {
  static constexpr RunsTileFunction kTable[] = {window_taps_tile<kIndices + 1>..., nullptr};
  kTable[rows - 1](task, runs, count);
}

void window_taps(const TileTask& task, const WindowRun* runs, std::size_t count, int rows) {
  run_window_taps(task, runs, count, rows, std::make_integer_sequence<int, kTapRows>());
}
