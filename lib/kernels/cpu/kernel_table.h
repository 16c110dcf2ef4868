#pragma once

#include <cstddef>
#include <cstdint>

#include "dgx/core/range.h"
#include "dgx/kernels/cpu/dispatch.h"
#include "dgx/kernels/cpu/window_run.h"

namespace dgx::kernels::cpu {

/// One call of a micro-kernel: `rows` rows × `panels` panels of C, over one block of the depth.
struct TileTask {
  std::int64_t depth = 0;         ///< at most kDotBlock
  const float* a = nullptr;       ///< element (i, k) of A is a[i * a_row_stride + k * a_step]
  std::int64_t a_row_stride = 0;  ///< 1, or else a_step is 1
  std::int64_t a_step = 0;
  const float* b = nullptr;  ///< element (k, lane) of panel s is b[s * b_panel_stride + k * b_step + lane]
  std::int64_t b_panel_stride = 0;
  std::int64_t b_step = 0;
  const float* group = nullptr;  ///< tile of the group's sum so far, [rows][panels][16]; null: +0
  bool accumulate = false;       ///< then add `out`, which holds the sum of the groups before
  /// The block began before the task, or goes on after it: its sums start at `out`, and go back there as they
  /// are. Not for window_columns.
  bool resumes = false;
  float* out = nullptr;  ///< element (i, s, lane) is out[i * out_row_stride + s * out_panel_stride + lane]
  std::int64_t out_row_stride = 0;
  std::int64_t out_panel_stride = 0;
  const char* ahead = nullptr;  ///< memory to fetch meanwhile: ahead + k * ahead_step for each k
  std::int64_t ahead_step = 0;
};

/// The kernels of one instruction set.
struct KernelTable {
  int tile_rows;       ///< most rows of a tile
  int tile_panels;     ///< most panels of a tile
  int one_panel_rows;  ///< most rows of a one-panel tile of window_runs; at most 32
  /// Runs the micro-kernel for 1 … tile_rows rows and 1 … tile_panels panels.
  void (*tile)(const TileTask& task, int rows, int panels);
  /// The positions of the task's block without those at either end at which all of these rows of A, or all of
  /// these panels of B, are ±0. For a row-major row panel some of these zeros may be kept.
  Range (*terms_of_row_panel)(const TileTask& task, int rows);
  Range (*terms_of_panels)(const TileTask& task, int panels);
  bool (*all_finite)(const float* x, std::int64_t rows, std::int64_t columns, std::int64_t row_stride);
  /// to[k * width + i] = from[k + i * lane_stride], i < width ≤ 16. May write up to 16 floats beyond the end.
  void (*pack_transposed)(float* to, int width, const float* from, std::int64_t lane_stride,
                          std::int64_t depth);
  void (*column_dot_one)(std::int64_t rows, std::int64_t columns, const float* x, std::int64_t row_stride,
                         float* out);
  /// to[i] += from[i], += from[i + width], … for each of the rows; width is a multiple of 32.
  void (*add_rows)(float* to, const float* from, std::int64_t rows, std::int64_t width);
  /// sum of at most kSumBlock numbers.
  float (*block_sum)(const float* x, std::int64_t count);
  /// max; any NaN gives some NaN.
  float (*max)(const float* x, std::int64_t count);
  /// Tiles of window products. `window_columns`: A is packed, `rows` numbers per k; panels of B are adjacent,
  /// at b + offsets[k]. `window_rows`: element (i, k) of A is a[i * a_row_stride + offsets[k]]; B is packed,
  /// 16 numbers per k.
  void (*window_columns)(const TileTask& task, const std::int32_t* offsets, int rows, int panels);
  void (*window_rows)(const TileTask& task, const std::int32_t* offsets, int rows, int panels);
  void (*window_runs)(const TileTask& task, const WindowRun* runs, std::size_t count, int rows, int panels);
  /// Tiles of three panels and 1 … tap_rows rows, which are adjacent in A. Here the rows of a run (WindowRun)
  /// are panels: those that take no part are left out, or zeros.
  int tap_rows;  ///< 0: window_taps is null
  void (*window_taps)(const TileTask& task, const WindowRun* runs, std::size_t count, int rows);
};

const KernelTable& scalar_kernels();
/// The table of a set that this build has.
const KernelTable& kernels_of(InstructionSet set);
inline const KernelTable& current_kernels() { return kernels_of(current_instruction_set()); }

}  // namespace dgx::kernels::cpu
