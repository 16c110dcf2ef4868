#include "dgx/kernels/order.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "ref_support.h"

namespace dgx::kernels {
namespace {

TEST_CASE("batches are those of the stated permutation") {
  for (const json::Value& vector : *member(vectors(), "order").as_array()) {
    const auto order =
        DataOrder::create(hex(member(vector, "seed")), integer(vector, "n"), integer(vector, "batch"));
    REQUIRE(order.ok());
    std::vector<std::int64_t> expected;
    for (const json::Value& index : *member(vector, "indices").as_array())
      expected.push_back(*index.as_int());
    CHECK(order->batch_indices(integer(vector, "step")) == expected);
  }
}

TEST_CASE("every epoch shows every sample once") {
  for (const std::int64_t n : {1, 2, 3, 4, 5, 16, 17, 255, 256, 257, 1000, 4097}) {
    const auto order = DataOrder::create(11, n, 1);
    REQUIRE(order.ok());
    for (const std::int64_t epoch : {0, 1, 7}) {
      std::vector<std::int64_t> seen;
      for (std::int64_t p = 0; p < n; ++p) seen.push_back(order->sample_at(epoch * n + p));
      std::ranges::sort(seen);
      for (std::int64_t p = 0; p < n; ++p) REQUIRE(seen[static_cast<std::size_t>(p)] == p);
    }
  }
}

TEST_CASE("epochs and seeds differ in their order") {
  const auto order = DataOrder::create(11, 100, 100);
  CHECK(order->batch_indices(0) != order->batch_indices(1));
  CHECK(order->batch_indices(0) != DataOrder::create(12, 100, 100)->batch_indices(0));
}

TEST_CASE("steps are whole batches of all epochs together") {
  const auto order = DataOrder::create(0, 60000, 128);
  CHECK(*order->steps_in(1) == 468);
  CHECK(*order->steps_in(5) == 2343);
  CHECK_FALSE(order->steps_in(0).ok());
  CHECK_FALSE(order->steps_in(-1).ok());
  CHECK_FALSE(order->steps_in(std::int64_t{1} << 60).ok());
}

TEST_CASE("batches that cannot be filled are refused") {
  CHECK_FALSE(DataOrder::create(0, 0, 1).ok());
  CHECK_FALSE(DataOrder::create(0, 10, 0).ok());
  CHECK_FALSE(DataOrder::create(0, 10, 11).ok());
  CHECK_FALSE(DataOrder::create(0, std::int64_t{1} << 53, 1).ok());
  CHECK(DataOrder::create(0, 10, 10).ok());
}

}  // namespace
}  // namespace dgx::kernels
