// Files that were cut off, flipped, or could not be written in full.
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "dgx/bundle/dataset.h"
#include "dgx/bundle/run.h"
#include "dgx/bundle/state.h"
#include "support.h"

namespace dgx::bundle {
namespace {

using test::Folder;

State small_state() {
  State state = test::sample_state(3);
  // Chunked, but small enough that flips hit the other parts, too.
  state[2].tensor = test::numbers(DType::kF32, {163, 101}, 9);
  state[3].tensor = test::numbers(DType::kI64, {30}, 9);
  state[5].tensor = test::numbers(DType::kU8, {65}, 9);
  return state;
}

TEST_CASE("a file cut off anywhere is refused") {
  const Folder folder;
  const State state = small_state();
  REQUIRE(write_state(folder / "a.h5", state, *digests_of(state), Clobber::kRefuse).ok());
  const std::string whole = test::slurp(folder / "a.h5");
  test::Random random(1);
  for (int round = 0; round < 60; ++round) {
    const std::size_t size =
        round < 50 ? random.below(whole.size()) : whole.size() - static_cast<std::size_t>(round - 49);
    CAPTURE(size);
    test::spill(folder / "b.h5", std::string_view(whole).substr(0, size));
    const auto read = read_state(folder / "b.h5");
    REQUIRE(!read.ok());
    CHECK(read.error().code == ErrorCode::kMalformed);
  }
  test::spill(folder / "b.h5", whole + "x");
  CHECK(read_state(folder / "b.h5").error().code == ErrorCode::kMalformed);
}

TEST_CASE("a flipped bit is noticed or changes nothing that is hashed") {
  const Folder folder;
  const State state = small_state();
  const StateDigests digests = *digests_of(state);
  REQUIRE(write_state(folder / "a.h5", state, digests, Clobber::kRefuse).ok());
  std::string content = test::slurp(folder / "a.h5");
  test::Random random(2);
  int noticed = 0;
  constexpr int kRounds = 1500;
  for (int round = 0; round < kRounds; ++round) {
    // Metadata is a few per cent of the file: every second flip aims at the beginning, where it is.
    const std::size_t at = random.below(round % 2 == 0 ? content.size() : 6000);
    const char bit = static_cast<char>(1 << random.below(8));
    content[at] = static_cast<char>(content[at] ^ bit);
    test::spill(folder / "b.h5", content);
    const auto read = read_state(folder / "b.h5", Check::kDigests, {1, 1 << 24});
    CAPTURE(at, static_cast<int>(bit));
    if (read.ok()) {
      CHECK(test::same(read->state, state));
      CHECK(read->digests.state == digests.state);
    } else {
      CHECK(read.error().code == ErrorCode::kMalformed);
      ++noticed;
    }
    content[at] = static_cast<char>(content[at] ^ bit);
  }
  CHECK(noticed > kRounds / 2);
}

TEST_CASE("a flipped bit in a dataset or run index is noticed or changes nothing") {
  const Folder folder;
  const auto data =
      make_dataset(test::numbers(DType::kU8, {300, 20}, 1), test::numbers(DType::kI64, {300}, 2));
  REQUIRE(data.ok());
  REQUIRE(write_dataset(folder / "a.h5", *data, Clobber::kRefuse).ok());
  std::string content = test::slurp(folder / "a.h5");
  test::Random random(3);
  for (int round = 0; round < 400; ++round) {
    const std::size_t at = random.below(content.size());
    content[at] = static_cast<char>(content[at] ^ 4);
    test::spill(folder / "b.h5", content);
    const auto read = read_dataset(folder / "b.h5", Check::kDigests, {1, 1 << 24});
    if (read.ok()) {
      CHECK(test::same(read->x().numbers.view(), data->x().numbers.view()));
      CHECK(test::same(read->find("y")->numbers.view(), data->find("y")->numbers.view()));
      CHECK(dataset_recipe(*read) == dataset_recipe(*data));
    }
    content[at] = static_cast<char>(content[at] ^ 4);
  }
}

/// Runs `body` in a process of its own whose files may not grow beyond `limit`; returns its exit code.
template <class Body>
int with_file_limit(rlim_t limit, Body body) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit bound{limit, limit};
    if (::setrlimit(RLIMIT_FSIZE, &bound) != 0) ::_exit(99);
    ::alarm(20);  // HDF5 that cannot write must not hang, either
    ::exit(body());
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

TEST_CASE("a disk that fills up while a state is written gives an I/O error and leaves nothing") {
  const Folder folder;
  const State state = test::sample_state(3);
  const StateDigests digests = *digests_of(state);
  REQUIRE(write_state(folder / "whole.h5", state, digests, Clobber::kRefuse).ok());
  const std::size_t size = test::slurp(folder / "whole.h5").size();
  for (const std::size_t limit : {std::size_t{0}, std::size_t{100}, std::size_t{5000}, size / 2, size - 1}) {
    CAPTURE(limit);
    const int code = with_file_limit(limit, [&] {
      const Status written = write_state(folder / "a.h5", state, digests, Clobber::kRefuse, {2});
      return written.ok() ? 0 : static_cast<int>(written.error().code);
    });
    CHECK(code == 74);
    CHECK(folder.list() == "whole.h5");
  }
}

TEST_CASE("a disk that fills up leaves a run at its last checkpoint") {
  const Folder folder;
  const State first = test::sample_state(0);
  const auto header = RunHeader{};
  { REQUIRE(RunWriter::create(folder / "run", header, {}, first, *digests_of(first)).ok()); }
  const int code = with_file_limit(100000, [&] {
    auto writer = RunWriter::open(folder / "run", header, {});
    if (!writer.ok()) return 1;
    const State second = test::sample_state(10);
    const Status appended = writer->append(second, *digests_of(second), {});
    return appended.ok() ? 0 : static_cast<int>(appended.error().code);
  });
  CHECK(code == 74);
  const auto reader = RunReader::open(folder / "run");
  REQUIRE(reader.ok());
  CHECK(reader->index().segments() == 0);
  CHECK(reader->state(0).ok());
}

}  // namespace
}  // namespace dgx::bundle
