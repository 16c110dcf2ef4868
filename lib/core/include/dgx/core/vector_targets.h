#pragma once

// The targets of every file that Highway compiles once for each instruction set. Such a file defines its own
// name as HWY_TARGET_INCLUDE, includes this header, then <hwy/foreach_target.h>. What depends on the set is
// in HWY_NAMESPACE (N_AVX2, N_AVX3 or N_NEON), between HWY_BEFORE_NAMESPACE() and HWY_AFTER_NAMESPACE(), and
// what chooses by set under HWY_ONCE.
//
// Highway's other targets stay out: SSE does not fuse MulAdd and would give other bits. Code is compiled for
// a set by attributes of its functions, not by compiler flags: these would compile shared inline functions
// for AVX2 too, and the linker might keep that copy for every processor. The baseline, which Highway compiles
// last, is therefore one that the flags do not promise.

#if defined(__x86_64__)
#define DGX_TARGETS (HWY_AVX2 | HWY_AVX3)
#define HWY_BASELINE_TARGETS HWY_AVX2
#elif defined(__aarch64__)
#define DGX_TARGETS HWY_NEON
#define HWY_BASELINE_TARGETS HWY_NEON
#endif
#define HWY_DISABLED_TARGETS (~(DGX_TARGETS))
