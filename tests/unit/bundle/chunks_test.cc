// The layout and coding of chunks, which are private to the module.
#include <catch2/catch.hpp>

#include "codec.h"
#include "float_text.h"
#include "layout.h"
#include "support.h"

namespace dgx::bundle {
namespace {

TEST_CASE("chunks are ranges that cover a tensor once, in order, of at most the target") {
  for (const Shape& shape :
       {Shape{1000000}, Shape{60000, 784}, Shape{3, 5, 70000}, Shape{2, 3, 300001}, Shape{1, 1 << 20},
        Shape{262145}, Shape{1 << 20, 1}, Shape{17, 1, 65537, 1}, Shape{5, 4, 3, 2, 1000, 2}}) {
    for (const DType dtype : {DType::kF32, DType::kI64, DType::kU8}) {
      CAPTURE(to_string(shape), name_of(dtype));
      const ChunkLayout layout = layout_for(dtype, shape);
      const auto bytes = static_cast<std::uint64_t>(*element_count(shape)) * size_of(dtype);
      CHECK(layout.chunk_bytes() <= kChunkTargetBytes);
      CHECK((layout.chunk_bytes() * 2 > kChunkTargetBytes || layout.chunk_count() <= 2 * layout.outer));
      std::uint64_t covered = 0;
      for (std::uint64_t i = 0; i < layout.chunk_count(); ++i) {
        const ChunkPlace place = place_of_chunk(layout, shape, i);
        REQUIRE(place.begin == covered);
        covered += place.size;
        std::uint64_t flat = 0;
        for (std::size_t d = 0; d < shape.size(); ++d) {
          flat = flat * static_cast<std::uint64_t>(shape[d]) + place.offset[d];
        }
        REQUIRE(flat * size_of(dtype) == place.begin);
      }
      CHECK(covered == bytes);
    }
  }
}

TEST_CASE("shuffling puts the bytes of numbers into planes, and back") {
  const std::string in = "abcdefghijkl";
  Bytes out(12);
  shuffle(as_bytes(in), 4, out);
  CHECK(as_text(out) == "aeibfjcgkdhl");
  Bytes back(12);
  unshuffle(out, 4, back);
  CHECK(as_text(back) == in);
  test::Random random(1);
  for (const std::size_t size : {std::size_t{1}, std::size_t{4}, std::size_t{8}}) {
    for (const std::size_t count :
         std::initializer_list<std::size_t>{0, 1, 2, 15, 16, 17, 2047, 2048, 2049, 5000}) {
      Bytes numbers(size * count);
      for (auto& byte : numbers) byte = static_cast<std::uint8_t>(random.next());
      Bytes shuffled(numbers.size());
      shuffle(numbers, size, shuffled);
      for (std::size_t i = 0; i < count; ++i) {
        for (std::size_t b = 0; b < size; ++b) REQUIRE(shuffled[b * count + i] == numbers[i * size + b]);
      }
      Bytes again(numbers.size());
      unshuffle(shuffled, size, again);
      CHECK(again == numbers);
    }
  }
}

TEST_CASE("a chunk is one frame of its size and nothing else") {
  const Tensor tensor = test::numbers(DType::kF32, {1000}, 1);
  Scratch scratch;
  Scratch out;
  const auto encoded = encode_chunk(tensor.bytes(), 4, 8000, scratch, out);  // half is padding
  REQUIRE(encoded.ok());
  const Bytes stored(encoded->begin(), encoded->end());
  Bytes back(4000);
  REQUIRE(decode_chunk(stored, 4, 8000, back, scratch).ok());
  CHECK(std::ranges::equal(back, tensor.bytes()));
  CHECK(!decode_chunk(stored, 4, 8004, back, scratch).ok());
  CHECK(!decode_chunk(stored, 4, 7996, back, scratch).ok());
  Bytes longer = stored;
  longer.push_back(0);
  CHECK(!decode_chunk(longer, 4, 8000, back, scratch).ok());
  longer.pop_back();
  longer.insert(longer.end(), stored.begin(), stored.end());
  CHECK(!decode_chunk(longer, 4, 8000, back, scratch).ok());
  CHECK(!decode_chunk(ByteView(stored).first(stored.size() - 1), 4, 8000, back, scratch).ok());
  CHECK(!decode_chunk({}, 4, 8000, back, scratch).ok());
}

TEST_CASE("floats are written as programs write them, and only so are they read") {
  for (const auto& [value, text] : {std::pair{1.0F, "0x1p0"},
                                    {-1.5F, "-0x1.8p0"},
                                    {0.0F, "0x0p0"},
                                    {-0.0F, "-0x0p0"},
                                    {0x1p-149F, "0x1p-149"},
                                    {0x1.fffffep127F, "0x1.fffffep127"},
                                    {0.1F, "0x1.99999ap-4"},
                                    {0x1.8p-148F, "0x1.8p-148"}}) {
    CHECK(float_text(value) == text);
    REQUIRE(float_from_text(text).ok());
    CHECK(float_text(*float_from_text(text)) == text);
  }
  for (const char* text : {"", "1", "0x1", "0x1.0p0", "0x1p+0", "0X1p0", "0x2p0", "0x1p128", "inf", "nan",
                           " 0x1p0", "0x1p0 ", "0x1.80p0", "0x0.8p1", "0x1.0000001p0", "0x1p00"}) {
    CAPTURE(text);
    CHECK(!float_from_text(text).ok());
  }
}

}  // namespace
}  // namespace dgx::bundle
