#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "dgx/core/host_device.h"
#include "dgx/core/result.h"
#include "dgx/core/tensor.h"

namespace dgx::kernels {

/// Random numbers derived from the task (dgx-numerics(7), "Inputs derived from the task"): counter-based, so
/// each is computed alone, without state. The functions defined in this header also run on a GPU.

namespace philox_parts {

// Random123's philox4x32 constants: two multipliers, and the Weyl increments of the key.
inline constexpr std::uint32_t kMultiplier0 = 0xD2511F53U;
inline constexpr std::uint32_t kMultiplier1 = 0xCD9E8D57U;
inline constexpr std::uint32_t kWeyl0 = 0x9E3779B9U;
inline constexpr std::uint32_t kWeyl1 = 0xBB67AE85U;
inline constexpr int kRounds = 10;

DGX_HOST_DEVICE inline std::uint32_t low(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
DGX_HOST_DEVICE inline std::uint32_t high(std::uint64_t value) {
  return static_cast<std::uint32_t>(value >> 32);
}

/// Exact: an integer of at most 2^24, times a power of two.
DGX_HOST_DEVICE inline float unit(std::uint32_t numerator) {
  return static_cast<float>(numerator) * 0x1p-24F;
}

}  // namespace philox_parts

/// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011), as in
/// Random123.
[[nodiscard]] DGX_HOST_DEVICE inline std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                                                         std::array<std::uint32_t, 2> key) {
  using namespace philox_parts;
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t product0 = std::uint64_t{kMultiplier0} * counter[0];
    const std::uint64_t product1 = std::uint64_t{kMultiplier1} * counter[2];
    counter = {high(product1) ^ counter[1] ^ key[0], low(product1), high(product0) ^ counter[3] ^ key[1],
               low(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

/// philox() for several counters at once, word by word: words[i][lane].
inline constexpr std::size_t kPhiloxLanes = 8;
using PhiloxWords = std::array<std::array<std::uint32_t, kPhiloxLanes>, 4>;
[[nodiscard]] PhiloxWords philox_lanes(const PhiloxWords& counters, std::array<std::uint32_t, 2> key);

/// The purpose of a stream. Values are written out because they enter every random number.
enum class StreamKind : std::uint32_t {
  kInitialWeights = 1,
  kDataOrder = 2,
  kDropout = 3,
  kNoise = 4,
};

/// A sequence of random numbers that shares none with another stream of the task. `ordinal` is below 2^24:
/// for weights the rank of the entry's name among the sorted names, for dropout the rank of the input among
/// the program's random inputs, else 0.
struct Stream {
  StreamKind kind = StreamKind::kInitialWeights;
  std::uint32_t ordinal = 0;
  /// kind · 2^24 + ordinal.
  [[nodiscard]] DGX_HOST_DEVICE std::uint32_t word() const {
    return (static_cast<std::uint32_t>(kind) << 24) + ordinal;
  }
};

/// Philox of counter (element low, element high, step low, stream word) and key (seed low, seed high). Steps
/// are below 2^32 in every task; only the low 32 bits enter.
[[nodiscard]] DGX_HOST_DEVICE inline std::array<std::uint32_t, 4> random_words(std::uint64_t seed,
                                                                               Stream stream,
                                                                               std::int64_t step,
                                                                               std::int64_t element) {
  using namespace philox_parts;
  const auto position = static_cast<std::uint64_t>(element);
  return philox({low(position), high(position), low(static_cast<std::uint64_t>(step)), stream.word()},
                {low(seed), high(seed)});
}

/// A number in [0, 1): the top 24 bits of word 0, times 2^−24. Exact.
[[nodiscard]] DGX_HOST_DEVICE inline float uniform(std::uint64_t seed, Stream stream, std::int64_t step,
                                                   std::int64_t element) {
  return philox_parts::unit(random_words(seed, stream, step, element)[0] >> 8);
}

/// Standard normal, by Box and Muller in binary32. With u = (top 24 bits of word 0, plus 1) · 2^−24, in (0,
/// 1], and v = (top 24 bits of word 1) · 2^−24:
///   l = log(u);  m = −2 · l;  r = sqrt(m);  a = 0x1.921fb6p+2 · v;  c = cos(a);  normal = r · c
/// with log and cos correctly rounded.
[[nodiscard]] float normal(std::uint64_t seed, Stream stream, std::int64_t step, std::int64_t element);

/// Initial weights of a built-in model: element e of `out` (f32: asserted) becomes (2·u − 1) · bound, u the
/// uniform of stream (kInitialWeights, ordinal), step 0, element e. 2·u − 1 is exact; the product is rounded
/// once.
void uniform_weights(std::uint64_t seed, std::uint32_t ordinal, float bound, Tensor& out);

/// uniform_weights() with normal(…) · deviation instead, rounded once.
void normal_weights(std::uint64_t seed, std::uint32_t ordinal, float deviation, Tensor& out);

/// Fills `out` (f32: asserted) with the uniforms of one step: element e is uniform(seed, stream, step, e).
void fill_uniform(std::uint64_t seed, Stream stream, std::int64_t step, Tensor& out);

}  // namespace dgx::kernels
