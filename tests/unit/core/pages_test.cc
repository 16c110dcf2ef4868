#include "dgx/core/pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "dgx/core/tensor.h"

namespace dgx {
namespace {

bool is_in_memory(const std::uint8_t* byte) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  unsigned char found = 0;
  REQUIRE(::mincore(reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(byte) / page * page), 1,
                    &found) == 0);
  return (found & 1U) != 0;
}

TEST_CASE("pages that are given back take no memory, and are zero; what lies around them stays") {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  Tensor numbers(DType::kU8, {std::int64_t{10'000'000}});
  std::ranges::fill(numbers.bytes(), std::uint8_t{255});
  const auto all = numbers.bytes();
  const auto inside = all.subspan(1'000'001, 5'000'000);
  REQUIRE(is_in_memory(&inside[2'000'000]));
  give_back_pages(inside);
  CHECK_FALSE(is_in_memory(&inside[2'000'000]));
  const auto is_zero = [](std::uint8_t byte) { return byte == 0; };
  CHECK(std::ranges::none_of(all.first(1'000'001), is_zero));
  CHECK(std::ranges::none_of(all.subspan(6'000'001), is_zero));
  CHECK(std::ranges::all_of(inside.subspan(page, inside.size() - 2 * page), is_zero));
  inside[2'000'000] = 7;
  CHECK(is_in_memory(&inside[2'000'000]));
}

TEST_CASE("of bytes without a whole page nothing is given back") {
  Tensor numbers(DType::kU8, {100'000});
  std::ranges::fill(numbers.bytes(), std::uint8_t{255});
  give_back_pages(numbers.bytes().first(0));
  give_back_pages(numbers.bytes().subspan(5, 1000));
  give_back_pages({});
  CHECK(std::ranges::count(numbers.bytes(), std::uint8_t{255}) == 100'000);
}

}  // namespace
}  // namespace dgx
