#include <catch2/catch.hpp>
#include <optional>
#include <string>
#include <vector>

#include "opened_support.h"

namespace dgx::bundle {
namespace {

using test::flip;
using test::Folder;
using test::place_of;
using test::row_of;
using test::samples;
using test::true_row;
using test::write;

/// Rows of a field, with a bit of the file flipped that is in byte `at` of the field's own bytes, or
/// elsewhere: refused by name if the bit is in a group of theirs, else what they were. Counts both.
class FlippedRows {
 public:
  FlippedRows(const Dataset& data, std::string field, std::vector<std::int64_t> batch)
      : data_(data),
        field_(std::move(field)),
        batch_(std::move(batch)),
        row_bytes_(true_row(data, field_, 0).size()) {}

  void check(const OpenedDataset& opened, std::optional<std::uint64_t> at, std::uint64_t bit) {
    for (const std::int64_t row : batch_) {
      const auto got = row_of(opened, data_, field_, row);
      const bool wrong = at && needs(row, *at);
      wrong ? ++inside : ++outside;
      if (wrong && got.ok()) FAIL(field_ << ", bit " << bit << " is not noticed");
      const std::string place = "d.h5: " + field_ + ": row " + std::to_string(row) + ": ";
      if (wrong &&
          (got.error().code != ErrorCode::kBadData || got.error().message.find(place) == std::string::npos))
        FAIL("bit " << bit << ": " << got.error().message);
      if (!wrong && (!got.ok() || !std::ranges::equal(*got, true_row(data_, field_, row))))
        FAIL(field_ << ", bit " << bit << " of another row");
    }
  }

  int inside = 0;
  int outside = 0;

 private:
  [[nodiscard]] bool needs(std::int64_t row, std::uint64_t byte) const {
    const std::uint64_t begin = static_cast<std::uint64_t>(row) * row_bytes_;
    return byte / 16384 >= begin / 16384 && byte / 16384 <= (begin + row_bytes_ - 1) / 16384;
  }

  const Dataset& data_;
  std::string field_;
  std::vector<std::int64_t> batch_;
  std::uint64_t row_bytes_;
};

}  // namespace

// Any bit of the file. A group is believed or refused as a whole, whatever rows it has parts of.
TEST_CASE("ten thousand flipped bits are refused by name inside the rows read, and change nothing outside") {
  const Folder folder;
  const Dataset data = samples(5000, {400});  // x: 123 groups of 41 rows, y: three of 2048
  const std::string path = folder / "d.h5";
  write(path, data, Storage::kPlain);
  const Extent x = place_of(path, "x");
  const Extent y = place_of(path, "y");
  const std::uint64_t file_bits = test::slurp(path).size() * 8;
  const auto within = [](const Extent& place, std::uint64_t byte) {
    const bool is_inside = byte >= place.begin && byte < place.begin + place.size;
    return is_inside ? std::optional(byte - place.begin) : std::nullopt;
  };
  // Groups that are kept, and groups that are read and hashed again for each row.
  for (const std::uint64_t keep_below : {OpenEffort().keep_below, decltype(OpenEffort().keep_below){0}}) {
    // Row 40 straddles two groups, 4999 is in the last, which is short.
    FlippedRows of_x(data, "x", {0, 17, 40, 4999});
    FlippedRows of_y(data, "y", {17, 40});
    test::Random random(20261125);
    for (int n = 0; n < 10'000; ++n) {
      // Every fourth one in y, which is small.
      const std::uint64_t bit = n % 4 == 0 ? y.begin * 8 + random.below(y.size * 8) : random.below(file_bits);
      flip(path, bit);
      const auto opened = OpenedDataset::open(path, {.threads = 1, .keep_below = keep_below});
      const auto in_x = within(x, bit / 8);
      const auto in_y = within(y, bit / 8);
      if ((in_x || in_y) && !opened.ok()) FAIL("bit " << bit << ": " << opened.error().message);
      if (!opened.ok() && opened.error().message.find("d.h5: ") == std::string::npos)
        FAIL("bit " << bit << ": " << opened.error().message);
      if (opened.ok()) of_x.check(*opened, in_x, bit);
      if (opened.ok()) of_y.check(*opened, in_y, bit);
      flip(path, bit);
    }
    CHECK(of_x.inside > 150);
    CHECK(of_x.outside > 30'000);
    CHECK(of_y.inside > 1'000);
    CHECK(of_y.outside > 15'000);
  }
}

// A flipped bit of a frame may unpack to other numbers, to none, or to the same.
TEST_CASE("a flipped bit of compressed numbers gives a row that is true, or none") {
  const Folder folder;
  const Dataset data = samples(3000, {1000}, DType::kF32);  // 12 chunks of 250 rows
  const std::string path = folder / "d.h5";
  write(path, data, Storage::kCompressed);
  test::Random random(7);
  int refused = 0;
  for (int n = 0; n < 200; ++n) {
    const std::size_t piece = random.below(12);
    const Extent chunk = place_of(path, "x", piece);
    const std::uint64_t bit = chunk.begin * 8 + random.below(chunk.size * 8);
    flip(path, bit);
    const auto opened = OpenedDataset::open(path, {.cache_from = std::uint64_t{1} << 40});
    REQUIRE(opened.ok());
    for (std::int64_t row = 5; row < 3000; row += 125) {
      const auto got = row_of(*opened, data, "x", row);
      if (got.ok() && !std::ranges::equal(*got, true_row(data, "x", row)))
        FAIL("bit " << bit << ": a wrong row");
      // A group at a chunk's edge has rows of both.
      const auto own = static_cast<std::int64_t>(piece) * 250;
      const bool is_near = row >= own - 5 && row < own + 255;
      if (!got.ok() && !is_near) FAIL("bit " << bit << " of another chunk: " << got.error().message);
      refused += !got.ok();
    }
    flip(path, bit);
  }
  CHECK(refused > 10);
}

}  // namespace dgx::bundle
