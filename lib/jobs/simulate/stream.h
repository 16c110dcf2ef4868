#pragma once

#include <bit>
#include <cstdint>

#include "dgx/core/bytes.h"

namespace dgx::jobs {

/// A stream of random numbers, splitmix64 (Steele, Lea and Flood, 2014), begun by three numbers. Streams of
/// other numbers are independent of it, so each task of each market has its own and no order of work matters.
class Stream {
 public:
  Stream(std::uint64_t seed, std::uint64_t market, std::uint64_t task)
      : state_(mixed(mixed(mixed(seed) + market) + task)) {}

  std::uint64_t next() { return mixed(state_ += kStep); }
  /// A number from 0 to `bound` - 1, of which none is likelier than another by more than bound / 2^64.
  std::int64_t below(std::int64_t bound) {
    return static_cast<std::int64_t>(
        static_cast<unsigned __int128>(next()) * static_cast<std::uint64_t>(bound) >> 64);
  }
  Digest digest() {
    Digest out;
    for (std::size_t i = 0; i < out.bytes.size(); i += 8) {
      const std::uint64_t number = next();
      for (std::size_t j = 0; j < 8; ++j) out.bytes[i + j] = static_cast<std::uint8_t>(number >> (8 * j));
    }
    return out;
  }

 private:
  static constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15;
  static std::uint64_t mixed(std::uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
  }
  std::uint64_t state_;
};

}  // namespace dgx::jobs
