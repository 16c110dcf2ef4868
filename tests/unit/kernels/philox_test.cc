#include "dgx/kernels/philox.h"

#include <catch2/catch.hpp>

#include "ref_support.h"

namespace dgx::kernels {
namespace {

Stream stream_of(const json::Value& vector) {
  const auto word = static_cast<std::uint32_t>(integer(vector, "stream"));
  return {static_cast<StreamKind>(word >> 24), word & 0xFFFFFF};
}

TEST_CASE("Philox gives Random123's known answers") {
  using Words = std::array<std::uint32_t, 4>;
  CHECK(philox({0, 0, 0, 0}, {0, 0}) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}) ==
        Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("seed, stream, step and element are laid out as stated") {
  for (const json::Value& vector : *member(vectors(), "words").as_array()) {
    const std::uint64_t seed = hex(member(vector, "seed"));
    const std::int64_t step = integer(vector, "step");
    const std::int64_t element = integer(vector, "element");
    const auto words = random_words(seed, stream_of(vector), step, element);
    const json::Array& expected = *member(vector, "words").as_array();
    for (std::size_t n = 0; n < 4; ++n) CHECK(words[n] == hex(expected[n]));
    CHECK(uniform(seed, stream_of(vector), step, element) ==
          static_cast<float>(hex(expected[0]) >> 8) * 0x1p-24F);
    CHECK(bits(normal(seed, stream_of(vector), step, element)) == hex(member(vector, "normal")));
  }
}

TEST_CASE("initial weights are uniform within their bound") {
  Tensor weights(DType::kF32, {100, 50});
  uniform_weights(42, 3, 0.125F, weights);
  double mean = 0;
  float greatest = 0;
  for (const float weight : weights.as<float>()) {
    mean += weight / 5000.0;
    greatest = std::max(greatest, std::abs(weight));
  }
  CHECK(std::abs(mean) < 0.005);
  CHECK((greatest > 0.124F && greatest <= 0.125F));
  const float u = uniform(42, {StreamKind::kInitialWeights, 3}, 0, 77);
  CHECK(weights.as<float>()[77] == (2 * u - 1) * 0.125F);
  Tensor other(DType::kF32, {100, 50});
  uniform_weights(42, 4, 0.125F, other);
  CHECK(other.as<float>()[0] != weights.as<float>()[0]);
}

TEST_CASE("a step's uniforms are those of its elements") {
  const std::uint64_t seed = (std::uint64_t{9} << 40) + 5;
  for (const std::int64_t size : {1, 7, 8, 9, 29}) {  // below, at and above the size of a draw
    Tensor numbers(DType::kF32, {size});
    fill_uniform(seed, {StreamKind::kDropout, 1}, 12, numbers);
    for (std::int64_t n = 0; n < size; ++n) {
      CHECK(numbers.as<float>()[static_cast<std::size_t>(n)] ==
            uniform(seed, {StreamKind::kDropout, 1}, 12, n));
    }
  }
}

}  // namespace
}  // namespace dgx::kernels
