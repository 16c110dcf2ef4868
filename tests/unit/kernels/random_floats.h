#pragma once

#include <bit>
#include <cstdint>
#include <random>
#include <vector>

namespace dgx::kernels::cpu {

using Floats = std::vector<float>;

/// Numbers of eight sizes and either sign, and some zeros.
inline Floats random_floats(std::int64_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  Floats out(static_cast<std::size_t>(count));
  for (float& x : out) {
    const auto number = static_cast<std::uint32_t>(random());
    const float sign = number % 2 == 0 ? 1.0F : -1.0F;
    x = number % 23 == 0 ? sign * 0.0F : sign * std::bit_cast<float>(number >> 9 | (118U + number % 9) << 23);
  }
  return out;
}

/// True if both have the same bits.
inline bool same(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

}  // namespace dgx::kernels::cpu
