#pragma once

// Highway compiles the file that includes this header once for each instruction set of dispatch.h. The file
// defines HWY_TARGET_INCLUDE as its own name first. It has what depends on the set in HWY_NAMESPACE, between
// HWY_BEFORE_NAMESPACE() and HWY_AFTER_NAMESPACE(), and what chooses by set under HWY_ONCE.
//
// Highway's other targets stay out: SSE does not fuse MulAdd and would give other bits. Code is compiled for
// a set by attributes of its functions, not by compiler flags: these would compile shared inline functions
// for AVX2 too, and the linker might keep that copy for every processor. The baseline, which Highway compiles
// last, is therefore one that the flags do not promise.

#include "dgx/kernels/cpu/dispatch.h"

#if defined(__x86_64__)
#define DGX_TARGETS (HWY_AVX2 | HWY_AVX3)
#define HWY_BASELINE_TARGETS HWY_AVX2
#elif defined(__aarch64__)
#define DGX_TARGETS HWY_NEON
#define HWY_BASELINE_TARGETS HWY_NEON
#endif
#define HWY_DISABLED_TARGETS (~(DGX_TARGETS))

#include <hwy/foreach_target.h>

static_assert(HWY_TARGETS == (DGX_TARGETS));

/// Selects `name` of instruction set `set`, by its namespace; `scalar` if that is kScalar.
#if defined(__x86_64__)
#define DGX_OF_INSTRUCTION_SET(set, name, scalar) \
  ((set) == InstructionSet::kAvx512 ? N_AVX3::name : (set) == InstructionSet::kAvx2 ? N_AVX2::name : (scalar))
#elif defined(__aarch64__)
#define DGX_OF_INSTRUCTION_SET(set, name, scalar) ((set) == InstructionSet::kNeon ? N_NEON::name : (scalar))
#endif
