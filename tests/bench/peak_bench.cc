// What the machine can do at most: the roof under which every other row stands. Fused multiply-adds a second
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

constexpr int kChains =
    12;  // independent sums: more than latency times throughput of any processor's multiply-add
constexpr int kLoops = 1'000'000;

// The sums pass through an empty assembler statement, so that the compiler can neither combine nor drop them.
#define DGX_PEAK(NAME, TARGET, VECTOR, SET, FMA, CONSTRAINT)                   \
  TARGET void NAME() {                                                         \
    const VECTOR one = SET(1.0F);                                              \
    VECTOR sums[kChains];                                                      \
    for (VECTOR & sum : sums) sum = one;                                       \
    for (int loop = 0; loop < kLoops; ++loop) {                                \
      _Pragma("GCC unroll 12") for (int chain = 0; chain < kChains; ++chain) { \
        sums[chain] = FMA;                                                     \
        __asm__ volatile("" : "+" CONSTRAINT(sums[chain]));                    \
      }                                                                        \
    }                                                                          \
  }

#if defined(__x86_64__)
DGX_PEAK(fma_avx512, __attribute__((target("avx512f"))), __m512, _mm512_set1_ps,
         _mm512_fmadd_ps(one, one, sums[chain]), "v")
DGX_PEAK(fma_avx2, __attribute__((target("avx2,fma"))), __m256, _mm256_set1_ps,
         _mm256_fmadd_ps(one, one, sums[chain]), "x")
#elif defined(__aarch64__)
DGX_PEAK(fma_neon, , float32x4_t, vdupq_n_f32, vfmaq_f32(sums[chain], one, one), "w")
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
