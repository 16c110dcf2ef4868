#pragma once

// Included by each file that Highway compiles once for each instruction set of dispatch.h, after it has
// defined HWY_TARGET_INCLUDE (vector_targets.h).

#include "dgx/core/vector_targets.h"
#include "dgx/kernels/cpu/dispatch.h"

#include <hwy/foreach_target.h>

static_assert(HWY_TARGETS == (DGX_TARGETS));

/// Selects `name` of instruction set `set`, by its namespace; `scalar` if that is kScalar.
#if defined(__x86_64__)
#define DGX_OF_INSTRUCTION_SET(set, name, scalar) \
  ((set) == InstructionSet::kAvx512 ? N_AVX3::name : (set) == InstructionSet::kAvx2 ? N_AVX2::name : (scalar))
#elif defined(__aarch64__)
#define DGX_OF_INSTRUCTION_SET(set, name, scalar) ((set) == InstructionSet::kNeon ? N_NEON::name : (scalar))
#endif
