#include "machine.h"

#include <memory>
#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace dgx::bench {
namespace {

// Independent sums: more than latency times throughput of any processor's multiply-add.
constexpr int kChains = 12;
constexpr int kLoops = 1'000'000;

// Each sum is a variable, since an array would be in memory. They pass through empty assembler statements, so
// that the compiler can neither combine nor drop the additions.
#define DGX_CHAINS(DO) DO(a) DO(b) DO(c) DO(d) DO(e) DO(f) DO(g) DO(h) DO(i) DO(j) DO(k) DO(l)
#define DGX_PEAK(NAME, TARGET, VECTOR, SET)      \
  TARGET void NAME() {                           \
    const VECTOR one = SET(1.0F);                \
    VECTOR DGX_CHAINS(DGX_DECLARE) last = one;   \
    for (int loop = 0; loop < kLoops; ++loop) {  \
      DGX_CHAINS(DGX_ADD)                        \
    }                                            \
    __asm__ volatile("" : : DGX_REGISTER(last)); \
  }
#define DGX_DECLARE(sum) sum = one,
#define DGX_ADD(sum)       \
  sum = DGX_FMA(one, sum); \
  __asm__ volatile("" : "+" DGX_REGISTER(sum));

#if defined(__x86_64__)
#define DGX_REGISTER "v"
#define DGX_FMA(x, sum) _mm512_fmadd_ps(x, x, sum)
DGX_PEAK(fma_avx512, __attribute__((target("avx512f"))), __m512, _mm512_set1_ps)
#undef DGX_REGISTER
#undef DGX_FMA
#define DGX_REGISTER "x"
#define DGX_FMA(x, sum) _mm256_fmadd_ps(x, x, sum)
DGX_PEAK(fma_avx2, __attribute__((target("avx2,fma"))), __m256, _mm256_set1_ps)
#elif defined(__aarch64__)
#define DGX_REGISTER "w"
#define DGX_FMA(x, sum) vfmaq_f32(sum, x, x)
DGX_PEAK(fma_neon, , float32x4_t, vdupq_n_f32)
#endif

/// Runs `work(t)` on that many threads at once.
void on_threads(int threads, const std::function<void(int)>& work) {
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back(work, t);
  work(0);
  for (std::thread& other : others) other.join();
}

Limit multiply_adds_of(const char* width, int lanes, void (*run)(), int threads) {
  return {std::string("fma-") + width, 2.0 * lanes * kChains * kLoops * threads,
          [=] { on_threads(threads, [=](int) { run(); }); }};
}

}  // namespace

std::vector<Limit> multiply_adds(int threads, bool held_to_avx2) {
  std::vector<Limit> out;
#if defined(__x86_64__)
  if (!held_to_avx2 && __builtin_cpu_supports("avx512f"))
    out.push_back(multiply_adds_of("avx512", 16, fma_avx512, threads));
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    out.push_back(multiply_adds_of("avx2", 8, fma_avx2, threads));
#elif defined(__aarch64__)
  static_cast<void>(held_to_avx2);
  out.push_back(multiply_adds_of("neon", 4, fma_neon, threads));
#endif
  return out;
}

Limit scaling(std::size_t bytes, int threads) {
  auto arrays = std::make_shared<std::vector<std::vector<double>>>(
      static_cast<std::size_t>(threads), std::vector<double>(bytes / sizeof(double), 1.0));
  const std::size_t passes = std::max<std::size_t>(1, kMemoryBytes / bytes);
  const auto scale = [=](int t) {
    for (std::size_t pass = 0; pass < passes; ++pass) {
      double* const from = (*arrays)[static_cast<std::size_t>(t)].data();
      for (std::size_t i = 0; i < bytes / sizeof(double); ++i) from[i] *= 1.0000001;
      __asm__ volatile("" : : "r"(from) : "memory");
    }
  };
  const std::string size = bytes < (std::size_t{1} << 20U) ? std::to_string(bytes >> 10U) + "-KiB"
                                                           : std::to_string(bytes >> 20U) + "-MiB";
  return {"scale-" + size, 2.0 * static_cast<double>(bytes * passes) * threads,
          [=] { on_threads(threads, scale); }};
}

}  // namespace dgx::bench
