#include "dgx/core/processor.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace dgx {
namespace {

#if defined(__x86_64__)
bool has_sha() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & bit_SHA) != 0;
}

Processor detect() {
  __builtin_cpu_init();
  Processor out;
  out.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
             __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  out.avx512 = out.avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
  out.sha = has_sha();
  return out;
}
#else
Processor detect() { return {}; }
#endif

}  // namespace

const Processor& this_processor() {
  static const Processor kThis = detect();
  return kThis;
}

}  // namespace dgx
