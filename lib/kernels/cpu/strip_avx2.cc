#include "strip_table.h"

#if defined(__x86_64__)

// Exactly one Highway target, as in avx2.cc, which says why.
#define HWY_BASELINE_TARGETS HWY_AVX2
#define HWY_DISABLED_TARGETS (~(HWY_AVX2))

#include "strip-inl.h"

static_assert(HWY_TARGET == HWY_AVX2);

namespace dgx::kernels::cpu {

const StripTable& avx2_strip_table() {
  static const StripTable table = HWY_NAMESPACE::make_strip_table();
  return table;
}

}  // namespace dgx::kernels::cpu

#endif
