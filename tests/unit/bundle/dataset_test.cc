#include "dgx/bundle/dataset.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <limits>

#include "dgx/bundle/transforms.h"
#include "support.h"

namespace dgx::bundle {
namespace {

using test::Folder;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

Tensor floats(Shape shape, std::initializer_list<float> values) {
  Tensor tensor(DType::kF32, std::move(shape));
  std::ranges::copy(values, tensor.as<float>().begin());
  return tensor;
}

Tensor integers(std::initializer_list<std::int64_t> values) {
  Tensor tensor(DType::kI64, {static_cast<std::int64_t>(values.size())});
  std::ranges::copy(values, tensor.as<std::int64_t>().begin());
  return tensor;
}

Dataset small() {
  auto made = make_dataset(test::numbers(DType::kU8, {1500, 784}, 1), test::numbers(DType::kI64, {1500}, 2),
                           0x1p-8F, -0.5F);
  REQUIRE(made.ok());
  return std::move(made).value();
}

const BulkView& numbers(const Dataset& data, std::string_view field) {
  return data.find(field)->numbers.view();
}

TEST_CASE("a dataset comes back with its scale, shift and ranges") {
  const Folder folder;
  const Dataset data = small();
  const auto digest = write_dataset(folder / "d.h5", data, Clobber::kRefuse);
  REQUIRE(digest.ok());
  CHECK(*digest == *dataset_digest(data));
  const auto read = read_dataset(folder / "d.h5");
  REQUIRE(read.ok());
  CHECK(test::same(numbers(*read, "x"), numbers(data, "x")));
  CHECK(test::same(numbers(*read, "y"), numbers(data, "y")));
  CHECK(read->scale == 0x1p-8F);
  CHECK(read->shift == -0.5F);
  CHECK(read->x().range == IntegerRange{0, 255});
  CHECK(read->find("y")->range == data.find("y")->range);
  const auto info = read_dataset_info(folder / "d.h5");
  REQUIRE(info.ok());
  CHECK(info->samples == 1500);
  CHECK(info->x().shape == Shape{1500, 784});
  CHECK(info->find("y")->dtype == DType::kI64);
  CHECK(info->digest == *digest);
}

TEST_CASE("a dataset that is too large for memory is the same in a file") {
  const Folder folder;
  const Dataset data = small();
  const Digest digest = *write_dataset(folder / "d.h5", data, Clobber::kRefuse);
  for (const int threads : {1, 3}) {
    auto read = read_dataset(folder / "d.h5", Check::kDigests, {.threads = threads, .bulk_bytes = 100'000});
    REQUIRE(read.ok());
    CHECK(numbers(*read, "x").file >= 0);
    CHECK(numbers(*read, "y").file == -1);
    CHECK(test::same(numbers(*read, "x"), numbers(data, "x")));
    CHECK(*dataset_digest(*read) == digest);
    REQUIRE(write_dataset(folder / "again.h5", *read, Clobber::kReplace).ok());
    CHECK(test::slurp(folder / "again.h5") == test::slurp(folder / "d.h5"));
    auto x = take_rows(read->x().numbers, {0, 1499});
    auto y = take_rows(read->find("y")->numbers, {0, 1499});
    REQUIRE((x.ok() && y.ok()));
    const auto made = make_dataset(std::move(x).value(), std::move(y).value(), data.scale, data.shift);
    REQUIRE(made.ok());
    CHECK(made->x().range == data.x().range);
    CHECK(std::ranges::equal(numbers(*made, "x").bytes, numbers(data, "x").bytes.first(1499 * 784)));
  }
}

TEST_CASE("the recipe is the canonical JSON that the page gives") {
  auto data = make_dataset(Tensor(DType::kU8, {1, 2}), integers({9}), 0x1.fep-8F, -0.0F);
  REQUIRE(data.ok());
  CHECK(dataset_recipe(*data) == R"({"ranges":{"x":[0,0],"y":[9,9]},"scale":"0x1.fep-8","shift":"-0x0p0"})");
  data = make_dataset(floats({1}, {2}), floats({1}, {3}), 0x1p-149F, 0x1.fffffep127F);
  REQUIRE(data.ok());
  CHECK(dataset_recipe(*data) == R"({"ranges":{},"scale":"0x1p-149","shift":"0x1.fffffep127"})");
}

// From Python's hashlib: two leaves for each tree, followed by the recipe's SHA-256.
TEST_CASE("the digest of a tiny dataset is what Python computes") {
  const auto data = make_dataset(floats({2, 1}, {1, 2}), integers({0, 1}));
  REQUIRE(data.ok());
  CHECK(dataset_digest(*data)->hex() == "b926996c12511e90409d2a0452ae30700f8f2f584b691dfa76b3c03f51cd9a2d");
}

FieldNumbers masked() {
  FieldNumbers fields;
  fields.emplace("x", floats({2, 1}, {1, 2}));
  fields.emplace("y", integers({0, 1}));
  Tensor mask(DType::kU8, {2, 3});
  std::ranges::copy(std::initializer_list<std::uint8_t>{1, 0, 1, 0, 0, 7}, mask.bytes().begin());
  fields.emplace("mask", std::move(mask));
  return fields;
}

// From the page by tests/interop/spec/digests.py.
TEST_CASE("a dataset of other fields has the digest of the page and comes back") {
  const Folder folder;
  const auto data = make_dataset(masked());
  REQUIRE(data.ok());
  CHECK(dataset_recipe(*data) == R"({"ranges":{"mask":[0,7],"y":[0,1]},"scale":"0x1p0","shift":"0x0p0"})");
  CHECK(dataset_digest(*data)->hex() == "875155656377ebd9a2d91b8f857f90d79451606b8a376ee205d97a1eaa086279");
  REQUIRE(write_dataset(folder / "d.h5", *data, Clobber::kRefuse).ok());
  const auto read = read_dataset(folder / "d.h5");
  REQUIRE(read.ok());
  CHECK(read->fields.size() == 3);
  CHECK(test::same(numbers(*read, "mask"), numbers(*data, "mask")));
  CHECK(read->find("mask")->range == IntegerRange{0, 7});
  CHECK(read_dataset_info(folder / "d.h5")->find("mask")->shape == Shape{2, 3});
  FieldNumbers alone;
  alone.emplace("x", floats({2, 1}, {1, 2}));
  const auto without_y = make_dataset(std::move(alone));
  REQUIRE(without_y.ok());
  CHECK(dataset_digest(*without_y)->hex() ==
        "719da2f9080b428aa5522604bf8745e0b8341658eb243934d7307cf98180819f");
  REQUIRE(write_dataset(folder / "x.h5", *without_y, Clobber::kRefuse).ok());
  CHECK(read_dataset(folder / "x.h5")->find("y") == nullptr);
}

TEST_CASE("another name, number or range of a field gives another digest") {
  const auto data = make_dataset(masked());
  REQUIRE(data.ok());
  const Digest digest = *dataset_digest(*data);
  Dataset other = *data;
  other.fields["mask"].numbers.bytes()[2] ^= 1;
  CHECK(*dataset_digest(other) != digest);
  other = *data;
  other.fields["mask"].range->high = 8;
  CHECK(*dataset_digest(other) != digest);
  other = *data;
  auto moved = other.fields.extract("mask");
  moved.key() = "masks";
  other.fields.insert(std::move(moved));
  CHECK(*dataset_digest(other) != digest);
}

TEST_CASE("fields that are none are refused") {
  const auto refused = [](const std::function<void(FieldNumbers&)>& change) {
    FieldNumbers fields = masked();
    change(fields);
    const auto made = make_dataset(std::move(fields));
    return made.ok() ? "" : made.error().message;
  };
  CHECK(refused([](auto& fields) { fields.erase("x"); }) == "there is no field x");
  CHECK(refused([](auto& fields) {
          fields["mask"] = Tensor(DType::kU8, {3, 2});
        }) == "x has 2 samples, mask has 3");
  for (const char* name : {"Mask", "", "1x", "a/b", "classes", "channels", "m-n"})
    CHECK(refused([&](auto& fields) { fields[name] = Tensor(DType::kU8, {2}); }).find("no name of a field") !=
          std::string::npos);
  CHECK(refused([&](auto& fields) {
          for (const char* name : {"a", "b", "c", "d", "e", "f"}) fields[name] = Tensor(DType::kU8, {2});
        }) == "9 fields, at most 8");
}

TEST_CASE("every part of a dataset is bound by its digest") {
  const Dataset data = small();
  const Digest digest = *dataset_digest(data);
  Dataset other = data;
  other.fields["x"].numbers.bytes()[784 * 1500 - 1] ^= 1;
  CHECK(*dataset_digest(other) != digest);
  other = data;
  other.fields["y"].numbers.as<std::int64_t>()[3] += 1;
  CHECK(*dataset_digest(other) != digest);
  other = data;
  other.scale = std::nextafter(other.scale, 1.0F);
  CHECK(*dataset_digest(other) != digest);
  other = data;
  other.shift = -other.shift;
  CHECK(*dataset_digest(other) != digest);
  other = data;
  other.fields["y"].range->high += 1;
  CHECK(*dataset_digest(other) != digest);
}

TEST_CASE("a number that is not finite is refused by sample and element") {
  auto bad = make_dataset(floats({2, 3}, {0, 1, 2, 3, 4, kNan}), integers({0, 1}));
  REQUIRE(!bad.ok());
  CHECK(bad.error().code == ErrorCode::kMalformed);
  CHECK(bad.error().message == "x: sample 1, element 2 is NaN");
  bad = make_dataset(Tensor(DType::kU8, {2, 1}), floats({2}, {0, -kInfinity}));
  REQUIRE(!bad.ok());
  CHECK(bad.error().message == "y: sample 1, element 0 is infinite");
}

TEST_CASE("samples and labels must fit each other") {
  CHECK(make_dataset(Tensor(DType::kU8, {2, 3}), integers({1})).error().message ==
        "x has 2 samples, y has 1");
  CHECK(make_dataset(Tensor(DType::kU8, {}), integers({1})).error().code == ErrorCode::kMalformed);
  CHECK(make_dataset(Tensor(DType::kU8, {0, 3}), Tensor(DType::kU8, {0})).error().code ==
        ErrorCode::kMalformed);
  CHECK(make_dataset(Tensor(DType::kU8, {1, 0}), integers({1})).error().code == ErrorCode::kMalformed);
  const std::int64_t big = (std::int64_t{1} << 53) + 1;
  CHECK(make_dataset(Tensor(DType::kU8, {2, 1}), integers({0, big})).error().message ==
        "y: sample 1, element 0 is 9007199254740993, beyond 2^53");
}

TEST_CASE("scales that lose everything are refused") {
  for (const auto& [scale, shift] : {std::pair{0.0F, 0.0F}, {kNan, 0.0F}, {kInfinity, 0.0F}, {1.0F, kNan}}) {
    const auto bad = make_dataset(Tensor(DType::kU8, {1, 1}), integers({1}), scale, shift);
    REQUIRE(!bad.ok());
    CHECK(bad.error().code == ErrorCode::kUsage);
  }
}

TEST_CASE("the names of the classes and the channels' scales are part of the digest and come back") {
  const Folder folder;
  const auto plain = make_dataset(floats({2, 2}, {1, 2, 3, 4}), integers({0, 1}));
  auto data = make_dataset(floats({2, 2}, {1, 2, 3, 4}), integers({0, 1}), 1, 0, {"cat", "d\u00f6g", "\"\\"});
  REQUIRE((plain.ok() && data.ok()));
  data->channels = {{0.5F, -1}, {2, 0x1p-149F}};
  const Digest digest = *write_dataset(folder / "d.h5", *data, Clobber::kRefuse);
  const auto read = read_dataset(folder / "d.h5");
  REQUIRE(read.ok());
  CHECK(read->classes == data->classes);
  CHECK(read->channels == data->channels);
  CHECK(*dataset_digest(*read) == digest);
  CHECK(read_dataset_info(folder / "d.h5")->classes == data->classes);
  auto other = *data;
  other.classes[0] = "cats";
  CHECK(*dataset_digest(other) != digest);
  other = *data;
  other.channels[1].shift = 0;
  CHECK(*dataset_digest(other) != digest);
  other.channels.clear();
  other.classes.clear();
  CHECK(*dataset_digest(other) == *dataset_digest(*plain));
}

TEST_CASE("a staged bundle has its name only when it is committed, and leaves nothing without that") {
  const Folder folder;
  const auto data = make_dataset(floats({1, 1}, {1}), integers({0}));
  REQUIRE(data.ok());
  {
    auto kept = stage_dataset(AtomicFile::create(folder / "kept.h5", Clobber::kRefuse).value(), *data);
    const auto dropped =
        stage_dataset(AtomicFile::create(folder / "dropped.h5", Clobber::kRefuse).value(), *data);
    REQUIRE((kept.ok() && dropped.ok()));
    CHECK(!exists(folder / "kept.h5"));
    REQUIRE(kept->commit().ok());
  }
  CHECK(*dataset_digest(*read_dataset(folder / "kept.h5")) == *dataset_digest(*data));
  CHECK(folder.list() == "kept.h5");
}

TEST_CASE("names that are not those of y's classes are refused") {
  const auto named = [](std::vector<std::string> classes) {
    return make_dataset(floats({2, 1}, {1, 2}), integers({0, 1}), 1, 0, std::move(classes));
  };
  CHECK(named({"a", "b"}).ok());
  for (const std::vector<std::string>& bad : {std::vector<std::string>{"a"},
                                              {"a", "a"},
                                              {"a", ""},
                                              {"a", "b\n"},
                                              {"a", "\xff"},
                                              {"a", std::string(513, 'b')}})
    CHECK(named(bad).error().code == ErrorCode::kMalformed);
  CHECK(!make_dataset(floats({1, 1}, {1}), floats({1}, {0}), 1, 0, {"a"}).ok());
  CHECK(!make_dataset(floats({1, 1}, {1}), integers({-1}), 1, 0, {"a"}).ok());
}

TEST_CASE("a dataset whose ranges are wrong is refused although its digest fits") {
  const Folder folder;
  Dataset data = small();
  data.fields["y"].range->high += 1;
  REQUIRE(write_dataset(folder / "d.h5", data, Clobber::kRefuse).ok());
  const auto read = read_dataset(folder / "d.h5");
  REQUIRE(!read.ok());
  CHECK(read.error().message.find("y: the numbers do not have the range") != std::string::npos);
}

TEST_CASE("the same dataset gives the same bytes") {
  const Folder folder;
  REQUIRE(write_dataset(folder / "a.h5", small(), Clobber::kRefuse, {1}).ok());
  REQUIRE(write_dataset(folder / "b.h5", small(), Clobber::kRefuse, {3}).ok());
  CHECK(test::slurp(folder / "a.h5") == test::slurp(folder / "b.h5"));
}

}  // namespace
}  // namespace dgx::bundle
