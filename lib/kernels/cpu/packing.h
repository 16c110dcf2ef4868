#pragma once

#include <cstdint>

#include "dgx/kernels/cpu/matmul.h"
#include "kernel_table.h"

namespace dgx::kernels::cpu {

/// to[k * width + i] = row panel element (i, k), where `row_panel` is the row panel's corner in A; width
/// ≤ 16. May write up to 16 floats beyond the end.
void pack_row_panel(const KernelTable& kernels, Matrix row_panel, int width, std::int64_t depth, float* to);

/// Packs b [depth, columns] into panels from `to` on, panel s at to + s * panel_stride; the lanes beyond the
/// last column are 0.
void pack_panels(const KernelTable& kernels, Matrix b, std::int64_t depth, std::int64_t columns, float* to,
                 std::int64_t panel_stride);

}  // namespace dgx::kernels::cpu
