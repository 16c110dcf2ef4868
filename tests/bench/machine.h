#pragma once

#include <functional>
#include <string>
#include <vector>

namespace dgx::bench {

/// An upper bound on this machine's speed: `run` does work that nothing does faster; `work` is its operations
/// or bytes.
struct Limit {
  std::string name;
  double work = 0;
  std::function<void()> run;
};

/// Fused multiply-adds from registers, two operations each, on that many threads at once: one limit for each
/// width of vectors that the processor has. If held to AVX2, wider ones are left out.
[[nodiscard]] std::vector<Limit> multiply_adds(int threads, bool held_to_avx2 = false);

/// Bytes that a loop over doubles reads and writes; every thread has its own array of `bytes`.
[[nodiscard]] Limit scaling(std::size_t bytes, int threads);

/// Size of an array that fits no cache.
inline constexpr std::size_t kMemoryBytes = std::size_t{256} << 20U;

}  // namespace dgx::bench
