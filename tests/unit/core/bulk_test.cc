#include "dgx/core/bulk.h"

#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "dgx/core/files.h"

namespace dgx {
namespace {

BulkTensor counting(std::int64_t count, std::uint64_t least) {
  auto made = BulkTensor::create(DType::kI64, {count}, least);
  REQUIRE(made.ok());
  BulkTensor tensor = std::move(made).value();
  std::iota(tensor.as<std::int64_t>().begin(), tensor.as<std::int64_t>().end(), 0);
  return tensor;
}

/// Kilobytes of a tensor that are resident in this process.
std::uint64_t resident_kilobytes(const BulkTensor& tensor) {
  std::ifstream maps("/proc/self/smaps");
  char begin[32];
  std::snprintf(begin, sizeof begin, "%lx-",
                static_cast<unsigned long>(reinterpret_cast<std::uintptr_t>(tensor.bytes().data())));
  bool here = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.find('-') < line.find(' ') && line.find(':') > line.find(' ')) here = line.starts_with(begin);
    if (here && line.starts_with("Rss:")) return std::strtoull(line.c_str() + 4, nullptr, 10);
  }
  FAIL("no such mapping");
  return 0;
}

TEST_CASE("a tensor lies in a file from the size on that is asked for, in memory below, and begins zeroed") {
  const BulkTensor below = counting(1023, 8192);
  CHECK(below.view().file == -1);
  auto at = BulkTensor::create(DType::kI64, {1024}, 8192);
  REQUIRE(at.ok());
  CHECK(at->view().file >= 0);
  CHECK(std::ranges::all_of(at->bytes(), [](std::uint8_t byte) { return byte == 0; }));
  CHECK(BulkTensor::create(DType::kU8, {0}, 0)->view().file == -1);
}

TEST_CASE("released pages take no memory, and nothing that was written is lost") {
  const BulkTensor tensor = counting(1 << 18, 1);
  CHECK(resident_kilobytes(tensor) >= 2048);
  release(tensor.view(), 12345, 1000000);
  release(tensor.view(), tensor.bytes().size() - 1, 5);  // to the end and past it
  CHECK(resident_kilobytes(tensor) <= 2048 - 976);
  release(tensor.view(), 0, tensor.bytes().size());
  CHECK(resident_kilobytes(tensor) == 0);
  for (std::int64_t i = 0; i < tensor.count(); ++i)
    REQUIRE(tensor.as<std::int64_t>()[static_cast<std::size_t>(i)] == i);
}

TEST_CASE("whoever walks through a file leaves no more than a piece of it in memory") {
  const BulkTensor tensor = counting(1 << 18, 1);
  PageReleaser pages(tensor.view());
  for (std::uint64_t end = 0; end < tensor.bytes().size(); end += 4096) pages.passed(end);
  CHECK(resident_kilobytes(tensor) <= 1024);
  pages.passed(tensor.bytes().size());
  CHECK(resident_kilobytes(tensor) == 0);
}

TEST_CASE("a tensor takes another shape where it is, in memory and in a file") {
  for (const std::uint64_t least : {std::uint64_t{1}, kBulkBytes}) {
    BulkTensor tensor = counting(6, least);
    tensor.reshape({2, 3});
    CHECK(tensor.shape() == Shape{2, 3});
    CHECK(tensor.as<std::int64_t>()[5] == 5);
  }
}

TEST_CASE("bytes are copied alike out of memory and out of a file, where no page stays behind") {
  for (const std::uint64_t least : {std::uint64_t{1}, std::uint64_t{1} << 40}) {
    const BulkTensor tensor = counting(5000, least);
    if (tensor.view().file >= 0) release(tensor.view(), 0, tensor.bytes().size());
    for (const std::size_t size :
         {std::size_t{0}, std::size_t{1}, std::size_t{4097}, tensor.bytes().size() - 77}) {
      Bytes out(size);
      expect(tensor.view(), 77, size);
      REQUIRE(copy_bytes(tensor.view(), 77, out).ok());
      if (tensor.view().file >= 0) CHECK(resident_kilobytes(tensor) == 0);
      CHECK(std::ranges::equal(out, tensor.bytes().subspan(77, size)));
      release(tensor.view(), 0, tensor.bytes().size());
    }
  }
}

TEST_CASE("a moved tensor keeps its file, a copy is in memory") {
  BulkTensor tensor = counting(2000, 1);
  const BulkTensor copy = tensor;
  CHECK(copy.view().file == -1);
  const int file = tensor.view().file;
  BulkTensor moved = std::move(tensor);
  CHECK(moved.view().file == file);
  CHECK(std::ranges::equal(moved.bytes(), copy.bytes()));
  moved = BulkTensor();
  CHECK(::fsync(file) != 0);  // closed
}

TEST_CASE("a file's bytes are seen where they are, or read if they are few or no plain file") {
  const std::string path =
      std::filesystem::temp_directory_path() / ("bulk_test." + std::to_string(::getpid()));
  REQUIRE(write_file(path, "some text", Clobber::kReplace).ok());
  for (const std::uint64_t least : {std::uint64_t{1}, std::uint64_t{10}}) {
    const auto file = BulkTensor::open(path, 100, least);
    REQUIRE(file.ok());
    CHECK((file->view().file >= 0) == (least == 1));
    CHECK(as_text(file->bytes()) == "some text");
    CHECK(file->shape() == Shape{9});
  }
  CHECK(BulkTensor::open(path, 8, 1).error().code == ErrorCode::kMalformed);
  CHECK(BulkTensor::open(path + "x", 8, 1).error().code == ErrorCode::kMissing);
  std::filesystem::remove(path);
}

TEST_CASE("a folder that is not there or has no room is an I/O error that says what to do") {
  const char* const before = std::getenv("TMPDIR");
  const std::string kept = before != nullptr ? before : "";
  ::setenv("TMPDIR", "/nonexistent", 1);
  const auto nowhere = BulkTensor::create(DType::kU8, {10}, 1);
  before != nullptr ? ::setenv("TMPDIR", kept.c_str(), 1) : ::unsetenv("TMPDIR");
  REQUIRE_FALSE(nowhere.ok());
  CHECK(nowhere.error().code == ErrorCode::kIo);
  CHECK(nowhere.error().message == "/nonexistent: cannot create a file: no such file or directory");
  const auto too_much = BulkTensor::create(DType::kU8, {std::int64_t{1} << 52}, 1);
  REQUIRE_FALSE(too_much.ok());
  CHECK(too_much.error().code == ErrorCode::kIo);
  CHECK(too_much.error().hint == "TMPDIR names a folder with more room");
}

TEST_CASE("pieces cover everything once, and an error ends them") {
  std::uint64_t covered = 0;
  REQUIRE(for_each_piece((1 << 21) + 5, [&](std::uint64_t begin, std::uint64_t count) -> Status {
            CHECK(begin == covered);
            covered += count;
            return {};
          }).ok());
  CHECK(covered == (1 << 21) + 5);
  int calls = 0;
  CHECK_FALSE(for_each_piece(1 << 22, [&](std::uint64_t, std::uint64_t) -> Status {
                return ++calls, usage_error("no");
              }).ok());
  CHECK(calls == 1);
}

}  // namespace
}  // namespace dgx
