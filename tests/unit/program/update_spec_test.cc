#include "dgx/program/update_spec.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <limits>
#include <string>

namespace dgx::program {
namespace {

TEST_CASE("a glob means whole names, a rank means dimensions") {
  CHECK(matches("head.*", "head.weight", 2));
  CHECK(matches("*", "head.weight", 2));
  CHECK(matches("*.?ias", "layer1.0.bias", 1));
  CHECK(matches("a*b*c", "abcbc", 1));
  CHECK(matches("0.weight", "0.weight", 2));
  CHECK(matches("**", "", 0));
  CHECK_FALSE(matches("head", "head.weight", 2));
  CHECK_FALSE(matches("weight", "0.weight", 2));
  CHECK_FALSE(matches("?", "", 0));
  CHECK_FALSE(matches("a*b*c", "abcb", 1));
  CHECK_FALSE(matches("", "a", 1));
  CHECK_FALSE(matches("0[.]weight", "0.weight", 2));
  CHECK(matches("rank<2", "rank<2", 1));
  CHECK_FALSE(matches("rank<2", "rank<2", 2));
}

TEST_CASE("no glob takes longer than both lengths multiplied") {
  std::string pattern;
  for (int n = 0; n < 85; ++n) pattern += "*a?";
  const auto start = std::chrono::steady_clock::now();
  CHECK_FALSE(matches(pattern + "b", std::string(256, 'a'), 1));
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(1));
}

TEST_CASE("a pattern is printable, short, and of a known form") {
  for (const std::string& good :
       {std::string("*"), std::string("rank<1"), std::string("rank"), std::string(256, '*')})
    CHECK(check_pattern(good).ok());
  for (const std::string& bad :
       {std::string(), std::string("a b"), std::string("a\n"), std::string("\xc3\xa4"), std::string(257, 'a'),
        std::string("rank<"), std::string("rank<0"), std::string("rank<10"), std::string("rank<x")}) {
    INFO(bad);
    CHECK_FALSE(check_pattern(bad).ok());
  }
}

TEST_CASE("a group is read as it is typed") {
  const auto group = parse_group("head.*:lr=0.1x,weight-decay=0");
  REQUIRE(group.ok());
  CHECK(*group == ParameterGroup{"head.*", 0.1, 0.0});
  CHECK(*parse_group("rank<2:weight-decay=0") == ParameterGroup{"rank<2", 1, 0.0});
  CHECK(*parse_group("a:b:lr=2x") == ParameterGroup{"a:b", 2, std::nullopt});
  for (const char* bad :
       {"", "head", "head:", ":lr=1x", "a:lr=1e-3", "a:lr=0x", "a:lr=-1x", "a:lr=nanx", "a:lr=x", "a:lr=infx",
        "a:lr=1e31x", "a:lr=1x,lr=2x", "a:momentum=1", "a:weight-decay=-1", "a:weight-decay", "a b:lr=1x"}) {
    INFO(bad);
    const auto refused = parse_group(bad);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::kUsage);
  }
}

std::string refusal(const std::string& text) {
  const auto parsed = json::parse(text);
  json::Fields in(*parsed, "predicate");
  const UpdateSpec spec = read_update(in);
  if (const Status status = in.finish(); !status) return status.error().message;
  json::Object again;
  add_json(again, spec);
  CHECK(json::Value(again).dump() == text);
  return {};
}

TEST_CASE("a task's groups are refused where they are no groups") {
  CHECK(refusal("{}").empty());
  CHECK(
      refusal(
          R"({"freeze":["*.bias","rank<2"],"groups":[{"lr":"0x1p-1","match":"a"},{"lr":"0x1p0","match":"*","weight_decay":"0x0p0"}]})")
          .empty());
  for (const char* bad :
       {R"({"groups":[]})", R"({"groups":{}})", R"({"groups":[1]})", R"({"groups":[{"match":"a"}]})",
        R"({"groups":[{"lr":"0x0p0","match":"a"}]})", R"({"groups":[{"lr":"-0x0p0","match":"a"}]})",
        R"({"groups":[{"lr":"inf","match":"a"}]})", R"({"groups":[{"lr":"0x1p100","match":"a"}]})",
        R"({"groups":[{"lr":"0x1p0","match":""}]})", R"({"groups":[{"lr":"0x1p0","match":"a b"}]})",
        R"({"groups":[{"lr":"0x1p0","match":"a","weight_decay":"-0x1p0"}]})",
        R"({"groups":[{"lr":"0x1p0","match":"a","momentum":"0x1p0"}]})", R"({"freeze":[]})",
        R"({"freeze":"a"})", R"({"freeze":[1]})", R"({"freeze":["rank<0"]})"}) {
    INFO(bad);
    CHECK_FALSE(refusal(bad).empty());
  }
  std::string many;
  for (int n = 0; n < 33; ++n) many += R"(,"a")";
  CHECK_FALSE(refusal(R"({"freeze":[)" + many.substr(1) + "]}").empty());
}

TEST_CASE("an average and the steps of an update are refused out of range") {
  CHECK(refusal(R"({"accumulate":1048576,"ema":"0x1.ff7ced916872bp-1"})").empty());
  for (const char* bad : {R"({"accumulate":1})", R"({"accumulate":-2})", R"({"accumulate":1048577})",
                          R"({"accumulate":"2"})", R"({"ema":"0x0p0"})", R"({"ema":"0x1p0"})",
                          R"({"ema":"-0x1p-1"})", R"({"ema":"nan"})", R"({"ema":1})"}) {
    INFO(bad);
    CHECK_FALSE(refusal(bad).empty());
  }
}

}  // namespace
}  // namespace dgx::program
