// The machine's peak: the roof under which every other row stands. Fused multiply-adds a second
// from registers, for each width of vectors, and bytes a second that a loop over doubles reads and writes in
// the second-level cache and in memory.
//
//   peak_bench [--json]
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string_view>
#include <thread>
#include <vector>

#include "row.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace {

using namespace dgx;

// Independent sums: more than latency times throughput of any processor's multiply-add.
constexpr int kChains = 12;
constexpr int kLoops = 1'000'000;

// Each sum is a variable, since an array would lie in memory. They pass through empty assembler statements,
// so that the compiler can neither combine nor drop what is added.
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

struct Width {
  const char* name;
  int lanes;
  void (*run)();
};

std::vector<Width> widths() {
  std::vector<Width> out;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) out.push_back({"avx512", 16, fma_avx512});
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) out.push_back({"avx2", 8, fma_avx2});
#elif defined(__aarch64__)
  out.push_back({"neon", 4, fma_neon});
#endif
  return out;
}

/// `work(t)` on so many threads at once.
void on_threads(int threads, const std::function<void(int)>& work) {
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back(work, t);
  work(0);
  for (std::thread& other : others) other.join();
}

void print(const std::string& name, int threads, const std::string& unit, double work,
           const std::function<void()>& run, bool json) {
  std::vector<bench::Side> sides{{"", run}};
  bench::measure_in_turns(sides, {0.5, 5, threads});
  bench::print_rows(name, sides, threads, unit, 1e-9, work, json);
}

/// Every thread doubles an array of its own, again and again: a read and a write an element.
void print_scaling(const std::string& name, std::size_t bytes, int threads, bool json) {
  std::vector<std::vector<double>> arrays(static_cast<std::size_t>(threads),
                                          std::vector<double>(bytes / sizeof(double), 1.0));
  const std::size_t passes = std::max<std::size_t>(1, (std::size_t{256} << 20U) / bytes);
  const auto scale = [&](int t) {
    for (std::size_t pass = 0; pass < passes; ++pass) {
      double* const from = arrays[static_cast<std::size_t>(t)].data();
      for (std::size_t i = 0; i < bytes / sizeof(double); ++i) from[i] *= 1.0000001;
      __asm__ volatile("" : : "r"(from) : "memory");
    }
  };
  print(
      name, threads, "GB/s", 2.0 * static_cast<double>(bytes * passes) * threads,
      [&] { on_threads(threads, scale); }, json);
}

}  // namespace

int main(int argc, char** argv) {
  const bool json = argc > 1 && std::string_view(argv[1]) == "--json";
  for (const int threads : {1, 2}) {
    for (const Width& width : widths()) {
      const double work = 2.0 * width.lanes * kChains * kLoops * threads;
      print(
          std::string("peak-fma-") + width.name, threads, "GF/s", work,
          [&] { on_threads(threads, [&](int) { width.run(); }); }, json);
    }
    print_scaling("peak-scale-256-KiB", std::size_t{256} << 10U, threads, json);
    print_scaling("peak-scale-256-MiB", std::size_t{256} << 20U, threads, json);
  }
}
