#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "dgx/core/result.h"
#include "dgx/core/tensor.h"

namespace dgx::kernels {

/// Random numbers derived from the task (dgx-numerics(7), "Inputs derived from the task"): counter-based, so
/// any of them is computed alone, without state.

/// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011), as in
/// Random123.
[[nodiscard]] std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                                  std::array<std::uint32_t, 2> key);

/// The same for several counters at once, word by word: words[i][lane].
inline constexpr std::size_t kPhiloxLanes = 8;
using PhiloxWords = std::array<std::array<std::uint32_t, kPhiloxLanes>, 4>;
[[nodiscard]] PhiloxWords philox_lanes(const PhiloxWords& counters, std::array<std::uint32_t, 2> key);

/// What numbers are for. Written out because they are hashed into every result.
enum class StreamKind : std::uint32_t {
  kInitialWeights = 1,
  kDataOrder = 2,
  kDropout = 3,
  kNoise = 4,
};

/// A sequence of random numbers that shares none with another stream of the task. `ordinal` is below 2^24:
/// the rank of the entry's name among the sorted names for weights, of the input among the program's random
/// inputs for dropout, else 0.
struct Stream {
  StreamKind kind = StreamKind::kInitialWeights;
  std::uint32_t ordinal = 0;
  /// kind · 2^24 + ordinal.
  [[nodiscard]] std::uint32_t word() const { return (static_cast<std::uint32_t>(kind) << 24) + ordinal; }
};

/// Philox of counter (element low, element high, step low, stream word) and key (seed low, seed high). Steps
/// are below 2^32 in every task; only the low 32 bits enter.
[[nodiscard]] std::array<std::uint32_t, 4> random_words(std::uint64_t seed, Stream stream, std::int64_t step,
                                                        std::int64_t element);

/// In [0, 1): the top 24 bits of word 0, times 2^−24. Exact.
[[nodiscard]] float uniform(std::uint64_t seed, Stream stream, std::int64_t step, std::int64_t element);

/// Standard normal, by Box and Muller in binary32. With u = (top 24 bits of word 0, plus 1) · 2^−24, in (0,
/// 1], and v = (top 24 bits of word 1) · 2^−24:
///   l = log(u);  m = −2 · l;  r = sqrt(m);  a = 0x1.921fb6p+2 · v;  c = cos(a);  normal = r · c
/// with log and cos correctly rounded.
[[nodiscard]] float normal(std::uint64_t seed, Stream stream, std::int64_t step, std::int64_t element);

/// Initial weights of a built-in model: element e of `out` (f32: asserted) becomes (2·u − 1) · bound, u the
/// uniform of stream (kInitialWeights, ordinal), step 0, element e. 2·u − 1 is exact; the product is rounded
/// once.
void uniform_weights(std::uint64_t seed, std::uint32_t ordinal, float bound, Tensor& out);

/// The same with normal(…) · deviation, rounded once.
void normal_weights(std::uint64_t seed, std::uint32_t ordinal, float deviation, Tensor& out);

/// Fills `out` (f32: asserted) with the uniforms of one step: element e is uniform(seed, stream, step, e).
void fill_uniform(std::uint64_t seed, Stream stream, std::int64_t step, Tensor& out);

}  // namespace dgx::kernels
