#include "kernel_table.h"

#if defined(__aarch64__)

// Exactly one Highway target: the others are built in files of their own or, like SSE, do not fuse MulAdd and
// would give other bits. Attributes instead of compiler flags, so that no shared inline function is compiled
// for NEON.
#define HWY_BASELINE_TARGETS HWY_NEON
#define HWY_DISABLED_TARGETS (~(HWY_NEON))

#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

static_assert(HWY_TARGET == HWY_NEON);

HWY_BEFORE_NAMESPACE();
namespace dgx::kernels::cpu {
namespace {
#include "simd_matmul-inl.h"
#include "simd_runs-inl.h"
#include "simd_sums-inl.h"
#include "simd_window-inl.h"
#include "simd_zeros-inl.h"
}  // namespace
}  // namespace dgx::kernels::cpu
HWY_AFTER_NAMESPACE();

namespace dgx::kernels::cpu {

const KernelTable& neon_kernels() {
  static constexpr KernelTable kTable = {
      kTileRows,      kTileStrips,     kOneStripRows,  tile_of,  terms_of_panel, terms_of_strips,
      all_finite,     pack_transposed, column_dot_one, add_rows, block_sum,      max_of,
      window_columns, window_rows,     window_runs,    0,        nullptr};
  return kTable;
}

}  // namespace dgx::kernels::cpu

#endif
