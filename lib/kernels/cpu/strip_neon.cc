#include "strip_table.h"

#if defined(__aarch64__)

// Exactly one Highway target, as in neon.cc, which says why.
#define HWY_BASELINE_TARGETS HWY_NEON
#define HWY_DISABLED_TARGETS (~(HWY_NEON))

#include "strip-inl.h"

static_assert(HWY_TARGET == HWY_NEON);

namespace dgx::kernels::cpu {

const StripTable& neon_strip_table() {
  static const StripTable table = HWY_NAMESPACE::make_strip_table();
  return table;
}

}  // namespace dgx::kernels::cpu

#endif
