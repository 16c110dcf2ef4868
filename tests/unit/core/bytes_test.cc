#include "dgx/core/bytes.h"

#include <catch2/catch.hpp>

namespace dgx {
namespace {

TEST_CASE("hex is lower case and comes back") {
  const Bytes bytes = {0x00, 0x0f, 0xa5, 0xff};
  CHECK(to_hex(bytes) == "000fa5ff");
  CHECK(*from_hex("000fa5ff") == bytes);
  CHECK(from_hex("")->empty());
}

TEST_CASE("hex of odd length, upper case or other characters is refused with the position") {
  CHECK(from_hex("abc").error().message == "hex: odd length 3");
  CHECK(from_hex("0A").error().message == "hex: not a lower-case hex digit at position 1");
  CHECK(from_hex("0 ").error().code == ErrorCode::kMalformed);
  CHECK(from_hex("0g").error().code == ErrorCode::kMalformed);
}

TEST_CASE("a digest is exactly 32 bytes or 64 digits") {
  const std::string hex = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
  const auto digest = digest_from_hex(hex);
  REQUIRE(digest.ok());
  CHECK(digest->hex() == hex);
  CHECK(digest->brief() == "001122334455");
  CHECK_FALSE(digest_from_hex(hex.substr(2)).ok());
  CHECK_FALSE(digest_from_hex(hex + "00").ok());
  CHECK_FALSE(digest_from_bytes(Bytes(31)).ok());
  CHECK_FALSE(digest_from_bytes(Bytes(33)).ok());
  CHECK(*digest_from_bytes(digest->view()) == *digest);
}

// RFC 4648 section 10.
TEST_CASE("base64 gives the vectors of RFC 4648") {
  const auto [text, encoded] = GENERATE(table<std::string, std::string>({{"", ""},
                                                                         {"f", "Zg=="},
                                                                         {"fo", "Zm8="},
                                                                         {"foo", "Zm9v"},
                                                                         {"foob", "Zm9vYg=="},
                                                                         {"fooba", "Zm9vYmE="},
                                                                         {"foobar", "Zm9vYmFy"}}));
  CHECK(to_base64(as_bytes(text)) == encoded);
  const auto back = from_base64(encoded);
  REQUIRE(back.ok());
  CHECK(as_text(*back) == text);
}

TEST_CASE("base64 uses + and / and every byte value comes back") {
  CHECK(to_base64(Bytes{0xfb, 0xff, 0xfe}) == "+//+");
  Bytes all(256);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint8_t>(i);
  CHECK(*from_base64(to_base64(all)) == all);
}

TEST_CASE("base64 that to_base64 would not write is refused") {
  const auto text = GENERATE(as<std::string>{}, "Zg", "Zg=", "Zm9v\n", "Zm9 ", "Z===", "====", "=",
                             "Zh==", "Zm9=", "-_-_", "Zg==Zg==", "Z=g=");
  CAPTURE(text);
  const auto bytes = from_base64(text);
  REQUIRE_FALSE(bytes.ok());
  CHECK(bytes.error().code == ErrorCode::kMalformed);
}

TEST_CASE("a writer lays integers out big-endian") {
  ByteWriter writer;
  writer.u8(1).u16(0x0203).u32(0x04050607).u64(0x08090a0b0c0d0e0f).text("A").digest(Digest{});
  CHECK(to_hex(writer.bytes()) == "0102030405060708090a0b0c0d0e0f41" + std::string(64, '0'));
}

TEST_CASE("digests order by their bytes") {
  Digest low;
  Digest high;
  low.bytes[31] = 0xff;
  high.bytes[0] = 0x01;
  CHECK(low < high);
  CHECK(low == low);
}

}  // namespace
}  // namespace dgx
