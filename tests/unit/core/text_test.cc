#include "dgx/core/text.h"

#include <catch2/catch.hpp>

namespace dgx {

TEST_CASE("control characters of a file never reach the terminal") {
  CHECK(printable("a\x1b[31m\n\x7f") == "a\\x1b[31m\\x0a\\x7f");
  CHECK(printable("one\ntwo", Newlines::kKeep) == "one\ntwo");
  CHECK(printable("caf\xc3\xa9") == "caf\xc3\xa9");
  CHECK(printable("\xc2\x9b"
                  "31m") == "\\x9b31m");  // a control sequence of eight-bit terminals
}

TEST_CASE("characters that hide or turn around others are shown") {
  CHECK(printable("a\xe2\x80\xae"
                  "b") == "a\\u{202e}b");
  CHECK(printable("\xef\xbb\xbf\xe2\x80\xa8") == "\\u{feff}\\u{2028}");
}

TEST_CASE("only UTF-8 stays as it is") {
  CHECK(printable("caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80") ==
        "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
  CHECK(printable("\xff\xc3") == "\\xff\\xc3");
  CHECK(printable("\xc0\xbc") == "\\xc0\\xbc");                    // '<' in too many bytes
  CHECK(printable("\xe0\x80\xbc") == "\\xe0\\x80\\xbc");           // likewise
  CHECK(printable("\xed\xa0\x80") == "\\xed\\xa0\\x80");           // half a surrogate pair
  CHECK(printable("\xf4\x90\x80\x80") == "\\xf4\\x90\\x80\\x80");  // beyond the last code point
}

TEST_CASE("thousands are grouped") {
  CHECK(grouped(0) == "0");
  CHECK(grouped(999) == "999");
  CHECK(grouped(1000) == "1,000");
  CHECK(grouped(-123456) == "-123,456");
  CHECK(grouped(-1234567) == "-1,234,567");
}

TEST_CASE("the decimal of bits is the shortest that reads back") {
  CHECK(decimal_of_hex("0x3f800000") == "1");
  CHECK(decimal_of_hex("0xbdaf6ff0") == "-0.08566272");
  CHECK(decimal_of_hex("0x00000001") == "1e-45");
  CHECK(decimal_of_hex("0x80000000") == "-0");
  CHECK(decimal_of_hex("0x7fc00000") == "nan");
  CHECK(decimal_of_hex("0xffffffffffffffff") == "-1");
  CHECK(decimal_of_hex("0xff") == "255");
}

TEST_CASE("the decimal of a hex float is that of its narrowest type") {
  CHECK(decimal_of_hex("0x1.99999ap-4") == "0.1");
  CHECK(decimal_of_hex("0x1.999999999999ap-4") == "0.1");
  CHECK(decimal_of_hex("-0x1p-149") == "-1e-45");
  CHECK(decimal_of_hex("0x1p1000") == "1.0715086071862673e+301");
}

TEST_CASE("the nearest word is at most two letters away, and not another word altogether") {
  const std::vector<std::string> words{"lr", "mlp", "momentum", "weight-decay"};
  CHECK(nearest("momentun", words) == "momentum");
  CHECK(nearest("weight_decay", words) == "weight-decay");
  CHECK(nearest("mpl", words) == "mlp");                         // two neighbours swapped are one mistake
  CHECK(nearest("acount", {"amount", "account"}) == "account");  // of two as near, what begins alike
  CHECK(nearest("momtm", words).empty());
  CHECK(nearest("lx", words).empty());  // of a word of two letters one is not enough
  CHECK(nearest("", words).empty());
  CHECK(nearest("momentum", {}).empty());
  CHECK(hint_among("momentun", words) == "did you mean momentum?");
  CHECK(hint_among("speed", words) == "use one of lr, mlp, momentum, weight-decay");
  CHECK(hint_among("speed", words, "see the page") == "see the page");
}

TEST_CASE("other texts have no decimal") {
  for (const char* text : {"", "0x", "0x1", "0x123", "1.5", "0x3F800000", "0xg0000000", "0x1p", "0x1p99999",
                           "0x-1p3", "-0x3f800000", "model"})
    CHECK_FALSE(decimal_of_hex(text).has_value());
}

}  // namespace dgx
