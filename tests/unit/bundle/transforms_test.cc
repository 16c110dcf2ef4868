#include "dgx/bundle/transforms.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "support.h"

namespace dgx::bundle {
namespace {

template <class T>
std::vector<T> values(const BulkTensor& tensor) {
  const auto span = tensor.as<T>();
  return {span.begin(), span.end()};
}

BulkTensor bytes(Shape shape, const std::vector<std::uint8_t>& numbers) {
  Tensor out(DType::kU8, std::move(shape));
  std::copy(numbers.begin(), numbers.end(), out.bytes().begin());
  return out;
}

TEST_CASE("a sample's shape changes only if it has as many numbers") {
  BulkTensor x = bytes({2, 6}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  REQUIRE(reshape_samples({1, 2, 3}, x).ok());
  CHECK(x.shape() == Shape{2, 1, 2, 3});
  CHECK(x.bytes()[11] == 12);
  CHECK(std::move(x).take().shape() == Shape{2, 1, 2, 3});
  BulkTensor other = bytes({1, 6}, {1, 2, 3, 4, 5, 6});
  for (const Shape& bad : {Shape{7}, Shape{-6, -1}, Shape{0, 6}, Shape{1, 1, 1, 1, 1, 1, 1, 6}}) {
    const auto status = reshape_samples(bad, other);
    REQUIRE(!status.ok());
    CHECK(status.error().code == ErrorCode::kUsage);
  }
}

TEST_CASE("rows are left out, kept, and put into another order, in memory and in a file") {
  CHECK(choose_rows(5, 0, std::nullopt)->count == 5);
  const Rows rows = *choose_rows(5, 2, 2);
  CHECK((rows.begin == 2 && rows.count == 2));
  CHECK(!choose_rows(5, 5, std::nullopt).ok());
  CHECK(!choose_rows(5, -1, std::nullopt).ok());
  CHECK(!choose_rows(5, 2, 4).ok());
  CHECK(!choose_rows(5, 2, 0).ok());
  const BulkTensor field = bytes({5, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  for (const std::uint64_t bulk : {std::uint64_t{1}, kBulkBytes}) {
    CHECK(values<std::uint8_t>(*take_rows(field, rows, bulk)) == std::vector<std::uint8_t>{4, 5, 6, 7});
    const Rows back{1, 3, [](std::int64_t i) { return 4 - i; }};
    CHECK(values<std::uint8_t>(*take_rows(field, back, bulk)) == std::vector<std::uint8_t>{6, 7, 4, 5, 2, 3});
  }
}

TEST_CASE("the channels are the columns of tables and the channels of images") {
  CHECK(channels_of({5}) == 1);
  CHECK(channels_of({5, 3}) == 3);
  CHECK(channels_of({5, 28, 28}) == 1);
  CHECK(channels_of({5, 3, 8, 8}) == 3);
  CHECK(channels_of({5, 3, 8, 8, 8}) == 3);
}

TEST_CASE("normalised channels have mean 0 and standard deviation 1") {
  // Two samples of two channels of two numbers: 1 3 1 3, and 9 9 9 9.
  const BulkTensor x = bytes({2, 2, 1, 2}, {1, 3, 9, 9, 1, 3, 9, 9});
  const auto found = normalising(x);
  REQUIRE(found.ok());
  CHECK(*found == std::vector<Affine>{{1, -2}, {1, -9}});
  const auto out = scaled(x, *found);
  REQUIRE(out.ok());
  CHECK(values<float>(*out) == std::vector<float>{-1, 1, 0, 0, -1, 1, 0, 0});
  // The sum of three is rounded: the mean must not be.
  Tensor equal(DType::kI64, {3, 1});
  for (std::int64_t& number : equal.as<std::int64_t>()) number = (std::int64_t{1} << 53) - 1;
  CHECK(*normalising(BulkTensor(equal)) == std::vector<Affine>{{1, -0x1p53F}});
  CHECK(!std::signbit(normalising(bytes({2}, {0, 0}))->front().shift));
  Tensor close(DType::kF32, {2});
  close.as<float>()[1] = 0x1p-149F;
  CHECK(normalising(BulkTensor(close)).error().code == ErrorCode::kMalformed);
  CHECK(!scaled(x, {{1, 0}, {0, 0}}).ok());
  CHECK(!scaled(x, {{1, NAN}, {1, 0}}).ok());
}

TEST_CASE("a scale is applied by one rounding") {
  Tensor x(DType::kI64, {1, 2});
  x.as<std::int64_t>()[0] = (1 << 23) + 1;
  // The product 2^46 + 2^24 + 1 has more bits than a float: rounded by itself it loses the 1.
  const auto out = scaled(BulkTensor(x), {{0x1p23F + 1, -0x1p46F - 0x1p24F}, {1, 0}});
  REQUIRE(out.ok());
  CHECK(values<float>(*out) == std::vector<float>{1, 0});
}

TEST_CASE("statistics are of the stored numbers, and classes without samples count") {
  const auto data =
      make_dataset(bytes({3, 2}, {5, 1, 2, 2, 2, 0}), bytes({3}, {0, 2, 2}), 1, 0, {"a", "b", "c", "d"});
  REQUIRE(data.ok());
  const auto x = summary_of(data->x().numbers);
  CHECK((x->least == 0 && x->greatest == 5 && x->mean == 2));
  CHECK(*class_counts(*data) == std::vector<std::int64_t>{1, 0, 2, 0});
  const auto targets = make_dataset(bytes({1, 1}, {5}), bytes({1, 2}, {0, 2}));
  CHECK(class_counts(*targets)->empty());
}

}  // namespace
}  // namespace dgx::bundle
