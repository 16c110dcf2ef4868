#include "dgx/core/json_output.h"

#include <catch2/catch.hpp>
#include <limits>

namespace dgx::json {

using Limits64 = std::numeric_limits<double>;

TEST_CASE("a float is the shortest number that reads back, and is never taken for an integer") {
  CHECK(Output(0.25).dump() == "0.25");
  CHECK(Output(1.0).dump() == "1.0");
  CHECK(Output(-0.0).dump() == "-0.0");
  CHECK(Output(1e-7).dump() == "1e-07");
  CHECK(Output(1e16).dump() == "1e+16");
  CHECK(Output(Limits64::denorm_min()).dump() == "5e-324");
  CHECK(Output(0.1).dump() == "0.1");
  CHECK(Output(0.1F).dump() == "0.10000000149011612");
}

TEST_CASE("a float that is not finite is null, and says beside it what it is") {
  CHECK(Output(Limits64::infinity()).dump() == "null");
  const Output::Object object{
      {"a", Limits64::infinity()}, {"b", -Limits64::infinity()}, {"c", Limits64::quiet_NaN()}};
  CHECK(Output(object).dump() ==
        R"({"a":null,"a_hex":"inf","b":null,"b_hex":"-inf","c":null,"c_hex":"nan"})");
}

TEST_CASE("a number in hex has its value and its hex") {
  const auto printed = [](const char* text) {
    return Output(Output::Object{{"x", Output::of_hex(text)}}).dump();
  };
  CHECK(printed("0xbdaf6ff0") == R"({"x":-0.08566272258758545,"x_hex":"0xbdaf6ff0"})");
  CHECK(printed("0x1.8p3") == R"({"x":12.0,"x_hex":"0x1.8p3"})");
  CHECK(printed("0x7fc00000") == R"({"x":null,"x_hex":"0x7fc00000"})");
  CHECK(printed("0x7fffffffffffffff") == R"({"x":"9223372036854775807","x_hex":"0x7fffffffffffffff"})");
  CHECK(printed("0xff") == R"({"x":255,"x_hex":"0xff"})");
  CHECK(printed("-inf") == R"({"x":null,"x_hex":"-inf"})");
  CHECK(printed("nan") == R"({"x":null,"x_hex":"nan"})");
  CHECK(printed("seven") == R"({"x":"seven"})");
}

TEST_CASE("integers that JSON readers would round are strings") {
  CHECK(Output(std::int64_t{1} << 53).dump() == "9007199254740992");
  CHECK(Output((std::int64_t{1} << 53) + 1).dump() == R"("9007199254740993")");
  CHECK(Output(std::numeric_limits<std::int64_t>::min()).dump() == R"("-9223372036854775808")");
}

TEST_CASE("what came from a statement has the statement's bytes") {
  const std::string text = R"({"a":[1,"0x1.8p3",{"b":true}],"c":"line\n","d":{}})";
  CHECK(Output(*parse_canonical(text)).dump() == text);
  CHECK(Output().dump() == "null");
}

}  // namespace dgx::json
