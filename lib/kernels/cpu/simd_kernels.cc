// The kernels of every instruction set with vectors.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "dgx/core/checked.h"
#include "dgx/kernels/fold_order.h"
#include "kernel_table.h"

#define HWY_TARGET_INCLUDE "simd_kernels.cc"
#include "instruction_sets.h"

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace dgx::kernels::cpu::HWY_NAMESPACE {
namespace {

#include "simd_matmul-inl.h"
#include "simd_runs-inl.h"
#include "simd_sums-inl.h"
#include "simd_window-inl.h"
#include "simd_zeros-inl.h"

constexpr KernelTable kKernels = {
    .tile_rows = kTileRows,
    .tile_panels = kTilePanels,
    .one_panel_rows = kOnePanelRows,
    .tile = tile_of,
    .terms_of_row_panel = terms_of_row_panel,
    .terms_of_panels = terms_of_panels,
    .all_finite = all_finite,
    .pack_transposed = pack_transposed,
    .column_dot_one = column_dot_one,
    .add_rows = add_rows,
    .block_sum = block_sum,
    .max = max_of,
    .window_columns = window_columns,
    .window_rows = window_rows,
    .window_runs = window_runs,
    .tap_rows = kTapRows,
    .window_taps = kTapRows > 0 ? window_taps : nullptr,
};

}  // namespace
}  // namespace dgx::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dgx::kernels::cpu {

const KernelTable& kernels_of(InstructionSet set) {
  return DGX_OF_INSTRUCTION_SET(set, kKernels, scalar_kernels());
}

}  // namespace dgx::kernels::cpu
#endif
