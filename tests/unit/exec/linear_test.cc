#include "plan/linear.h"

#include <catch2/catch.hpp>

namespace dgx::exec {
namespace {

/// A map over `indices` dimensions of 2, which reads one element with `coordinates` coordinates, each i0 - 1.
kernels::CompiledPrimitive reading_outside(std::size_t indices, std::size_t coordinates) {
  kernels::CompiledPrimitive map;
  map.iteration.assign(indices, 2);
  kernels::CompiledCoordinate outside;
  outside.terms = {{0, -1, 1}};
  outside.constant = -1;
  outside.size = 2;
  map.accesses.emplace_back();
  map.accesses[0].coordinates.assign(coordinates, outside);
  return map;
}

TEST_CASE("strips take as many dimensions and guarded coordinates as they have room for, and no more") {
  const auto most = strip_accesses(reading_outside(kMaxRank, kMaxRank));
  REQUIRE(most);
  CHECK(most->front().guarded.size() == kMaxRank);
  CHECK_FALSE(strip_accesses(reading_outside(kMaxRank, kMaxRank + 1)));
  CHECK_FALSE(strip_accesses(reading_outside(kMaxRank + 1, 1)));
}

}  // namespace
}  // namespace dgx::exec
