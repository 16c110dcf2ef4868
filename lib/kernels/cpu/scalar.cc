#include <algorithm>
#include <cmath>
#include <limits>

#include "dgx/kernels/fold_order.h"
#include "kernel_table.h"

// The kernels in plain C++, for processors without fused multiply-add and as a check on the others.
namespace dgx::kernels::cpu {
namespace {

constexpr int kTileRows = 4;

/// The sums of a block that began before the task, if it did.
void load(const TileTask& task, int rows, float (&sums)[kTileRows][16]) {
  for (int i = 0; task.resumes && i < rows; ++i) std::copy_n(task.out + i * task.out_row_stride, 16, sums[i]);
}

void store(const TileTask& task, int rows, const float (&sums)[kTileRows][16]) {
  for (int i = 0; i < rows; ++i) {
    for (int l = 0; l < 16; ++l) {
      float* to = task.out + i * task.out_row_stride + l;
      if (task.resumes) {
        *to = sums[i][l];
        continue;
      }
      const float group = (task.group != nullptr ? task.group[i * 16 + l] : 0.0F) + sums[i][l];
      *to = task.accumulate ? *to + group : group;
    }
  }
}

// `a(i, k)` returns an element of A and `b(k)` the panel of B at k, from a row panel or from a window grid.
template <class ElementA, class PanelB>
void tile_of(const TileTask& task, int rows, ElementA a, PanelB b) {
  float sums[kTileRows][16] = {};
  load(task, rows, sums);
  for (std::int64_t k = 0; k < task.depth; ++k) {
    for (int i = 0; i < rows; ++i) {
      const float x = a(i, k);
      for (int l = 0; l < 16; ++l) sums[i][l] = std::fma(x, b(k)[l], sums[i][l]);
    }
  }
  store(task, rows, sums);
}

void tile(const TileTask& task, int rows, int /*panels*/) {
  tile_of(
      task, rows, [&](int i, std::int64_t k) { return task.a[i * task.a_row_stride + k * task.a_step]; },
      [&](std::int64_t k) { return task.b + k * task.b_step; });
}

Range all_terms(const TileTask& task, int /*rows or panels*/) { return {0, task.depth}; }

bool all_finite(const float* x, std::int64_t rows, std::int64_t columns, std::int64_t stride) {
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      if (!std::isfinite(x[r * stride + c])) return false;
    }
  }
  return true;
}

void window_columns(const TileTask& task, const std::int32_t* offsets, int rows, int /*panels*/) {
  tile_of(
      task, rows, [&](int i, std::int64_t k) { return task.a[k * rows + i]; },
      [&](std::int64_t k) { return task.b + offsets[k]; });
}

void window_rows(const TileTask& task, const std::int32_t* offsets, int rows, int /*panels*/) {
  tile_of(
      task, rows, [&](int i, std::int64_t k) { return task.a[i * task.a_row_stride + offsets[k]]; },
      [&](std::int64_t k) { return task.b + k * 16; });
}

void window_runs(const TileTask& task, const WindowRun* runs, std::size_t count, int rows, int /*panels*/) {
  float sums[kTileRows][16] = {};
  load(task, rows, sums);
  for (const WindowRun* run = runs; run < runs + count; ++run) {
    const int first = run->rows == WindowRun::Rows::kButFirst ? 1 : 0;
    const int end = run->rows == WindowRun::Rows::kButLast ? rows - 1 : rows;
    for (std::int64_t t = 0; t < run->count; ++t) {
      const float* b = task.b + run->b + t * task.b_step;
      for (int i = first; i < end; ++i) {
        const bool outside = run->rows == WindowRun::Rows::kSome && (i < run->begin || i >= run->end);
        const float x = outside ? 0.0F : task.a[run->a + i * task.a_row_stride + t * task.a_step];
        for (int l = 0; l < 16; ++l) sums[i][l] = std::fma(x, b[l], sums[i][l]);
      }
    }
  }
  store(task, rows, sums);
}

void pack_transposed(float* to, int width, const float* from, std::int64_t lane_stride, std::int64_t depth) {
  for (std::int64_t k = 0; k < depth; ++k) {
    for (int i = 0; i < width; ++i) to[k * width + i] = from[i * lane_stride + k];
  }
}

// column_dot_one for at most 16 columns.
void column_panel(std::int64_t rows, std::int64_t columns, const float* x, std::int64_t stride, float* out) {
  float total[16] = {};
  for (std::int64_t first = 0; first < rows; first += kDotGroupPositions) {
    float group[16] = {};
    const std::int64_t end = std::min(rows, first + kDotGroupPositions);
    for (std::int64_t block = first; block < end; block += kDotBlock) {
      float sums[16] = {};
      for (std::int64_t r = block; r < std::min(end, block + kDotBlock); ++r) {
        for (std::int64_t c = 0; c < columns; ++c) sums[c] += x[r * stride + c];
      }
      for (std::int64_t c = 0; c < columns; ++c) group[c] += sums[c];
    }
    for (std::int64_t c = 0; c < columns; ++c) total[c] += group[c];
  }
  std::copy_n(total, columns, out);
}

void column_dot_one(std::int64_t rows, std::int64_t columns, const float* x, std::int64_t stride,
                    float* out) {
  for (std::int64_t c = 0; c < columns; c += 16) {
    column_panel(rows, std::min<std::int64_t>(16, columns - c), x + c, stride, out + c);
  }
}

void add_rows(float* to, const float* from, std::int64_t rows, std::int64_t width) {
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t i = 0; i < width; ++i) to[i] += from[r * width + i];
  }
}

float block_sum(const float* x, std::int64_t count) {
  constexpr int kLanes = kSumLanes;
  float lanes[kLanes] = {};
  for (std::int64_t i = 0; i < count; ++i) lanes[i % kLanes] += x[i];
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    for (int l = 0; l < distance; ++l) lanes[l] += lanes[l + distance];
  }
  return lanes[0];
}

float max_of(const float* x, std::int64_t count) {
  float best = -std::numeric_limits<float>::infinity();
  for (std::int64_t i = 0; i < count; ++i) {
    const float value = x[i] + 0.0F;
    if (value != value) return value;
    best = value > best ? value : best;
  }
  return best;
}

}  // namespace

const KernelTable& scalar_kernels() {
  static constexpr KernelTable kTable = {
      .tile_rows = kTileRows,
      .tile_panels = 1,
      .one_panel_rows = kTileRows,
      .tile = tile,
      .terms_of_row_panel = all_terms,
      .terms_of_panels = all_terms,
      .all_finite = all_finite,
      .pack_transposed = pack_transposed,
      .column_dot_one = column_dot_one,
      .add_rows = add_rows,
      .block_sum = block_sum,
      .max = max_of,
      .window_columns = window_columns,
      .window_rows = window_rows,
      .window_runs = window_runs,
      .tap_rows = 0,
      .window_taps = nullptr,
  };
  return kTable;
}

}  // namespace dgx::kernels::cpu
