#include "dgx/program/line.h"

#include <catch2/catch.hpp>

#include "dgx/program/program.h"
#include "replaced.h"

using namespace dgx;
using namespace dgx::program;
using test::replaced;

namespace {

struct Numbered {
  int number;
  const char* text;
};

/// The page's lines, and forms it does not show.
const Numbered kAccepted[] = {
    {3,
     R"~({"k":"input","of":["lr/(1-b1^t)","1/sqrt(1-b2^t)","1-lr*wd"],"s":[3],"src":"schedule","t":"f32","v":3})~"},
    {14, R"({"k":"input","next":2190,"s":[1536,384],"src":"state h.0.fc.weight","t":"f32","v":14})"},
    {213,
     R"({"f":[384],"g":"41 addmm","k":"dot","s":[2048,1536],"t":"f32","v":213,"x":["211[i0,k0]","14[i1,k0]"]})"},
    {214,
     R"({"do":["add x0 x1","max 0x0p0 t0"],"g":"42 relu","k":"map","s":[2048,1536],"t":"f32","v":214,"x":["213[i0,i1]","15[i1]"]})"},
    {31,
     R"({"f":[3,3,16],"g":"9 convolution","k":"dot","s":[32,32,14,14],"t":"f32","v":31,"x":["30[i0,2*i2+k0-1,2*i3+k1-1,k2]?0x0p0","7[i1,k2,k0,k1]"]})"},
    {812,
     R"({"f":[3,3,32],"k":"dot","s":[32,16,28,28],"t":"f32","v":812,"x":["811[i0,k2,(i2-k0+1)/2,(i3-k1+1)/2]?0x0p0","7[k2,i1,k0,k1]"]})"},
    {208,
     R"({"do":["sub x0 x1","mul t0 t0"],"f":[384],"k":"sum","s":[2048],"t":"f32","v":208,"x":["205[i0,k0]","207[i0]"]})"},
    {20, R"({"k":"map","s":[8,256,384],"t":"f32","v":20,"x":["1[$1,i2]?0x0p0","0[i0,i1]"]})"},
    {2101,
     R"({"do":["add acc x0"],"f":[2048],"init":"0x0p0","k":"chain","s":[256,384],"t":"f32","v":2101,"when":["eq x1 i0"],"x":["2100@2048.384[k0,i1]","0@2048[k0]"]})"},
    {0, R"({"k":"input","of":["0x1p0"],"s":[1],"src":"constant","t":"f32","v":0})"},
    {0, R"({"k":"input","s":[],"src":"batch y","t":"u8","v":0})"},
    {0, R"({"k":"input","s":[2,5],"src":"batch attention_mask","t":"i64","v":0})"},
    {0, R"({"k":"input","s":[4],"src":"uniform 3","t":"f32","v":0})"},
    {7, R"({"i":[2,3],"k":"map","s":[2,3],"t":"f32","v":7,"x":["0[i0,i1]"]})"},  // i may equal s
    {1, R"({"i":[2,3],"k":"map","s":[6],"t":"i64","v":1,"x":["0[4-i0,i1//2,(2*i0+i1-3)//5,-i0]?-1"]})"},
};

}  // namespace

TEST_CASE("an accepted line prints to the same bytes") {
  for (const auto& [number, text] : kAccepted) {
    const kernels::ValueIndex value{number};
    INFO(text);
    const auto line = parse_line(text, value);
    if (!line.ok()) FAIL(line.error().message);
    CHECK(print_line(*line, value) == text);
    CHECK(*parse_line(print_line(*line, value), value) == *line);
  }
}

TEST_CASE("a line is refused with its number and the field") {
  const std::string map = kAccepted[3].text;
  struct Case {
    std::string text;
    std::string message;
  };
  const Case cases[] = {
      {replaced(map, "\"v\":214", "\"v\":215"), "v"},
      {replaced(map, "\"k\":\"map\"", "\"k\":\"mop\""), "unknown kind 'mop'"},
      {replaced(map, "\"t\":\"f32\"", "\"t\":\"f16\""), "t: "},
      {replaced(map, "[2048,1536]", "[2048,0]"), "dimensions are positive"},
      {replaced(map, "[2048,1536]", "[1,1,1,1,1,1,1,1,1]"), "s: "},
      {replaced(map, "add x0 x1", "add x0"), "do: item 0: byte 6: operand 1 is missing"},
      {replaced(map, "add x0 x1", "add x0 x1 x1"), "more than 2 operands"},
      {replaced(map, "add x0 x1", "plus x0 x1"), "unknown operation 'plus'"},
      {replaced(map, "add x0 x1", "add x0  x1"), "an operand is missing"},
      {replaced(map, "0x0p0", "0.0"), "do: item 1"},
      {replaced(map, "0x0p0", "0x0p0f"), "not a normalised hex float"},
      {replaced(map, "0x0p0", "+1"), "do: item 1"},
      {replaced(map, "15[i1]", "15[i1"), "x: item 1: byte 5: expected ','"},
      {replaced(map, "15[i1]", "015[i1]"), "leading zero"},
      {replaced(map, "15[i1]", "15[j1]"), "expected i, k, $ or a number"},
      {replaced(map, "15[i1]", "15[i1]!"), "expected '?' or the end"},
      {replaced(map, "15[i1]", "15[i1]?"), "x: item 1"},
      {replaced(map, "15[i1]", "15[i1+i0]"), "out of order"},
      {replaced(map, "15[i1]", "15[i1+i1]"), "out of order, repeated"},
      {replaced(map, "15[i1]", "15[0*i1]"), "zero"},
      {replaced(map, "15[i1]", "15[1*i1]"), "not in canonical form"},
      {replaced(map, "15[i1]", "15[(i1)]"), "not in canonical form"},
      {replaced(map, "15[i1]", "15[i1/1]?0x0p0"), "divisor"},
      {replaced(map, "15[i1]", "15[1+i1]"), "not in canonical form"},
      {replaced(map, "15[i1]", "15[(9)//2]"), "divisor is below 2"},  // a dividend must contain a symbol
      {replaced(map, "15[i1]", "15[9//2]"), "divisor is below 2"},
      {replaced(map, "15[i1]", "70000[i1]"), "expected a number up to 65535"},
      {replaced(map, "15[i1]", "15[i1+9007199254740993]"), "expected a number up to"},
      {replaced(map, "\"s\":", "\"r\":1,\"s\":"), "r: unknown field"},
      {replaced(map, "\"g\":", "\"f\":[2],\"g\":"), "f: unknown field"},
      {replaced(map, "{\"do\"", "{ \"do\""), "byte 1"},
      {replaced(map, "\"g\":\"42 relu\"", "\"g\":\"\""), "not in canonical form"},
      {replaced(map, "}", "} "), "byte"},
      {map + "x", "byte"},
      {replaced(map, "\"g\":\"42 relu\"", "\"g\":\"" + std::string(300, 'a') + "\""), "g: "},
      {std::string(kMaxLineBytes + 1, ' '), "longer than 3072 bytes"},
      {"", "line 214"},
  };
  for (const auto& [text, message] : cases) {
    INFO(text);
    const auto line = parse_line(text, kernels::ValueIndex{214});
    REQUIRE(!line.ok());
    CHECK(line.error().code == ErrorCode::kMalformed);
    CHECK_THAT(line.error().message, Catch::StartsWith("line 214: "));
    CHECK_THAT(line.error().message, Catch::Contains(message));
  }
}

TEST_CASE("an input takes its source from a closed list") {
  const std::string state = R"({"k":"input","next":2,"s":[3],"src":"state model/a","t":"f32","v":0})";
  REQUIRE(parse_line(state, {}).ok());
  for (const char* source :
       {"state", "state ", "state a b", "batch Z", "batch 1x", "batch x y", "batch classes", "batch",
        "batch ", "schedule x", "constants", "uniform x", "uniform 16777216", "uniform -1", ""}) {
    INFO(source);
    CHECK(!parse_line(replaced(state, "state model/a", source), {}).ok());
  }
  CHECK(!parse_line(replaced(state, "state model/a", "state " + std::string(257, 'n')), {}).ok());
  const std::string batch = R"({"k":"input","s":[3],"src":"batch x","t":"f32","v":0})";
  CHECK(parse_line(replaced(batch, "batch x", "batch " + std::string(32, 'n')), {}).ok());
  CHECK(!parse_line(replaced(batch, "batch x", "batch " + std::string(33, 'n')), {}).ok());
  CHECK(!parse_line(replaced(state, "state model/a", "batch x"), {}).ok());  // only state entries have a next
}

TEST_CASE("no flipped bit of a line is overlooked") {
  for (const auto& [number, text] : kAccepted) {
    const kernels::ValueIndex value{number};
    const auto original = parse_line(text, value);
    std::string flipped = text;
    for (std::size_t bit = 0; bit < flipped.size() * 8; ++bit) {
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
      const auto line = parse_line(flipped, value);
      if (line.ok()) {
        REQUIRE(print_line(*line, value) == flipped);
        REQUIRE(!(*line == *original));
      }
      flipped[bit / 8] = text[bit / 8];
    }
  }
}

TEST_CASE("a program is its lines, each ended by a newline") {
  const std::string text =
      std::string(R"({"k":"input","of":["0x1p0"],"s":[1],"src":"constant","t":"f32","v":0})") + "\n" +
      R"({"do":["add x0 0x1p0"],"k":"map","s":[1],"t":"f32","v":1,"x":["0[i0]"]})" + "\n";
  const auto program = parse_program(text);
  REQUIRE(program.ok());
  CHECK(print_program(*program) == text);
  CHECK(lines_of(text).size() == 2);
  CHECK(program_root(*program) == program_root(text));
  // Python: H(0x01 || H(0x00 || line 0) || H(0x00 || line 1)).
  CHECK(program_root(text).hex() == "a63ff763308f8a8a312e11db873912397d7b6789fdd19a194c079086bc91449d");
  CHECK(!parse_program("").ok());
  CHECK(!parse_program(text.substr(0, text.size() - 1)).ok());
  CHECK(!parse_program(text + "\n").ok());
  CHECK_THAT(parse_program(text + "{}\n").error().message, Catch::StartsWith("line 2: "));
}
