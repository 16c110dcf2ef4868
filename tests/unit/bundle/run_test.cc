#include "dgx/bundle/run.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "dgx/core/files.h"
#include "faulty_file_system.h"
#include "support.h"

namespace dgx::bundle {
namespace {

namespace fs = std::filesystem;
using test::Folder;

constexpr KeepPolicy kAll{};
constexpr KeepPolicy kLast{KeepPolicy::Kind::kLast, 1};

State state_at(std::int64_t step) {
  State state;
  state.push_back({"model/w", test::numbers(DType::kF32, {5, 3}, static_cast<std::uint64_t>(step))});
  state.push_back({"step", Tensor(DType::kI64, {})});
  state[1].tensor.as<std::int64_t>()[0] = step;
  return state;
}

StateDigests digests(const State& state) { return *digests_of(state); }

RunHeader header() {
  RunHeader out;
  out.task.bytes[0] = 1;
  out.program.bytes[0] = 2;
  out.interval = 10;
  return out;
}

RunWriter create(const std::string& folder, KeepPolicy keep) {
  auto writer = RunWriter::create(folder, header(), keep, state_at(0), digests(state_at(0)));
  REQUIRE(writer.ok());
  return std::move(writer).value();
}

void append(RunWriter& writer, std::int64_t step) {
  const std::array<float, 2> losses{static_cast<float>(step), 0.5F};
  REQUIRE(writer.append(state_at(step), digests(state_at(step)), losses).ok());
}

std::string kept(const RunIndex& index) {
  std::string out;
  for (const Checkpoint& checkpoint : index.checkpoints) out += checkpoint.kept ? '1' : '0';
  return out;
}

TEST_CASE("a run tells its checkpoints, digests and losses") {
  const Folder folder;
  RunWriter writer = create(folder / "run", kAll);
  append(writer, 10);
  append(writer, 15);
  const auto reader = RunReader::open(folder / "run");
  REQUIRE(reader.ok());
  CHECK(reader->index().header == header());
  REQUIRE(reader->index().segments() == 2);
  CHECK(reader->index().checkpoints[2].step == 15);
  CHECK(reader->index().checkpoints[1].digest == digests(state_at(10)).state);
  CHECK(reader->index().losses_of(1)[0] == 15);
  CHECK(reader->index().losses_of(0).size() == 2);
  for (std::int64_t i = 0; i < 3; ++i) {
    const auto state = reader->state(i);
    REQUIRE(state.ok());
    CHECK(test::same(state->state, state_at(std::array{0, 10, 15}[static_cast<std::size_t>(i)])));
  }
  CHECK(reader->state(3).error().code == ErrorCode::kUsage);
  CHECK(reader->state(-1).error().code == ErrorCode::kUsage);
  CHECK(*kind_of(folder / "run/index.h5") == Kind::kRun);
}

TEST_CASE("the policy decides which checkpoints stay, the first and last always") {
  const Folder folder;
  for (const auto& [text, expected] : {std::pair{"all", "111111"},
                                       {"last", "100001"},
                                       {"every:2", "101011"},
                                       {"every:1", "111111"},
                                       {"every:9", "100001"}}) {
    CAPTURE(text);
    const auto policy = parse_keep(text);
    REQUIRE(policy.ok());
    const std::string path = folder / text;
    {
      RunWriter writer = create(path, *policy);
      for (int i = 1; i <= 5; ++i) append(writer, 10 * i);
    }
    const auto reader = RunReader::open(path);
    REQUIRE(reader.ok());
    CHECK(kept(reader->index()) == expected);
    const auto bundles = std::count(expected, expected + 6, '1');
    std::int64_t files = 0;
    for (const auto& entry : fs::directory_iterator(path)) files += entry.path().extension() == ".h5" ? 1 : 0;
    CHECK(files == bundles + 1);
  }
}

TEST_CASE("only the three ways to keep are ways to keep") {
  for (const char* text : {"", "none", "every", "every:", "every:0", "every:-1", "every:2x",
                           "every:99999999999999999999", "ALL", "last "}) {
    CAPTURE(text);
    REQUIRE(!parse_keep(text).ok());
    CHECK(parse_keep(text).error().code == ErrorCode::kUsage);
  }
}

TEST_CASE("a checkpoint that was not kept is missing, with the one to recompute it from") {
  const Folder folder;
  RunWriter writer = create(folder / "run", *parse_keep("every:2"));
  for (int i = 1; i <= 4; ++i) append(writer, 10 * i);
  const auto reader = RunReader::open(folder / "run");
  const auto state = reader->state(3);
  REQUIRE(!state.ok());
  CHECK(state.error().code == ErrorCode::kMissing);
  CHECK(state.error().hint == "recompute it from checkpoint 2");
  CHECK(reader->nearest_kept(3) == 2);
  CHECK(reader->nearest_kept(4) == 4);
  CHECK(reader->nearest_kept(1) == 0);
}

TEST_CASE("a run continues at its last checkpoint") {
  const Folder folder;
  {
    RunWriter writer = create(folder / "run", kLast);
    append(writer, 10);
  }
  auto writer = RunWriter::open(folder / "run", header(), kLast);
  REQUIRE(writer.ok());
  CHECK(test::same(writer->last_state()->state, state_at(10)));
  append(*writer, 20);
  CHECK(writer->index().segments() == 2);
  CHECK(kept(writer->index()) == "101");
}

TEST_CASE("a run belongs to one task, program, interval and drill") {
  const Folder folder;
  { const RunWriter writer = create(folder / "run", kAll); }
  RunHeader other = header();
  SECTION("task") { other.task.bytes[5] = 1; }
  SECTION("program") { other.program.bytes[5] = 1; }
  SECTION("interval") { other.interval = 11; }
  SECTION("drill") { other.drill = "segment=0,lazy"; }
  const auto writer = RunWriter::open(folder / "run", other, kAll);
  REQUIRE(!writer.ok());
  CHECK(writer.error().code == ErrorCode::kMalformed);
}

TEST_CASE("two writers cannot have one run, readers may look at any moment") {
  const Folder folder;
  std::optional<RunWriter> writer = create(folder / "run", kAll);
  const auto second = RunWriter::open(folder / "run", header(), kAll);
  REQUIRE(!second.ok());
  CHECK(second.error().code == ErrorCode::kLocked);
  CHECK(RunReader::open(folder / "run").ok());
  const auto again = RunWriter::create(folder / "run", header(), kAll, state_at(0), digests(state_at(0)));
  REQUIRE(!again.ok());
  CHECK(again.error().code == ErrorCode::kLocked);
  writer.reset();
  const auto over = RunWriter::create(folder / "run", header(), kAll, state_at(0), digests(state_at(0)));
  REQUIRE(!over.ok());
  CHECK(over.error().code == ErrorCode::kCannotCreate);
  CHECK(RunWriter::open(folder / "run", header(), kAll).ok());
}

TEST_CASE("a reader's snapshot survives what the writer does next") {
  const Folder folder;
  RunWriter writer = create(folder / "run", kLast);
  append(writer, 10);
  const auto reader = RunReader::open(folder / "run");
  append(writer, 20);
  CHECK(reader->index().segments() == 1);
  CHECK(reader->state(1).error().code == ErrorCode::kMissing);
  CHECK(reader->state(0).ok());
}

TEST_CASE("what a killed writer leaves is removed when the run is opened, and nothing else") {
  const Folder folder;
  { RunWriter writer = create(folder / "run", kAll); }
  const std::string run = folder / "run";
  test::spill(run + "/.checkpoint-0000000010-aaaaaaaaaaaa.h5.1.0.tmp", "torn");
  test::spill(run + "/.index.h5.77.3.tmp", "torn");
  test::spill(run + "/checkpoint-0000000010-aaaaaaaaaaaa.h5", "not named by the index");
  test::spill(run + "/notes.txt", "mine");
  REQUIRE(RunWriter::open(run, header(), kAll).ok());
  std::size_t files = 0;
  for (const auto& entry : fs::directory_iterator(run)) {
    const std::string name = entry.path().filename();
    CAPTURE(name);
    CHECK((name == ".lock" || name == "notes.txt" || name == "index.h5" ||
           name == fs::path(checkpoint_path(run, RunReader::open(run)->index().checkpoints[0])).filename()));
    ++files;
  }
  CHECK(files == 4);
}

/// Files that other programs write, or that only look like a run's.
constexpr const char* kForeign[] = {"checkpoint-epoch10.h5",
                                    "checkpoint-10.h5",
                                    "checkpoint-000000001-aaaaaaaaaaaa.h5",
                                    "checkpoint-00000000010-aaaaaaaaaaaa.h5",
                                    "checkpoint-0000000010-AAAAAAAAAAAA.h5",
                                    "checkpoint-0000000010-aaaaaaaaaaaa.h5.bak",
                                    "checkpoint-0000000010-aaaaaaaaaaaaa.h5",
                                    "checkpoint-.h5",
                                    ".checkpoint-mine.tmp",
                                    ".checkpoint-0000000010-aaaaaaaaaaaa.h5.tmp",
                                    ".checkpoint-0000000010-aaaaaaaaaaaa.h5.1.x.tmp",
                                    ".index.h5.mine.tmp",
                                    ".notes.1.0.tmp"};

TEST_CASE("files that only look like those of a run are never removed") {
  const Folder folder;
  const std::string run = folder / "run";
  fs::create_directory(run);
  for (const char* name : kForeign) test::spill(run + "/" + name, "theirs");
  {
    RunWriter writer = create(run, kLast);
    append(writer, 10);
    append(writer, 20);
  }
  REQUIRE(RunWriter::open(run, header(), kLast).ok());
  for (const char* name : kForeign) {
    CAPTURE(name);
    CHECK(test::slurp(run + "/" + name) == "theirs");
  }
}

TEST_CASE("a folder that has lost its index is refused, and nothing in it is touched") {
  for (const char* name : {"checkpoint-0000000010-aaaaaaaaaaaa.h5", "checkpoint-0000000000-aaaaaaaaaaaa.h5",
                           "checkpoint-12345678901-aaaaaaaaaaaa.h5", "resume.h5", "resume.losses"}) {
    CAPTURE(name);
    const Folder folder;
    test::spill(folder / name, "weeks of work");
    test::spill(folder / ".index.h5.77.3.tmp", "torn");
    const auto writer = RunWriter::create(folder.path(), header(), kAll, state_at(0), digests(state_at(0)));
    REQUIRE(!writer.ok());
    CHECK(writer.error().code == ErrorCode::kCannotCreate);
    CHECK(writer.error().message == folder.path() + ": has " + name + ", but index.h5 is missing");
    CHECK(test::slurp(folder / name) == "weeks of work");
    CHECK(exists(folder / ".index.h5.77.3.tmp"));
    CHECK_FALSE(exists(folder / "index.h5"));
  }
}

TEST_CASE("what a call that was killed before its first index left does not hinder the next") {
  const Folder folder;
  const std::string run = folder / "run";
  { const RunWriter writer = create(run, kAll); }
  fs::rename(run + "/index.h5", run + "/.index.h5.77.3.tmp");
  { const RunWriter writer = create(run, kAll); }
  CHECK_FALSE(exists(run + "/.index.h5.77.3.tmp"));
  CHECK(RunReader::open(run)->state(0).ok());
}

/// Trains until the first error, and returns how many checkpoints were committed: a run of three segments
/// that keeps only the last state, begun or continued.
int train(const std::string& folder) {
  const bool begun = exists(folder + "/index.h5");
  auto writer = begun ? RunWriter::open(folder, header(), kLast)
                      : RunWriter::create(folder, header(), kLast, state_at(0), digests(state_at(0)));
  if (!writer.ok()) return 0;
  while (writer->index().segments() < 3) {
    const std::int64_t step = 10 * (writer->index().segments() + 1);
    const std::array<float, 2> losses{static_cast<float>(step), 0.5F};
    if (!writer->append(state_at(step), digests(state_at(step)), losses).ok()) break;
  }
  return static_cast<int>(writer->index().checkpoints.size());
}

TEST_CASE(
    "checkpoints that were committed are there after any crash or error, and the run goes on to its end") {
  using dgx::test::FaultyFileSystem;
  using Survival = FaultyFileSystem::Survival;
  for (const auto fault : {FaultyFileSystem::Fault::kCut, FaultyFileSystem::Fault::kNoSpace,
                           FaultyFileSystem::Fault::kIo, FaultyFileSystem::Fault::kShort}) {
    bool reached = true;
    for (std::int64_t at = 0; reached; ++at) {
      const auto seed = static_cast<std::uint64_t>(at);
      const Survival all[] = {Survival::kNothing, Survival::kNames, Survival::kBytes, Survival::kAll,
                              Survival::kDrawn};
      const Survival survival = all[at % 5];
      CAPTURE(static_cast<int>(fault), at, static_cast<int>(survival));
      const Folder folder;
      const std::string run = folder / "run";
      int committed = 0;
      {
        FaultyFileSystem system(folder.path(), fault, at);
        committed = train(run);
        reached = system.reached();
        system.crash(survival, seed);
      }
      const auto reader = RunReader::open(run);
      REQUIRE((reader.ok() || committed == 0));
      if (reader.ok()) {
        REQUIRE(std::ssize(reader->index().checkpoints) >= committed);
        const auto state = reader->state(reader->index().segments());
        REQUIRE(state.ok());
        CHECK(test::same(state->state, state_at(reader->index().checkpoints.back().step)));
      }
      // Only pretends to sync.
      const FaultyFileSystem quick(folder.path(), FaultyFileSystem::Fault::kNone, 0);
      CHECK(train(run) == 4);
      CHECK(test::same(RunReader::open(run)->state(3)->state, state_at(30)));
      // Index and lock included.
      CHECK(std::distance(fs::directory_iterator(run), fs::directory_iterator()) == 4);
    }
  }
}

TEST_CASE("a writer killed at any moment leaves a run that opens at a committed checkpoint") {
  const Folder folder;
  const std::string run = folder / "run";
  { const RunWriter writer = create(run, kLast); }
  for (int round = 0; round < 8; ++round) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      auto writer = RunWriter::open(run, header(), kLast, {1});
      if (!writer.ok()) ::_exit(1);
      std::int64_t step = writer->index().checkpoints.back().step;
      while (true) {
        step += 10;
        if (!writer->append(state_at(step), *digests_of(state_at(step), 1), {}).ok()) ::_exit(2);
      }
    }
    ::usleep(static_cast<useconds_t>(5000 + 3700 * round));
    ::kill(child, SIGKILL);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFSIGNALED(status));
    const auto writer = RunWriter::open(run, header(), kLast);
    REQUIRE(writer.ok());
    const auto state = writer->last_state();
    REQUIRE(state.ok());
    CHECK(test::same(state->state, state_at(writer->index().checkpoints.back().step)));
  }
}

TEST_CASE("steps must ascend") {
  const Folder folder;
  RunWriter writer = create(folder / "run", kAll);
  append(writer, 10);
  const auto same = writer.append(state_at(10), digests(state_at(10)), {});
  REQUIRE(!same.ok());
  CHECK(same.error().code == ErrorCode::kUsage);
  CHECK(writer.index().segments() == 1);
}

TEST_CASE("a checkpoint exchanged for another is found") {
  const Folder folder;
  RunWriter writer = create(folder / "run", kAll);
  append(writer, 10);
  const auto reader = RunReader::open(folder / "run");
  const auto path = [&](std::size_t i) {
    return checkpoint_path(folder / "run", reader->index().checkpoints[i]);
  };
  fs::copy_file(path(0), path(1), fs::copy_options::overwrite_existing);
  const auto state = reader->state(1);
  REQUIRE(!state.ok());
  CHECK(state.error().code == ErrorCode::kMalformed);
  CHECK(!reader->state(1, Check::kNothing).ok());
}

TEST_CASE(
    "an index that names another state of a step than the folder has is refused, and nothing is removed") {
  const Folder folder;
  const std::string run = folder / "run";
  std::string there;
  {
    RunWriter writer = create(run, kAll);
    append(writer, 10);
    append(writer, 20);
    there = checkpoint_path(run, writer.index().checkpoints[1]);
  }
  const std::string other = run + "/checkpoint-0000000010-aaaaaaaaaaaa.h5";
  fs::rename(there, other);
  const auto opened = RunWriter::open(run, header(), kAll);
  REQUIRE(!opened.ok());
  CHECK(opened.error().code == ErrorCode::kMalformed);
  CHECK(!RunReader::open(run).ok());
  CHECK(fs::exists(other));
  fs::remove(other);  // removed by its owner: the others remain available
  CHECK(RunReader::open(run).ok());
  CHECK(RunWriter::open(run, header(), kAll).ok());
}

/// A run of the steps 0 to 40 that keeps all, and the path of checkpoint `at`.
struct Whole {
  Whole() {
    RunWriter writer = create(run, kAll);
    for (int i = 1; i <= 4; ++i) append(writer, 10 * i);
    index = writer.index();
  }
  [[nodiscard]] std::string at(std::size_t checkpoint) const {
    return checkpoint_path(run, index.checkpoints[checkpoint]);
  }
  [[nodiscard]] auto open(KeepPolicy keep = kAll) const { return RunWriter::open(run, header(), keep); }

  const Folder folder;
  const std::string run = folder / "run";
  RunIndex index;
};

void cut(const std::string& path) { fs::resize_file(path, fs::file_size(path) - 1); }

TEST_CASE("a last checkpoint that is cut off is none to go on from, and those before it stay") {
  const Whole whole;
  cut(whole.at(4));
  cut(whole.at(3));
  auto writer = whole.open(kLast);
  REQUIRE(writer.ok());
  CHECK(writer->last_state().error().code == ErrorCode::kMalformed);
  CHECK(writer->last_is_damaged());
  CHECK(writer->prune().error().code == ErrorCode::kMalformed);
  CHECK(exists(whole.at(1)));
  const auto state = writer->go_back();
  REQUIRE(state.ok());
  CHECK(test::same(state->state, state_at(20)));
  CHECK(writer->index().segments() == 2);
  CHECK(writer->index().losses.size() == 4);
  // Nothing has changed before there is a next state.
  CHECK(RunReader::open(whole.run)->index().segments() == 4);
  append(*writer, 30);
  const auto reader = RunReader::open(whole.run);
  CHECK(reader->index().segments() == 3);
  CHECK(kept(reader->index()) == "1001");
  CHECK(test::same(reader->state(3)->state, state_at(30)));
}

TEST_CASE("a damaged checkpoint after which another state is committed is as one that was not kept") {
  const Whole whole;
  cut(whole.at(4));
  auto writer = whole.open();
  REQUIRE(writer.ok());
  writer->give_up_last();
  CHECK_FALSE(writer->last_is_kept());
  append(*writer, 50);
  CHECK(writer->last_is_kept());
  const auto reader = RunReader::open(whole.run);
  CHECK(kept(reader->index()) == "111101");
  CHECK_FALSE(exists(whole.at(4)));
  CHECK(reader->nearest_kept(4) == 3);
  CHECK(reader->index().checkpoints[4].digest == whole.index.checkpoints[4].digest);
}

TEST_CASE("a first checkpoint that is cut off is told, hinders nobody, and can be made again") {
  const Whole whole;
  cut(whole.at(0));
  auto writer = whole.open();
  REQUIRE(writer.ok());
  REQUIRE(writer->first_damage().has_value());
  CHECK_THAT(writer->first_damage()->message, Catch::Contains(whole.at(0)));
  CHECK(test::same(writer->last_state()->state, state_at(40)));
  CHECK(writer->restore_first(state_at(7), digests(state_at(7)), {}).error().code == ErrorCode::kUsage);
  CHECK(writer->restore_first(state_at(0), digests(state_at(0)), {}).ok());
  CHECK_FALSE(writer->first_damage().has_value());
  CHECK(test::same(RunReader::open(whole.run)->state(0)->state, state_at(0)));
}

TEST_CASE("a last checkpoint that holds another state is whole, and not given up") {
  const Whole whole;
  fs::copy_file(whole.at(0), whole.at(4), fs::copy_options::overwrite_existing);
  auto writer = whole.open();
  REQUIRE(writer.ok());
  CHECK(writer->last_state().error().code == ErrorCode::kMalformed);
  CHECK_FALSE(writer->last_is_damaged());
}

TEST_CASE("a folder without an index is no run") {
  const Folder folder;
  CHECK(RunReader::open(folder.path()).error().code == ErrorCode::kMissing);
  CHECK(RunWriter::open(folder / "none", header(), kAll).error().code == ErrorCode::kMissing);
  const auto deep = RunWriter::create(folder / "a/b", header(), kAll, state_at(0), digests(state_at(0)));
  CHECK(deep.error().code == ErrorCode::kCannotCreate);
}

}  // namespace
}  // namespace dgx::bundle
