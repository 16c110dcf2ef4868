#include "dgx/core/json.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "dgx/core/json_document.h"

namespace dgx::json {
namespace {

std::string nested(int depth) {
  return std::string(static_cast<std::size_t>(depth), '[') +
         std::string(static_cast<std::size_t>(depth), ']');
}

TEST_CASE("canonical text is accepted and re-encodes to the same bytes") {
  const auto text =
      GENERATE(as<std::string>{}, "{}", "[]", "true", "false", "0", "-1", "9007199254740992",
               "-9007199254740992", "\"\"", R"({"a":1,"b":[true,"x",{"c":[]}]})", R"({"":0," ":1,"~":2})",
               "\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\x7F\"", R"("\b\t\n\f\r\"\\\u0000\u001f/")");
  CAPTURE(text);
  const auto value = parse_canonical(text);
  REQUIRE(value.ok());
  CHECK(value->dump() == text);
}

// RFC 8785 section 3.2.3, without its non-ASCII keys, floats and null.
TEST_CASE("keys are sorted and strings are escaped as RFC 8785 says") {
  const auto value =
      parse(R"({ "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/", "Z": [ true ,1 ], "1": 2 })");
  REQUIRE(value.ok());
  CHECK(value->dump() ==
        "{\"1\":2,\"Z\":[true,1],\"string\":\"\xE2\x82\xAC$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}");
}

TEST_CASE("text that is not canonical is refused at the first difference") {
  CHECK(parse_canonical("{\"b\":1,\"a\":2}").error().message == "json: not canonical (RFC 8785) at byte 2");
  CHECK(parse_canonical("{} ").error().message == "json: not canonical (RFC 8785) at byte 2");
  CHECK_FALSE(parse_canonical("-0").ok());
  CHECK_FALSE(parse_canonical(R"("\u0041")").ok());
  CHECK_FALSE(parse_canonical(R"("\/")").ok());
  CHECK_FALSE(parse_canonical(R"("\u001F")").ok());
}

TEST_CASE("what dgx does not write is refused with its position") {
  const auto [text, message] = GENERATE(table<std::string, std::string>({
      {"{\"a\":1,\"a\":2}", "json: duplicate key \"a\" before byte 10"},
      {"null", "json: null is not allowed before byte 4"},
      {"[1.5]", "json: float is not allowed before byte 5"},
      {"[1e3]", "json: float is not allowed before byte 5"},
      {"9007199254740993", "json: integer beyond 2^53 before byte 16"},
      {"-9007199254740993", "json: integer beyond 2^53 before byte 17"},
      {"99999999999999999999999", "json: integer beyond 2^53 before byte 23"},
      {"{\"\xC3\xA9\":1}", "json: key is not printable ASCII before byte 5"},
      {"{\"\\n\":1}", "json: key is not printable ASCII before byte 5"},
      {"\xEF\xBB\xBF{}", "json: byte-order mark at byte 0"},
  }));
  CAPTURE(text);
  const auto value = parse(text);
  REQUIRE_FALSE(value.ok());
  CHECK(value.error().code == ErrorCode::kMalformed);
  CHECK(value.error().message == message);
}

TEST_CASE("broken text is refused") {
  const auto text = GENERATE(as<std::string>{}, "", " ", "{", "[1,]", "{\"a\":1,}", "{\"a\" 1}", "{}{}",
                             "{} x", "01", "+1", "tru", "'a'", "\"a", "\"\n\"", "\"\xFF\"", "\"\xC0\x80\"",
                             "\"\xED\xA0\x80\"", "\"\xF4\x90\x80\x80\"", "\"\\uD800\"", "\"\\uDC00\\uD800\"",
                             "\"\\x\"", "/**/1", "NaN", "-", "{1:2}", "\xFE\xFF");
  CAPTURE(text);
  const auto value = parse(text);
  REQUIRE_FALSE(value.ok());
  CHECK(value.error().code == ErrorCode::kMalformed);
  CHECK(value.error().message.find("at byte") != std::string::npos);
}

TEST_CASE("a NUL byte does not end the input early") {
  using namespace std::string_literals;
  CHECK(parse("{}\0garbage"s).error().message == "json: NUL byte at byte 2");
  CHECK_FALSE(parse("\0"s).ok());
  CHECK_FALSE(parse("\"\0\""s).ok());
}

TEST_CASE("messages do not repeat the bytes of the input") {
  const std::string message = parse("\"\x1b[31m\"").error().message;
  for (const char c : message) CHECK((c >= 0x20 && c <= 0x7e));
  CHECK(message.find("31m") == std::string::npos);
}

TEST_CASE("size and depth are bounded") {
  CHECK(parse(nested(32)).ok());
  CHECK(parse(nested(33)).error().message == "json: deeper than 32 before byte 33");
  CHECK_FALSE(parse(nested(100000)).ok());
  CHECK(parse("[1]", {.bytes = 3, .depth = 1}).ok());
  CHECK(parse("[12]", {.bytes = 3, .depth = 1}).error().message == "json: 4 bytes, at most 3 allowed");
  CHECK_FALSE(parse("[]", {.bytes = 3, .depth = 0}).ok());
}

// The property of the fuzz target, on a fixed random walk: overwrites, inserts or cuts a few bytes, and
// checks what is accepted.
TEST_CASE("whatever is accepted of damaged text has one canonical form, which is accepted too") {
  const std::string seed =
      R"({"a":[1,-20,true,"x\n\u001f",{"b":[],"c":{}}],"long key":"\"\\","z":9007199254740992})";
  constexpr std::string_view kAlphabet = "{}[]\",:\\u0019-eatrfls \n\x7f\xC3\xA9";
  std::mt19937 random(20);
  const auto below = [&](std::size_t n) { return random() % n; };
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = seed;
    for (std::size_t edits = 1 + below(3); edits > 0; --edits) {
      const std::size_t at = below(text.size());
      const char c = kAlphabet[below(kAlphabet.size())];
      if (below(3) == 0) {
        text.erase(at, 1 + below(4));
      } else if (below(2) == 0) {
        text.insert(at, 1, c);
      } else {
        text[at] = c;
      }
    }
    const auto value = parse(text);
    if (!value.ok()) continue;
    ++accepted;
    const auto again = parse_canonical(value->dump());
    REQUIRE(again.ok());
    REQUIRE(*again == *value);
  }
  CHECK(accepted > 1000);
}

TEST_CASE("values compare by content and name their type") {
  CHECK(Value(1) == Value(std::int64_t{1}));
  CHECK_FALSE(Value(1) == Value(true));
  CHECK(Value("x") == Value(std::string("x")));
  CHECK(Value(Array{1, "a"}).dump() == "[1,\"a\"]");
  CHECK(Value(Object{{"k", false}}).dump() == "{\"k\":false}");
  CHECK(Value(1).type_name() == "integer");
  CHECK(Value().type_name() == "object");
}

TEST_CASE("fields that are all taken leave no error") {
  const auto value = parse(R"({"n":3,"s":"x","b":true,"a":[1],"o":{}})");
  REQUIRE(value.ok());
  Fields in(*value, "thing");
  CHECK(in.integer("n", 0, 3) == 3);
  CHECK(in.string("s") == "x");
  CHECK(in.boolean("b"));
  CHECK(in.array("a", 1).size() == 1);
  CHECK(in.value("o") == Value());
  CHECK(in.has("n"));
  CHECK_FALSE(in.has("z"));
  CHECK(in.finish().ok());
}

template <class Read>
std::string fields_error(std::string_view text, Read read) {
  const auto value = parse(text);
  REQUIRE(value.ok());
  Fields in(*value, "thing");
  read(in);
  const auto status = in.finish();
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().code == ErrorCode::kMalformed);
  return status.error().message;
}

TEST_CASE("each wrong field is named") {
  CHECK(fields_error("[]", [](Fields&) {}) == "thing: is an array, expected an object");
  CHECK(fields_error("{}", [](Fields& in) { (void)in.integer("n", 1, 2); }) == "thing: n: is missing");
  CHECK(fields_error("{\"n\":3}", [](Fields& in) { (void)in.integer("n", 1, 2); }) ==
        "thing: n: is 3, must be 1 to 2");
  CHECK(fields_error("{\"n\":\"3\"}", [](Fields& in) { (void)in.integer("n", 1, 2); }) ==
        "thing: n: is a string, expected an integer");
  CHECK(fields_error("{\"s\":\"abc\"}", [](Fields& in) { (void)in.string("s", 2); }) ==
        "thing: s: has 3 bytes, at most 2 allowed");
  CHECK(fields_error("{\"a\":[1,2]}", [](Fields& in) { (void)in.array("a", 1); }) ==
        "thing: a: has 2 items, at most 1 allowed");
  CHECK(fields_error("{\"b\":1}", [](Fields& in) { (void)in.boolean("b"); }) ==
        "thing: b: is an integer, expected a bool");
  CHECK(fields_error("{\"x\":1}", [](Fields&) {}) == "thing: x: unknown field");
}

TEST_CASE("the first error of the fields is the one reported") {
  CHECK(fields_error("{\"n\":9}", [](Fields& in) {
          (void)in.integer("n", 0, 1);
          (void)in.string("s");
          in.fail("q", "is odd");
        }) == "thing: n: is 9, must be 0 to 1");
  CHECK(fields_error("{}", [](Fields& in) { in.fail("q", "is odd"); }) == "thing: q: is odd");
}

TEST_CASE("a document of others has null, floats, any key, and integers of 64 bits") {
  const auto root = parse_document(
      R"({"n":null,"f":-1.5e-3,"é":[9223372036854775807,-9223372036854775808],"\n":"\u0000","z":-0.0})", {});
  REQUIRE(root.ok());
  CHECK(root->find("n")->is_null());
  CHECK(*root->find("f")->as_float() == -1.5e-3);
  const auto& list = *root->find("\xC3\xA9")->as_array();
  CHECK(*list[0].as_int() == std::numeric_limits<std::int64_t>::max());
  CHECK(*list[1].as_int() == std::numeric_limits<std::int64_t>::min());
  CHECK(*root->find("\n")->as_string() == std::string(1, '\0'));
  CHECK(std::signbit(*root->find("z")->as_float()));
  CHECK(root->find("absent") == nullptr);
  CHECK(list[0].find("n") == nullptr);
  CHECK(list[0].as_float() == nullptr);
  CHECK(list[0].type_name() == "integer");
}

TEST_CASE("what no document may have is refused with its position") {
  const auto [text, message] = GENERATE(table<std::string, std::string>({
      {"[9223372036854775808]", "json: integer beyond 64 bits before byte 21"},
      {"-9223372036854775809", "json: integer beyond 64 bits before byte 20"},
      {"[1e999]", "json: number overflow parsing '1e999' at byte 5"},
      {"{\"a\":1,\"a\":2}", "json: duplicate key \"a\" before byte 10"},
      {"[[[[[]]]]]", "json: deeper than 4 before byte 5"},
      {"[1,2,3,4,5,6,7,8,9,10,11,12]", "json: 28 bytes, at most 24 allowed"},
      {"{}{}", "json: syntax error while parsing value - unexpected '{'; expected end of input at byte 2"},
      {"[NaN]", "json: syntax error while parsing value - invalid literal at byte 1"},
      {"\xEF\xBB\xBF{}", "json: byte-order mark at byte 0"},
  }));
  CAPTURE(text);
  const auto value = parse_document(text, {24, 4});
  REQUIRE_FALSE(value.ok());
  CHECK(value.error().code == ErrorCode::kMalformed);
  CHECK(value.error().message == message);
}

}  // namespace
}  // namespace dgx::json
