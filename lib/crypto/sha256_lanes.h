#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dgx::crypto {

/// The compression function of SHA-256 (FIPS 180-4, section 6.2.2) on several messages at once, each in one
/// 32-bit lane of the vectors of an instruction set.
struct LaneCompressor {
  std::size_t lanes = 0;
  /// Takes the 64-byte block `blocks[lane]` into the state of each lane: word i of it is
  /// state[i * lanes + lane].
  void (*compress)(std::uint32_t* state, const std::uint8_t* const* blocks) = nullptr;
};

constexpr std::size_t kMostLanes = 16;

/// Those that this processor can run, slowest first.
[[nodiscard]] std::vector<LaneCompressor> lane_compressors();

}  // namespace dgx::crypto
