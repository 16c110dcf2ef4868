#include "dgx/core/checked.h"

#include <catch2/catch.hpp>
#include <limits>

namespace dgx {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();

TEST_CASE("checked arithmetic gives the result, or nothing where it would wrap") {
  CHECK(checked_add(kMax - 1, std::int64_t{1}) == kMax);
  CHECK_FALSE(checked_add(kMax, std::int64_t{1}));
  CHECK(checked_mul(std::int64_t{1} << 31, std::int64_t{1} << 31) == std::int64_t{1} << 62);
  CHECK_FALSE(checked_mul(std::int64_t{1} << 32, std::int64_t{1} << 31));
  CHECK_FALSE(checked_mul(kMin, std::int64_t{-1}));
}

TEST_CASE("ceil_div rounds up and never overflows") {
  CHECK(ceil_div(0, 3) == 0);
  CHECK(ceil_div(6, 3) == 2);
  CHECK(ceil_div(7, 3) == 3);
  CHECK(ceil_div(kMax, 2) == (std::int64_t{1} << 62));
}

TEST_CASE("mul_div floors a product of up to 126 bits") {
  CHECK(*mul_div(7, 3, 2) == 10);
  CHECK(*mul_div(kMax, kMax, kMax) == kMax);
  CHECK(*mul_div(kMax, kMax - 1, kMax) == kMax - 1);
  CHECK(*mul_div(0, kMax, 1) == 0);
}

TEST_CASE("mul_div refuses negatives, a zero divisor and results beyond 63 bits") {
  CHECK(mul_div(-1, 1, 1).error().code == ErrorCode::kUsage);
  CHECK(mul_div(1, -1, 1).error().code == ErrorCode::kUsage);
  CHECK(mul_div(1, 1, 0).error().code == ErrorCode::kUsage);
  CHECK(mul_div(1, 1, -1).error().code == ErrorCode::kUsage);
  CHECK(mul_div(kMax, 2, 1).error().code == ErrorCode::kUsage);
}

}  // namespace
}  // namespace dgx
