#include "dgx/bundle/opened.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <optional>
#include <set>
#include <thread>

#include "container.h"
#include "faulty_file_system.h"
#include "opened_support.h"
#include "support.h"

namespace dgx::bundle {
namespace {

using test::flip;
using test::Folder;
using test::place_of;
using test::row_of;
using test::samples;
using test::true_row;
using test::write;

/// Sets a variable of the environment while it exists.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* const before = std::getenv(name)) before_ = before;
    ::setenv(name, value.c_str(), 1);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() { before_ ? ::setenv(name_, before_->c_str(), 1) : ::unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

bool gives(const OpenedDataset& opened, const Dataset& data, const std::string& field, std::int64_t row) {
  const auto got = row_of(opened, data, field, row);
  return got.ok() && std::ranges::equal(*got, true_row(data, field, row));
}

/// True if every row of every field is the dataset's.
bool gives_all(const OpenedDataset& opened, const Dataset& data) {
  for (const auto& [name, field] : data.fields) {
    for (std::int64_t row = 0; row < data.samples(); ++row)
      if (!gives(opened, data, name, row)) return false;
  }
  return true;
}

/// True if the rows at every leaf's edges, and one in between, are the dataset's. Where nothing is kept, each
/// row costs a hash of 16 KiB, and of those that lie alike in a leaf one is as good as another.
bool gives_edges(const OpenedDataset& opened, const Dataset& data) {
  for (const auto& [name, field] : data.fields) {
    const auto row_bytes = static_cast<std::int64_t>(true_row(data, name, 0).size());
    const std::int64_t rows = data.samples();
    std::set<std::int64_t> chosen;
    for (std::int64_t leaf = 0; leaf * 1024 < rows * row_bytes; ++leaf) {
      const std::int64_t first = leaf * 1024 / row_bytes;
      const std::int64_t last = std::min(((leaf + 1) * 1024 - 1) / row_bytes, rows - 1);
      chosen.insert({first, std::min(first + 1, last), (first + last) / 2, last});
    }
    for (const std::int64_t row : chosen)
      if (!gives(opened, data, name, row)) return false;
  }
  return true;
}

/// Checks that a row was refused, by a message that has `place`, such as "x: row 17:".
void check_refused(const Result<Bytes>& row, const std::string& place) {
  REQUIRE_FALSE(row.ok());
  CHECK(row.error().code == ErrorCode::kBadData);
  CHECK(exit_code(row.error().code) == 65);
  CHECK_THAT(row.error().message, Catch::Contains(place));
}

}  // namespace

TEST_CASE("an opened dataset has the rows, the digests and the recipe of the dataset that is read") {
  const Folder folder;
  const Variable cache("DGX_CACHE", folder / "cache");
  // Rows of a byte, of less than a leaf, across groups, of several groups; a last group of one byte, of whole
  // leaves.
  const std::vector<std::pair<std::int64_t, Shape>> shapes{
      {1, {}}, {16385, {}}, {300, {784}}, {21, {3, 1041}}, {5, {40, 1000}}, {32, {16384}}, {3, {1}}};
  for (const auto& [count, sample] : shapes) {
    for (const DType dtype : {DType::kU8, DType::kF32}) {
      const Dataset data = samples(count, sample, dtype);
      for (const Storage storage : {Storage::kPlain, Storage::kCompressed}) {
        write(folder / "d.h5", data, storage);
        for (const OpenEffort& effort :
             {OpenEffort{}, OpenEffort{.keep_below = 0}, OpenEffort{.cache_from = 0},
              OpenEffort{.keep_below = 0, .cache_from = 0}, OpenEffort{.bulk_bytes = 70000}}) {
          const auto opened = OpenedDataset::open(folder / "d.h5", effort);
          CAPTURE(count, sample.size(), effort.keep_below, effort.cache_from);
          REQUIRE(opened.ok());
          CHECK(opened->info().digest == *dataset_digest(data));
          CHECK(opened->recipe() == dataset_recipe(data));
          CHECK(opened->tensors()[0].digest == merkle::tensor_digest(data.x().numbers.view()));
          const bool keeps = effort.keep_below > 0 && effort.bulk_bytes == kBulkBytes;
          const auto& complete = keeps ? gives_all : gives_edges;
          CHECK(complete(*opened, data));
          CHECK(complete(*opened, data));  // what is kept
          CHECK(opened->warnings().empty());
          CHECK(opened->wrong_in_cache().empty());
        }
      }
    }
  }
}

TEST_CASE("a leaf of an opened dataset opens the field's digest") {
  const Folder folder;
  const Dataset data = samples(41, {1000});
  write(folder / "d.h5", data, Storage::kPlain);
  const auto opened = OpenedDataset::open(folder / "d.h5");
  REQUIRE(opened.ok());
  const TensorView view = data.x().numbers.view();
  for (std::uint64_t leaf = 0; leaf < merkle::tensor_leaf_count(view.bytes.size()); ++leaf) {
    const auto own = opened->open_leaf("x", leaf);
    REQUIRE(own.ok());
    CHECK(*own == *merkle::open_tensor(view, leaf));
  }
  CHECK(opened->open_leaf("x", 41).error().code == ErrorCode::kUsage);
  CHECK(opened->open_leaf("z", 0).error().code == ErrorCode::kUsage);
}

TEST_CASE("a flipped bit of compressed numbers is refused by name where a row needs it, and nowhere else") {
  const Folder folder;
  const Dataset data = samples(3000, {1000}, DType::kF32);  // 12 chunks
  const std::string path = folder / "d.h5";
  for (const std::uint64_t cache_from : {std::uint64_t{1} << 40, std::uint64_t{0}}) {
    const Variable cache("DGX_CACHE", folder / "cache");
    write(path, data, Storage::kCompressed);
    const Extent chunk = place_of(path, "x", 2);
    flip(path, chunk.begin * 8);  // of the frame's magic number: none of it can be unpacked
    const auto opened = OpenedDataset::open(path, {.threads = 2, .cache_from = cache_from});
    REQUIRE(opened.ok());
    check_refused(row_of(*opened, data, "x", 520), "d.h5: x: row 520: ");
    for (const std::int64_t row : {0, 240, 800, 2999})
      CHECK(std::ranges::equal(*row_of(*opened, data, "x", row), true_row(data, "x", row)));
    CHECK(opened->wrong_in_cache().empty());
    // Nobody else finds what is damaged.
    const std::string kept = folder / ("cache/" + opened->tensors()[0].digest.hex());
    CHECK_FALSE(exists(kept));
  }
}

TEST_CASE("a dataset that changes or is cut off while it is read gives no wrong row and no signal") {
  const Folder folder;
  const Dataset data = samples(100, {1000});
  const std::string path = folder / "d.h5";
  write(path, data, Storage::kPlain);
  const Extent x = place_of(path, "x");
  const auto opened = OpenedDataset::open(path);
  const auto forgetful = OpenedDataset::open(path, {.keep_below = 0});
  REQUIRE((opened.ok() && forgetful.ok()));
  REQUIRE(row_of(*opened, data, "x", 3).ok());
  flip(path, (x.begin + 3100) * 8);
  // Once believed, its bytes are its own.
  CHECK(std::ranges::equal(*row_of(*opened, data, "x", 3), true_row(data, "x", 3)));
  check_refused(row_of(*forgetful, data, "x", 3), "x: row 3: bytes 0 to 16383 of the field");
  REQUIRE(::truncate(path.c_str(), static_cast<off_t>(x.begin + 50'000)) == 0);
  check_refused(row_of(*opened, data, "x", 60), "x: row 60: was cut off");
  CHECK(row_of(*opened, data, "x", 20).ok());
}

TEST_CASE("hostile nodes are refused before a row is read") {
  const Folder folder;
  const Dataset data = samples(100, {1000});
  const std::string path = folder / "d.h5";
  write(path, data, Storage::kPlain);
  const Extent nodes = place_of(path, "x.nodes");
  CHECK(nodes.size == 7 * 32);
  test::Random random(5);
  for (int n = 0; n < 200; ++n) {
    const std::uint64_t bit = nodes.begin * 8 + random.below(nodes.size * 8);
    flip(path, bit);
    const auto opened = OpenedDataset::open(path);
    REQUIRE_FALSE(opened.ok());
    CHECK(opened.error().code == ErrorCode::kMalformed);
    CHECK_THAT(opened.error().message, Catch::Contains("its nodes give"));
    const auto read = read_dataset(path);
    REQUIRE_FALSE(read.ok());
    CHECK_THAT(read.error().message, Catch::Contains("x.nodes: row"));
    flip(path, bit);
  }
}

TEST_CASE("numbers that no dataset may have are refused in the rows read, under a digest that has them") {
  const Folder folder;
  Dataset data = samples(50, {4}, DType::kF32);
  SECTION("a float") {
    data.fields["x"].numbers.as<float>()[4 * 7 + 2] = std::numeric_limits<float>::quiet_NaN();
  }
  SECTION("an integer") { data.fields["y"].numbers.as<std::int64_t>()[7] = data.find("y")->range->high + 1; }
  write(folder / "d.h5", data, Storage::kPlain);
  CHECK_FALSE(read_dataset(folder / "d.h5").ok());
  const auto opened = OpenedDataset::open(folder / "d.h5");
  REQUIRE(opened.ok());
  CHECK((row_of(*opened, data, "x", 6).ok() && row_of(*opened, data, "y", 6).ok()));
  const auto x = row_of(*opened, data, "x", 7);
  const auto y = row_of(*opened, data, "y", 7);
  CHECK(x.ok() != y.ok());
  check_refused(x.ok() ? y : x, x.ok() ? "y: row 7: element 0 is " : "x: row 7: element 2 is NaN");
}

TEST_CASE("a poisoned cache is noticed, told and mended") {
  const Folder folder;
  const Variable cache("DGX_CACHE", folder / "cache");
  const Dataset data = samples(300, {1000});
  write(folder / "d.h5", data, Storage::kCompressed);
  const OpenEffort effort{.cache_from = 200'000};  // x, but not y
  const std::string kept =
      folder / ("cache/" + OpenedDataset::open(folder / "d.h5", effort)->tensors()[0].digest.hex());
  REQUIRE(test::slurp(kept).size() == 300'000);
  for (const std::string& poison : {std::string(300'000, 'x'), std::string(299'999, '\0'), std::string()}) {
    test::spill(kept, poison);
    const auto opened = OpenedDataset::open(folder / "d.h5", effort);
    REQUIRE(opened.ok());
    CHECK(gives_all(*opened, data));
    const bool is_wrong = poison.size() == 300'000;
    CHECK(opened->wrong_in_cache().size() == (is_wrong ? 1 : 0));
    CHECK(exists(kept) != is_wrong);  // one of another size was replaced at once
    const auto again = OpenedDataset::open(folder / "d.h5", effort);
    REQUIRE(again.ok());
    CHECK(gives_all(*again, data));
    CHECK(again->wrong_in_cache().empty());
  }
  REQUIRE(::truncate(kept.c_str(), 0) == 0);  // by another process, while this one reads
  const auto opened = OpenedDataset::open(folder / "d.h5", effort);
  REQUIRE(::truncate(kept.c_str(), 1000) == 0);
  CHECK(gives_all(*opened, data));
}

TEST_CASE("processes that unpack the same field at the same time unpack it once") {
  const Folder folder;
  const Variable cache("DGX_CACHE", folder / "cache");
  const Dataset data = samples(4000, {1000});
  write(folder / "d.h5", data, Storage::kCompressed);
  std::vector<pid_t> children;
  for (int n = 0; n < 4; ++n) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      const auto opened = OpenedDataset::open(folder / "d.h5", {.threads = 1, .cache_from = 0});
      ::_exit(opened.ok() && opened->warnings().empty() && gives_all(*opened, data) ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
  struct stat first {};
  const auto opened = OpenedDataset::open(folder / "d.h5", {.cache_from = 0});
  const std::string kept = folder / ("cache/" + opened->tensors()[0].digest.hex());
  REQUIRE(::stat(kept.c_str(), &first) == 0);
  CHECK((first.st_mode & 0777U) == 0600);
  CHECK_FALSE(exists(kept + ".part"));
  // The leftovers of a killed process are replaced.
  test::spill(kept + ".part", "half");
  REQUIRE(::unlink(kept.c_str()) == 0);
  CHECK(gives_all(*OpenedDataset::open(folder / "d.h5", {.cache_from = 0}), data));
  CHECK(exists(kept));
  CHECK_FALSE(exists(kept + ".part"));
}

TEST_CASE("without a cache, or room in it, a field is unpacked for the process alone, with a warning") {
  const Folder folder;
  const Dataset data = samples(3000, {1000});
  write(folder / "d.h5", data, Storage::kCompressed);
  const OpenEffort effort{.cache_from = 1'000'000};
  const auto warned = [&](const std::string& cache, const std::string& warning) {
    const Variable variable("DGX_CACHE", cache);
    const auto opened = OpenedDataset::open(folder / "d.h5", effort);
    REQUIRE(opened.ok());
    CHECK(gives_all(*opened, data));
    REQUIRE(opened->warnings().size() == (warning.empty() ? 0 : 1));
    if (!warning.empty()) CHECK_THAT(opened->warnings()[0], Catch::Contains(warning));
  };
  SECTION("none is wanted") { warned("", ""); }
  SECTION("its parent is not there") { warned(folder / "no/cache", "cannot make the cache"); }
  SECTION("it is a file") {
    test::spill(folder / "file", "");
    warned(folder / "file", "not used as a cache");
  }
  SECTION("the default folder may be written by others") {
    const Variable scratch("TMPDIR", folder.path());
    const Variable cache("DGX_CACHE", "");
    ::unsetenv("DGX_CACHE");
    const std::string place = folder / fmt::format("dgx-cache-{}", ::geteuid());
    REQUIRE(::mkdir(place.c_str(), 0777) == 0);
    REQUIRE(::chmod(place.c_str(), 0777) == 0);
    const auto opened = OpenedDataset::open(folder / "d.h5", effort);
    REQUIRE(opened.ok());
    CHECK(gives_all(*opened, data));
    REQUIRE(opened->warnings().size() == 1);
    CHECK_THAT(opened->warnings()[0], Catch::Contains("not used as a cache"));
    CHECK(std::filesystem::is_empty(place));
    warned(place, "does not have it, and there is no other cache");  // as a store
  }
  SECTION("the disk is full at any call") {
    for (std::int64_t at = 0;; ++at) {
      std::filesystem::remove_all(folder / "cache");
      dgx::test::FaultyFileSystem faulty(folder.path(), dgx::test::FaultyFileSystem::Fault::kNoSpace, at);
      const Variable variable("DGX_CACHE", folder / "cache");
      const auto opened = OpenedDataset::open(folder / "d.h5", effort);
      REQUIRE(opened.ok());
      CHECK(gives_all(*opened, data));
      if (!faulty.reached()) break;
      // A file that could not be renamed is as good for this process alone, and no reason to warn.
      if (exists(folder / ("cache/" + opened->tensors()[0].digest.hex()))) CHECK(opened->warnings().empty());
    }
  }
}

TEST_CASE("a store that is not the user's to write is read, and nothing in it changes") {
  const Folder folder;
  const Variable scratch("TMPDIR", folder.path());
  const std::string own = folder / fmt::format("dgx-cache-{}", ::geteuid());
  const std::string store = folder / "store";
  const Dataset data = samples(3000, {1000});
  write(folder / "d.h5", data, Storage::kCompressed);
  REQUIRE(::mkdir(store.c_str(), 0755) == 0);
  const OpenEffort effort{.cache_from = 1'000'000, .cache = store};
  const auto first = OpenedDataset::open(folder / "d.h5", effort);  // its owner's call
  const std::string kept = store + "/" + first->tensors()[0].digest.hex();
  struct stat info {};
  REQUIRE(::stat(kept.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777U) == 0644);  // the folder's readers may read it
  std::string named = store;
  SECTION("others may write it") { REQUIRE(::chmod(store.c_str(), 0777) == 0); }
  SECTION("a link leads there") {
    named = folder / "link";
    REQUIRE(::symlink(store.c_str(), named.c_str()) == 0);
  }
  const auto list = [&] {
    std::set<std::string> out;
    for (const auto& entry : std::filesystem::directory_iterator(store)) out.insert(entry.path().filename());
    return out;
  };
  const auto before = list();
  const auto opens = [&](std::size_t wrong) {
    const auto opened = OpenedDataset::open(folder / "d.h5", {.cache_from = 1'000'000, .cache = named});
    REQUIRE(opened.ok());
    CHECK(gives_all(*opened, data));
    CHECK(opened->warnings().empty());
    REQUIRE(opened->wrong_in_cache().size() == wrong);
    if (wrong == 1)
      CHECK_THAT(opened->wrong_in_cache()[0], Catch::Contains("its owner should remove the file"));
    CHECK(list() == before);
  };
  opens(0);
  CHECK(std::filesystem::is_empty(own));  // nothing was lacking
  test::spill(kept, std::string(3'000'000, 'x'));
  opens(1);
  CHECK(exists(kept));
  test::spill(kept, "short");
  opens(0);
  CHECK(test::slurp(kept) == "short");
  CHECK(test::slurp(own + "/" + first->tensors()[0].digest.hex()).size() == 3'000'000);
}

TEST_CASE("a store that vanishes while it is read takes no row away") {
  const Folder folder;
  const Variable scratch("TMPDIR", folder.path());
  const std::string store = folder / "store";
  const Dataset data = samples(3000, {1000});
  write(folder / "d.h5", data, Storage::kCompressed);
  REQUIRE(::mkdir(store.c_str(), 0755) == 0);
  const OpenEffort effort{.keep_below = 0, .cache_from = 1'000'000, .cache = store};
  REQUIRE(OpenedDataset::open(folder / "d.h5", effort).ok());
  REQUIRE(::chmod(store.c_str(), 0777) == 0);
  const auto opened = OpenedDataset::open(folder / "d.h5", effort);
  const std::string kept = store + "/" + opened->tensors()[0].digest.hex();
  REQUIRE(gives(*opened, data, "x", 17));
  SECTION("its file is gone") { REQUIRE(::unlink(kept.c_str()) == 0); }
  SECTION("its file is cut off") { REQUIRE(::truncate(kept.c_str(), 16384) == 0); }
  CHECK(gives_edges(*opened, data));
  std::filesystem::remove_all(store);
  const auto again = OpenedDataset::open(folder / "d.h5", effort);  // the store's name is made as a cache
  REQUIRE(again.ok());
  CHECK(gives_edges(*again, data));
}

TEST_CASE("what was not used for longest leaves the cache first") {
  const Folder folder;
  const Variable cache("DGX_CACHE", folder / "cache");
  const Dataset data = samples(300, {1000});
  write(folder / "d.h5", data, Storage::kCompressed);
  REQUIRE(OpenedDataset::open(folder / "d.h5", {.cache_from = 200'000}).ok());
  // Larger than what the file system has room for.
  const std::string old = folder / ("cache/" + std::string(64, 'a'));
  test::spill(old, "old");
  REQUIRE(::truncate(old.c_str(), off_t{1} << 42) == 0);
  const timespec times[2] = {{1, 0}, {1, 0}};
  REQUIRE(::utimensat(AT_FDCWD, old.c_str(), times, 0) == 0);
  const Dataset other = samples(301, {1000});
  write(folder / "e.h5", other, Storage::kCompressed);
  test::spill(folder / "cache/notes.part", "of somebody else");
  REQUIRE(OpenedDataset::open(folder / "e.h5", {.cache_from = 200'000}).ok());
  CHECK_FALSE(exists(old));
  CHECK(exists(folder / ("cache/" + merkle::tensor_digest(data.x().numbers.view()).hex())));
  CHECK(exists(folder / ("cache/" + merkle::tensor_digest(other.x().numbers.view()).hex())));
  CHECK(exists(folder / "cache/notes.part"));
}

TEST_CASE("rows are read by many threads at once") {
  const Folder folder;
  const Dataset data = samples(500, {1000});
  write(folder / "d.h5", data, Storage::kPlain);
  for (const std::uint64_t keep_below : {std::uint64_t{0}, std::uint64_t{1} << 30}) {
    const auto opened = OpenedDataset::open(folder / "d.h5", {.keep_below = keep_below});
    REQUIRE(opened.ok());
    std::atomic<int> wrong = 0;
    std::vector<std::thread> threads;
    for (int n = 0; n < 4; ++n) {
      threads.emplace_back([&] {
        if (!gives_all(*opened, data)) ++wrong;
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(wrong == 0);
  }
}

}  // namespace dgx::bundle
