#include "strip_table.h"

#if defined(__x86_64__)

// Exactly one Highway target, as in avx512.cc, which says why.
#define HWY_BASELINE_TARGETS HWY_AVX3
#define HWY_DISABLED_TARGETS (~(HWY_AVX3))

#include "strip-inl.h"

static_assert(HWY_TARGET == HWY_AVX3);

namespace dgx::kernels::cpu {

const StripTable& avx512_strip_table() {
  static const StripTable table = HWY_NAMESPACE::make_strip_table();
  return table;
}

}  // namespace dgx::kernels::cpu

#endif
