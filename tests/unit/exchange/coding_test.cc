#include "dgx/exchange/coding.h"

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>

#include "json_vectors.h"

using namespace dgx;
using namespace dgx::exchange;

namespace {

std::vector<std::byte> bytes_of(const std::string& hex) {
  std::vector<std::byte> out;
  for (std::size_t n = 0; n + 1 < hex.size(); n += 2)
    out.push_back(static_cast<std::byte>(std::stoi(hex.substr(n, 2), nullptr, 16)));
  return out;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::ranges::equal(a, b, [](float x, float y) {
    return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
  });
}

/// The error of a text for so many floats.
std::string refusal(const std::vector<std::byte>& coded, std::size_t count) {
  std::vector<float> values(count);
  const Status status = decode_sparse(coded, values);
  if (status.ok()) return {};
  CHECK(status.error().code == ErrorCode::kMalformed);
  return status.error().message;
}

}  // namespace

TEST_CASE("values are coded as the page says, and come back bit for bit") {
  const json::Value vectors = test::read_vectors(DGX_VECTORS "/dgc.json");
  for (const json::Value& vector : *test::member(vectors, "codings").as_array()) {
    std::vector<float> values(static_cast<std::size_t>(test::integer(vector, "count")), 0.0F);
    const json::Array &places = *test::member(vector, "places").as_array(),
                      &numbers = *test::member(vector, "values").as_array();
    CAPTURE(values.size(), places.size());
    for (std::size_t n = 0; n < places.size(); ++n)
      values[static_cast<std::size_t>(*places[n].as_int())] =
          std::bit_cast<float>(static_cast<std::uint32_t>(*numbers[n].as_int()));
    const auto coded = bytes_of(*test::member(vector, "coded").as_string());
    CHECK(encode_sparse(values) == coded);
    std::vector<float> decoded(values.size(), 7.0F);
    CHECK(decode_sparse(coded, decoded).ok());
    CHECK(same_bits(decoded, values));
  }
}

TEST_CASE("numbers of few bits are packed as the page says, and come back") {
  const json::Value vectors = test::read_vectors(DGX_VECTORS "/cut.json");
  for (const json::Value& vector : *test::member(vectors, "messages").as_array()) {
    const auto bits = static_cast<int>(test::integer(vector, "bits"));
    std::vector<std::uint8_t> numbers;
    for (const json::Value& number : *test::member(vector, "numbers").as_array())
      numbers.push_back(static_cast<std::uint8_t>(*number.as_int()));
    CAPTURE(bits, numbers.size());
    const auto packed = bytes_of(*test::member(vector, "message").as_string());
    CHECK(packed_size(numbers.size(), bits) == packed.size());
    CHECK(pack_bits(numbers, bits).value() == packed);
    std::vector<std::uint8_t> unpacked(numbers.size(), 255);
    CHECK(unpack_bits(packed, bits, unpacked).ok());
    CHECK(unpacked == numbers);
  }
}

TEST_CASE("a message of packed numbers is refused if it is another length, or has bits behind the last") {
  const std::vector<std::uint8_t> numbers = {1, 0, 7, 4, 2};  // of 3 bits: 15, in 2 bytes
  std::vector<std::byte> packed = pack_bits(numbers, 3).value();
  std::vector<std::uint8_t> unpacked(numbers.size());
  CHECK_THAT(unpack_bits(std::span(packed).first(1), 3, unpacked).error().message,
             Catch::Contains("1 bytes, for 5 numbers of 3 bits"));
  packed.back() |= std::byte{0x80};
  const Status refused = unpack_bits(packed, 3, unpacked);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().code == ErrorCode::kMalformed);
  CHECK_THAT(refused.error().message, Catch::Contains("byte 1: bits behind the last number"));
  CHECK_THAT(pack_bits(numbers, 2).error().message,
             Catch::Contains("number 2 is 7, which 2 bits do not hold"));
}

TEST_CASE("a text that is too short, too long or changed is refused or is another list's text") {
  std::vector<float> values(3000, 0.0F);
  for (std::size_t n = 5; n < values.size(); n += 97) values[n] = 1.1F * static_cast<float>(n);
  const auto coded = encode_sparse(values);
  for (std::size_t size = 0; size < coded.size(); ++size)
    CHECK_FALSE(
        refusal({coded.begin(), coded.begin() + static_cast<std::ptrdiff_t>(size)}, values.size()).empty());
  auto longer = coded;
  longer.push_back(std::byte{0});
  CHECK_THAT(refusal(longer, values.size()), Catch::Contains("bytes behind the last value"));
  for (std::size_t bit = 0; bit < coded.size() * 8; ++bit) {
    auto changed = coded;
    changed[bit / 8] ^= std::byte{1} << bit % 8;
    std::vector<float> decoded(values.size());
    if (!decode_sparse(changed, decoded).ok()) continue;
    CHECK(encode_sparse(decoded) == changed);
    CHECK_FALSE(same_bits(decoded, values));
  }
  // The same text for fewer floats: its last places are outside.
  CHECK_FALSE(refusal(coded, values.size() - 200).empty());
}

TEST_CASE("what is wrong with a text is said with its place") {
  const auto text = [](std::initializer_list<int> bytes) {
    std::vector<std::byte> out;
    for (const int byte : bytes) out.push_back(static_cast<std::byte>(byte));
    return out;
  };
  CHECK_THAT(refusal({}, 4), Catch::Contains("byte 0: the text ends too early"));
  CHECK_THAT(refusal(text({3, 0}), 4), Catch::Contains("neither 2 nor 4 bytes a value"));
  CHECK_THAT(refusal(text({4, 0x80, 0}), 4), Catch::Contains("a group of zeros at its end"));
  CHECK_THAT(refusal(text({4, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1}), 4),
             Catch::Contains("an integer is too large"));
  CHECK_THAT(refusal(text({4, 5}), 4), Catch::Contains("more values than there are"));
  CHECK_THAT(refusal(text({4, 255, 255, 255, 255, 7}), std::size_t{1} << 20),
             Catch::Contains("more values than there are"));
  // One of one float: no gap bits, a zero, then the value.
  CHECK(refusal(text({2, 1, 0, 0x80, 0x3F}), 1).empty());
  CHECK_THAT(refusal(text({2, 1, 1, 0x80, 0x3F}), 1), Catch::Contains("a place outside"));
  CHECK_THAT(refusal(text({2, 1, 2, 0x80, 0x3F}), 1), Catch::Contains("bits behind the last place"));
  CHECK_THAT(refusal(text({2, 1, 0, 0, 0}), 1), Catch::Contains("a value of +0"));
  CHECK_THAT(refusal(text({4, 1, 0, 0, 0, 0x80, 0x3F}), 1),
             Catch::Contains("4 bytes a value where 2 would do"));
  CHECK_THAT(refusal(text({4, 0}), 0), Catch::Contains("4 bytes a value where 2 would do"));
  CHECK(refusal(text({2, 0}), 0).empty());
}

TEST_CASE("rows are coded as the page says, and nothing else is decoded") {
  const json::Value vectors = test::read_vectors(DGX_VECTORS "/experts.json");
  for (const json::Value& vector : *test::member(vectors, "rows").as_array()) {
    std::vector<std::uint8_t> values;
    for (const std::byte byte : bytes_of(*test::member(vector, "values").as_string()))
      values.push_back(std::to_integer<std::uint8_t>(byte));
    const auto row = static_cast<std::size_t>(test::integer(vector, "row"));
    const auto coded = bytes_of(*test::member(vector, "coded").as_string());
    CAPTURE(values.size(), row);
    CHECK(encode_rows(values, row) == coded);
    std::vector<std::uint8_t> decoded(values.size(), 7);
    REQUIRE(decode_rows(coded, row, decoded).ok());
    CHECK(decoded == values);
    for (std::size_t size = 0; size < coded.size(); ++size)
      CHECK_FALSE(decode_rows(std::span(coded).first(size), row, decoded).ok());
    auto longer = coded;
    longer.push_back(std::byte{1});
    CHECK_FALSE(decode_rows(longer, row, decoded).ok());
    for (std::size_t bit = 0; bit < coded.size() * 8; ++bit) {
      auto changed = coded;
      changed[bit / 8] ^= std::byte{1} << bit % 8;
      if (!decode_rows(changed, row, decoded).ok()) continue;
      CHECK(encode_rows(decoded, row) == changed);
      CHECK(decoded != values);
    }
  }
}

TEST_CASE("what is wrong with coded rows is said") {
  const auto refused = [](const std::string& hex) {
    std::vector<std::uint8_t> rows(12);  // three of four bytes
    const Status status = decode_rows(bytes_of(hex), 4, rows);
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().code == ErrorCode::kMalformed);
    return status.error().message;
  };
  CHECK(refused("") == "coded rows: the text ends too early");
  CHECK(refused("01010203") == "coded rows: the text ends too early");
  CHECK(refused("08") == "coded rows: bits behind the last row");
  CHECK(refused("0100000000") == "coded rows: a row of zeros");
  CHECK(refused("010102030405") == "coded rows: bytes behind the last row");
}
