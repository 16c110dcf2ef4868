// Malicious containers: they are refused before HDF5 sees them, or HDF5 sees them where it can do no harm.
#include <fcntl.h>
#include <hdf5.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <map>

#include "confine.h"
#include "containers.h"
#include "dgx/bundle/sources.h"
#include "dgx/bundle/state.h"
#include "filters.h"
#include "input_file.h"
#include "skip.h"
#include "structure.h"
#include "support.h"
#include "table.h"

namespace dgx::bundle {
namespace {

using dgx::test::Format;
using dgx::test::Trick;
using test::Folder;

/// Runs `body` in a process of its own; returns its exit code, or 1000 plus its signal.
template <class Body>
int in_child(Body body) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::alarm(60);
    ::_exit(body());
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

TEST_CASE("a bundle with a part of HDF5 that no writer of ours uses is refused, whatever its checksums say") {
  const Folder folder;
  const std::map<Trick, std::string> reasons{
      {Trick::kVirtual, "neither contiguous nor chunked"},
      {Trick::kVirtualRank33, "neither contiguous nor chunked"},
      {Trick::kCompact, "neither contiguous nor chunked"},
      {Trick::kCompactShort, "neither contiguous nor chunked"},
      {Trick::kExternal, "numbers in other files"},
      {Trick::kFletcher32, "has 1 filters"},
      {Trick::kFletcher32Short, "has 1 filters"},
      {Trick::kFilteredGroup, "has a message 11 in its header"},
  };
  for (const Trick trick : dgx::test::all_tricks()) {
    CAPTURE(dgx::test::name_of(trick));
    dgx::test::write_container(folder / "a.h5", trick, Format::kBundle);
    REQUIRE(kind_of(folder / "a.h5").ok());
    const auto read = read_state(folder / "a.h5");
    if (trick == Trick::kDenseGroup) {  // valid, but no state consists of groups only
      CHECK(read.error().message.find("the state has digest 000000000000") != std::string::npos);
      continue;
    }
    REQUIRE(!read.ok());
    CHECK(read.error().code == ErrorCode::kMalformed);
    CHECK_THAT(read.error().message, Catch::Contains(reasons.at(trick)));
  }
}

TEST_CASE("a container of somebody else's crashes no program, and is read where it is good") {
  const Folder folder;
  for (const Format format : {Format::kOldest, Format::kBundle}) {
    for (const Trick trick : dgx::test::all_tricks()) {
      CAPTURE(dgx::test::name_of(trick), format == Format::kOldest);
      dgx::test::write_container(folder / "a.h5", trick, format);
      const auto read = read_hdf5(folder / "a.h5", format == Format::kOldest ? "x" : "state/x");
      if (trick == Trick::kCompact || trick == Trick::kFletcher32 ||
          (trick == Trick::kCompactShort && format == Format::kBundle)) {
        REQUIRE(read.ok());
        CHECK(read->shape() == Shape{64});
        for (std::size_t i = 0; i < 64; ++i) CHECK(read->as<float>()[i] == static_cast<float>(i) + 0.5F);
        continue;
      }
      REQUIRE(!read.ok());
      CHECK(read.error().code == ErrorCode::kMalformed);
      UNSCOPED_INFO(read.error().message);
      if (trick == Trick::kFletcher32Short)
        CHECK_THAT(read.error().message, Catch::Contains("chunk 2: has 2 bytes, too few"));
    }
  }
}

/// Lists the links of "x" like a program that does not forbid plugins.
int list_carelessly(const std::string& path, const std::string& group, const char* plugins) {
  H5PLset_loading_state(H5PL_FILTER_PLUGIN);
  H5PLprepend(plugins);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t opened = H5Gopen2(file, group.c_str(), H5P_DEFAULT);
  const auto take = [](hid_t, const char*, const H5L_info_t*, void*) -> herr_t { return 0; };
  H5Literate(opened, H5_INDEX_NAME, H5_ITER_INC, nullptr, take, nullptr);
  return 0;
}

TEST_CASE("no plugin is loaded for the names of a group") {
  const Folder folder;
  const char* const plugins = std::getenv("DGX_TEST_PLUGINS");
  REQUIRE(plugins != nullptr);
  ::setenv("HDF5_PLUGIN_PATH", plugins, 1);
  ::setenv("DGX_TEST_MARK", (folder / "mark").c_str(), 1);
  dgx::test::write_container(folder / "a.h5", Trick::kFilteredGroup, Format::kBundle);
  CHECK(!read_state(folder / "a.h5").ok());
  CHECK(!read_hdf5(folder / "a.h5", "state/x/entry number 1").ok());
  CHECK(folder.list() == "a.h5");
  // The trick works on a program that does not forbid plugins.
  in_child([&] { return list_carelessly(folder / "a.h5", "state/x", plugins); });
  CHECK(folder.list() == "a.h5 mark");
  ::unsetenv("HDF5_PLUGIN_PATH");
}

TEST_CASE("what opens foreign containers has limits") {
  const int walls = in_child([] {
    const Confinement stands = confine_this_process();
    return stands.limits ? 1 : 0;
  });
  CHECK(walls == 1);
}

/// A ctest entry of its own, unit/bundle_seccomp.
TEST_CASE(
    "what opens foreign containers may call nothing that opens files, sockets, processes or memory to run",
    "[.seccomp]") {
  const int walls = in_child([] { return confine_this_process().syscalls ? 1 : 0; });
  if (walls == 0) dgx::test::skip("this build or system has no seccomp: its programs rely on limits");
  const int got = in_child([] {
    static_cast<void>(confine_this_process());
    if (::open("/etc/passwd", O_RDONLY) >= 0) return 1;
    if (::socket(AF_INET, SOCK_STREAM, 0) >= 0) return 2;
    if (::fork() >= 0) return 3;
    if (::mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
      return 4;
    if (::kill(::getppid(), 0) == 0) return 5;
    if (::mmap(nullptr, std::size_t{3} << 30, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
      return 6;
    if (::mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED) return 7;
    return 0;
  });
  CHECK(got == 0);
}

/// Installs a program in place of dgx-h5.
void stand_in(const Folder& folder, const std::string& script) {
  test::spill(folder / "dgx-h5", "#!/bin/sh\n" + script + "\n");
  REQUIRE(::chmod((folder / "dgx-h5").c_str(), 0755) == 0);
}

TEST_CASE("how dgx-h5 ends says whose fault it is") {
  const Folder folder;
  dgx::test::write_container(folder / "a.h5", Trick::kCompact, Format::kOldest);
  const char* const real = std::getenv("DGX_H5");
  REQUIRE(real != nullptr);
  const std::string path = real;
  ::setenv("DGX_H5", (folder / "dgx-h5").c_str(), 1);
  const auto code = [&] { return read_hdf5(folder / "a.h5", "x").error().code; };
  CHECK(code() == ErrorCode::kInternal);
  for (const char* signal : {"SEGV", "ABRT", "BUS", "FPE", "ILL", "XCPU"}) {
    CAPTURE(signal);
    stand_in(folder, std::string("ulimit -c 0; kill -") + signal + " $$");
    CHECK(code() == ErrorCode::kMalformed);
  }
  for (const char* signal : {"KILL", "TERM", "INT"}) {
    CAPTURE(signal);
    stand_in(folder, std::string("kill -") + signal + " $$");
    CHECK(code() == ErrorCode::kInterrupted);
  }
  for (const char* script : {"exit 3", "true", "echo nonsense", "cat /dev/zero"}) {
    CAPTURE(script);
    stand_in(folder, script);
    CHECK(code() == ErrorCode::kInternal);
  }
  ::setenv("DGX_H5", path.c_str(), 1);
  CHECK(read_hdf5(folder / "a.h5", "x").ok());
}

Table good_table() {
  Table table;
  table.type = {NumberType::Kind::kFloat, 4, NumberType::Order::kLittle};
  table.shape = {5, 6};
  table.layout = Table::Layout::kChunked;
  table.chunk = {2, 6};
  table.filters = {2, 1};
  for (std::uint64_t i = 0; i < 3; ++i) table.chunks.push_back({{1000 * i, 48}, 0});
  return table;
}

TEST_CASE("a table is taken as it was sent, and one that contradicts itself is not") {
  const Bytes sent = encode_message(good_table());
  const auto taken = decode_message(sent);
  REQUIRE(taken.ok());
  CHECK(encode_message(*taken) == sent);
  const auto refused = [](auto change) {
    Table table = good_table();
    change(table);
    return !decode_message(encode_message(table)).ok();
  };
  CHECK(refused([](Table& t) { t.chunks.pop_back(); }));
  CHECK(refused([](Table& t) { t.chunk = {2}; }));
  CHECK(refused([](Table& t) { t.chunk = {0, 6}; }));
  CHECK(refused([](Table& t) { t.chunk = {2, std::uint64_t{1} << 40}; }));
  CHECK(refused([](Table& t) { t.shape = {-5, 6}; }));
  CHECK(refused([](Table& t) { t.shape = {std::int64_t{1} << 52, 6}; }));
  CHECK(refused([](Table& t) { t.shape.assign(9, 1); }));
  CHECK(refused([](Table& t) { t.type.bytes = 3; }));
  CHECK(refused([](Table& t) { t.filters.assign(9, 2); }));
  CHECK(refused([](Table& t) { t.layout = Table::Layout::kContiguous; }));
  for (std::size_t size = 0; size < sent.size(); ++size)
    CHECK(!decode_message(ByteView(sent).first(size)).ok());
  const auto error = decode_message(encode_message(Result<Table>(malformed("is \x1b[31mred", "no"))));
  CHECK(error.error().code == ErrorCode::kMalformed);
  CHECK(error.error().message == "is ?[31mred");
}

TEST_CASE("filters of others are undone, within the chunk's size") {
  Bytes bytes{1, 2, 3, 4, 5, 6, 7, 8, 9};
  REQUIRE(undo_filters({2}, 0, 4, 9, bytes).ok());
  CHECK(bytes == Bytes{1, 3, 5, 7, 2, 4, 6, 8, 9});
  REQUIRE(undo_filters({2}, 1, 4, 9, bytes).ok());
  CHECK(bytes == Bytes{1, 3, 5, 7, 2, 4, 6, 8, 9});
  CHECK(!undo_filters({}, 0, 4, 8, bytes).ok());
  CHECK(!undo_filters({5}, 0, 4, 9, bytes).ok());
  // Fletcher-32 of "abcde": 0xf04fc729 with little-endian words.
  CHECK(fletcher32(Bytes{'a', 'b', 'c', 'd', 'e'}) == 0x4ff029c7U);
}

TEST_CASE("a pipe or a folder is no bundle, and nobody waits for its writer") {
  const Folder folder;
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  for (const std::string& path : {folder / "pipe", folder.path(), std::string("/dev/zero")}) {
    CAPTURE(path);
    CHECK(kind_of(path).error().code == ErrorCode::kMalformed);
    CHECK(read_hdf5(path, "x").error().code == ErrorCode::kMalformed);
  }
}

TEST_CASE("two chunks, blocks or names in one place are refused") {
  const Folder folder;
  const State state = test::sample_state(3);
  REQUIRE(write_state(folder / "a.h5", state, *digests_of(state), Clobber::kRefuse).ok());
  const std::string whole = test::slurp(folder / "a.h5");
  const auto file = InputFile::open(folder / "a.h5");
  REQUIRE(file.ok());
  const auto root = read_structure(*file);
  REQUIRE(root.ok());
  const auto& pieces = find_object(*root, "state/model/0.weight")->dataset->pieces;
  REQUIRE(pieces.size() == 2);
  // Replaces the fixed array's entry for chunk 1 by that of chunk 0.
  std::string second(reinterpret_cast<const char*>(&pieces[1].begin), 8);
  std::string first(reinterpret_cast<const char*>(&pieces[0].begin), 8);
  std::string forged = whole;
  forged.replace(forged.find(second, forged.find("FADB")), 8, first);
  test::spill(folder / "b.h5", forged);
  const auto damaged = InputFile::open(folder / "b.h5");
  CHECK_THAT(read_structure(*damaged).error().message, Catch::Contains("wrong checksum"));
  CHECK_THAT(read_structure(*damaged, Checksums::kIgnore).error().message, Catch::Contains("twice"));
}

}  // namespace
}  // namespace dgx::bundle
