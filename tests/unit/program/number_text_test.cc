#include "dgx/program/number_text.h"

#include <bit>
#include <catch2/catch.hpp>
#include <limits>

using namespace dgx::program;

TEST_CASE("floats print as normalised hex") {
  // Expected texts are from Python's float.hex(), without trailing zeros and plus.
  CHECK(hex_float(12.0F) == "0x1.8p3");
  CHECK(hex_float(0.1F) == "0x1.99999ap-4");
  CHECK(hex_float(-1.0F) == "-0x1p0");
  CHECK(hex_float(0.0F) == "0x0p0");
  CHECK(hex_float(-0.0F) == "-0x0p0");
  CHECK(hex_float(std::numeric_limits<float>::max()) == "0x1.fffffep127");
  CHECK(hex_float(std::numeric_limits<float>::denorm_min()) == "0x1p-149");
  CHECK(hex_float(0x1.8p-148F) == "0x1.8p-148");
  CHECK(hex_float(-std::numeric_limits<float>::infinity()) == "-inf");
  CHECK(hex_float(0.1) == "0x1.999999999999ap-4");
  CHECK(hex_float(std::numeric_limits<double>::denorm_min()) == "0x1p-1074");
}

TEST_CASE("every float reads back to its own bits") {
  // An odd stride visits all exponents, signs and many mantissas.
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 104729) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    if (value != value) continue;
    const auto again = parse_hex_float(hex_float(value));
    REQUIRE(again.ok());
    REQUIRE(std::bit_cast<std::uint32_t>(*again) == bits);
    const auto wide = parse_hex_double(hex_float(static_cast<double>(value) / 3));
    REQUIRE(wide.ok());
    REQUIRE(*wide == static_cast<double>(value) / 3);
  }
}

TEST_CASE("a spelling other than the printed one is refused") {
  for (const char* text :
       {"",      "1",        "0x",     "0x1",    "0x1p",    "0x1p+3",       "0x1.80p3", "0x2p0",    "0x0.8p0",
        "0X1p0", "0x1P0",    "0x1p03", "+0x1p0", "--0x1p0", "0x1.ffffffp0", "0x1p128",  "0x1p-150", "nan",
        "-nan",  "infinity", "INF",    "0x0p1",  " 0x1p0",  "0x1p0 ",       "0x1.Ap0"}) {
    INFO(text);
    CHECK(!parse_hex_float(text).ok());
  }
}
