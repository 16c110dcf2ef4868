#pragma once

#include <functional>
#include <string>
#include <vector>

namespace dgx::bench {

/// Work that nothing of this machine does faster: what one run of it is, in operations or bytes, and a run of it.
struct Limit {
  std::string name;
  double work = 0;
  std::function<void()> run;
};

/// Fused multiply-adds from registers, two operations each, by as many threads at once: a limit for each width of vectors that
/// the processor has. Held to AVX2, the wider ones are left out.
[[nodiscard]] std::vector<Limit> multiply_adds(int threads, bool held_to_avx2 = false);

/// Bytes that a loop over doubles reads and writes; every thread has an array of `bytes` of its own.
[[nodiscard]] Limit scaling(std::size_t bytes, int threads);

/// An array that lies in memory, and in no cache.
inline constexpr std::size_t kMemoryBytes = std::size_t{256} << 20U;

}  // namespace dgx::bench
