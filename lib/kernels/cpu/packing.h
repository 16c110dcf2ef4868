#pragma once

#include <cstdint>

#include "dgx/kernels/cpu/matmul.h"
#include "kernel_table.h"

namespace dgx::kernels::cpu {

/// to[k * width + i] = panel element (i, k), where `panel` is the panel's corner in A; width ≤ 16. May write
/// up to 16 floats beyond the end.
void pack_panel(const KernelTable& kernels, Matrix panel, int width, std::int64_t depth, float* to);

/// Packs b [depth, columns] into strips from `to` on, strip s at to + s * strip_stride; the lanes beyond the
/// last column are 0.
void pack_strips(const KernelTable& kernels, Matrix b, std::int64_t depth, std::int64_t columns, float* to,
                 std::int64_t strip_stride);

}  // namespace dgx::kernels::cpu
