#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace dgx::kernels {

/// dgx-numerics(7), "dot", transcribed word for word.
inline float dot(const float* a, std::int64_t a_step, const float* b, std::int64_t b_step,
                 std::int64_t depth) {
  float total = 0;
  for (std::int64_t g = 0; g < depth; g += 4096) {
    float group = 0;
    for (std::int64_t first = g; first < std::min(depth, g + 4096); first += 256) {
      float sum = 0;
      for (std::int64_t k = first; k < std::min(depth, first + 256); ++k)
        sum = std::fma(a[k * a_step], b[k * b_step], sum);
      group += sum;
    }
    total += group;
  }
  return total;
}

}  // namespace dgx::kernels
