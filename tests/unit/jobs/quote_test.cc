#include "dgx/jobs/quote.h"

#include <catch2/catch.hpp>

using namespace dgx;
using namespace dgx::jobs;

namespace {

manifest::Estimate worth(std::int64_t train, std::int64_t reward, std::int64_t escrow) {
  manifest::Estimate out;
  out.train = train;
  out.reward = reward;
  out.escrow = escrow;
  return out;
}

constexpr const char* kHead = R"({"currency":"EUR","units":1000000,"rows":)";

std::string refusal(const std::string& text) {
  const auto prices = parse_prices(text);
  REQUIRE_FALSE(prices.ok());
  CHECK(prices.error().code == ErrorCode::kMalformed);
  return prices.error().message;
}

std::string refused_row(const std::string& row) { return refusal(kHead + ("[" + row + "]}")); }

}  // namespace

TEST_CASE("a task is quoted exactly, rounded up to a millionth") {
  const auto prices = parse_prices(kHead + std::string(R"([
      {"name":"H100","per_hour":"2.49","operations_per_second":4000000000000},
      {"name":"laptop","per_hour":0,"operations_per_second":7000000000}]})"));
  REQUIRE(prices.ok());
  CHECK(prices->machines[0].per_hour_millionths == 2'490'000);
  // An hour of the first machine, and one operation more.
  const auto quoted = quote(*prices, worth(std::int64_t{4'000'000'000'000} * 3'600 / 16, 1, 12'050'000));
  REQUIRE(quoted.ok());
  CHECK(quoted->escrow == "12.05");
  CHECK(quoted->reward == "0.000001");
  CHECK(quoted->machines[0].charge == "0.155625");
  CHECK(quoted->machines[0].milliseconds == 225'000);
  CHECK(quoted->machines[1].charge == "0");
  const auto more = quote(*prices, worth(std::int64_t{4'000'000'000'000} * 3'600 / 16 + 1, 0, 0));
  REQUIRE(more.ok());
  CHECK(more->machines[0].charge == "0.155626");
  CHECK(more->machines[0].milliseconds == 225'001);
  CHECK(more->escrow == "0");
}

TEST_CASE("a quote that is no number of 53 bits is refused") {
  constexpr std::int64_t kMost = std::int64_t{1} << 53;
  Prices prices{"EUR", 1, {{"slow", 1, 1}}};
  CHECK(quote(prices, worth(0, 0, kMost)).error().code == ErrorCode::kUsage);
  CHECK(quote(prices, worth(kMost, 0, 0)).error().code == ErrorCode::kUsage);
  prices.units = 1'000'000;
  CHECK(quote(prices, worth(0, 0, kMost)).ok());
  prices.machines = {{"dear", kMost, 1}};
  CHECK(quote(prices, worth(3'600'000, 0, 0)).error().code == ErrorCode::kUsage);
  CHECK(quote(prices, worth(3'600, 0, 0)).ok());
}

TEST_CASE("prices that the page does not allow are refused by field and row") {
  CHECK(parse_prices(kHead + std::string("[]}")).ok());
  CHECK(refusal("[]").starts_with("prices: is an array"));
  CHECK(refusal(R"({"currency":"EUR","units":0,"rows":[]})") ==
        "prices: units: is 0, must be 1 to 9007199254740992");
  CHECK(refusal(R"({"currency":"","units":1,"rows":[]})") ==
        "prices: currency: must be 1 to 16 printable characters");
  CHECK(refusal(R"({"currency":"E\u001b","units":1,"rows":[]})") ==
        "prices: currency: must be 1 to 16 printable characters");
  CHECK(refusal(R"({"currency":"EUR","units":1,"rows":[],"more":1})").starts_with("prices: more: "));
  CHECK(refused_row(R"({"name":"a","operations_per_second":1})")
            .starts_with("prices: row 1: per_hour: is missing"));
  for (const std::string wrong : {"\"1,5\"", "\"\"", "\".5\"", "\"1.\"", "\"-1\"", "-1", "\"1.1234567\"",
                                  "\"0x1\"", "\"99999999999\"", "\"9999999999\"", "true", "[]"}) {
    CAPTURE(wrong);
    CHECK(refused_row(R"({"name":"a","operations_per_second":1,"per_hour":)" + wrong + "}") ==
          "prices: row 1: per_hour: is neither an integer nor a decimal in quotes, such as \"2.49\"");
  }
  // A number with a point is none that dgx reads: it would be rounded.
  CHECK_FALSE(
      parse_prices(kHead + std::string(R"([{"name":"a","operations_per_second":1,"per_hour":2.49}]})")).ok());
  const std::string row = R"({"name":"a","operations_per_second":1,"per_hour":1})";
  CHECK(refusal(kHead + ("[" + row + "," + row + "]}")) == "prices: row 2: a second machine is called a");
  std::string many = row;
  for (int n = 0; n < 256; ++n) many += "," + row;
  CHECK(refusal(kHead + ("[" + many + "]}")).starts_with("prices: rows: "));
}
