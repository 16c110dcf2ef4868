#include "dgx/bundle/constants.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "dgx/bundle/run.h"
#include "dgx/bundle/sample.h"
#include "support.h"

namespace dgx::bundle {
namespace {

namespace fs = std::filesystem;
using test::Folder;

/// Only `model/b` and the step change.
State state_at(std::int64_t step) {
  State state;
  state.push_back({"model/a", test::numbers(DType::kF32, {300, 100}, 77)});
  state.push_back({"model/b", test::numbers(DType::kF32, {5, 3}, static_cast<std::uint64_t>(step))});
  state.push_back({"model/c", test::numbers(DType::kF32, {7}, 78)});
  state.push_back({"step", Tensor(DType::kI64, {})});
  state.back().tensor.as<std::int64_t>()[0] = step;
  return state;
}

Constants frozen(const State& state, std::vector<std::string> names = {"model/c", "model/a"}) {
  return *constants_of(state, *digests_of(state), std::move(names));
}

RunHeader header() {
  RunHeader out;
  out.task.bytes[0] = 1;
  out.interval = 10;
  return out;
}

RunWriter create(const std::string& folder) {
  const State start = state_at(0);
  auto writer = RunWriter::create(folder, header(), {}, start, *digests_of(start), {}, {}, frozen(start));
  REQUIRE(writer.ok());
  return std::move(writer).value();
}

std::string constants_in(const std::string& folder) {
  return constants_path(folder, frozen(state_at(0)).digest);
}

TEST_CASE("known digests give the digests of the whole state") {
  const State later = state_at(10);
  const auto known = digests_of(later, frozen(state_at(0)));
  REQUIRE(known.ok());
  CHECK(known->state == digests_of(later)->state);
  CHECK(known->tensors == digests_of(later)->tensors);
  CHECK(digests_of(later, Constants{})->state == digests_of(later)->state);
  // They may be left out.
  const auto less = digests_of({later[1], later[3]}, frozen(later));
  REQUIRE(less.ok());
  CHECK(less->state == known->state);
  CHECK(less->tensors == std::vector<Digest>{known->tensors[1], known->tensors[3]});
  CHECK(constants_of(later, *digests_of(later), {"none"}).error().code == ErrorCode::kUsage);
}

TEST_CASE("a run stores its constant entries once, and gives back whole states") {
  const Folder folder;
  {
    RunWriter writer = create(folder / "run");
    REQUIRE(writer.append(state_at(10), *digests_of(state_at(10), writer.constants()), {}).ok());
  }
  auto again = RunWriter::open(folder / "run", header(), {});
  REQUIRE(again.ok());
  CHECK(again->constants().entries == frozen(state_at(0)).entries);
  REQUIRE(again->append(state_at(20), *digests_of(state_at(20), again->constants()), {}).ok());
  const auto reader = RunReader::open(folder / "run");
  for (const std::int64_t i : {0, 1, 2}) {
    const auto state = reader->state(i);
    REQUIRE(state.ok());
    CHECK(test::same(state->state, state_at(i * 10)));
    CHECK(state->digests.tensors == digests_of(state_at(i * 10))->tensors);
    const Checkpoint& checkpoint = reader->index().checkpoints[static_cast<std::size_t>(i)];
    CHECK(fs::file_size(checkpoint_path(folder / "run", checkpoint)) <
          fs::file_size(constants_in(folder / "run")) / 4);
  }
  CHECK(read_state(constants_in(folder / "run"))->state.size() == 2);
}

TEST_CASE("a removed or damaged file of constant entries is named") {
  const Folder folder;
  { const RunWriter writer = create(folder / "run"); }
  const std::string path = constants_in(folder / "run");
  const std::string content = test::slurp(path);
  const auto error = [&] { return RunReader::open(folder / "run")->state(0).error(); };

  fs::remove(path);
  CHECK(error().code == ErrorCode::kMissing);
  CHECK(error().message == path + ": does not exist");
  CHECK(RunWriter::open(folder / "run", header(), {}).error().message == path + ": does not exist");

  std::string damaged = content;
  damaged[damaged.size() - 100] = static_cast<char>(damaged[damaged.size() - 100] ^ 1);
  test::spill(path, damaged);
  CHECK(error().code == ErrorCode::kMalformed);
  CHECK(error().message.starts_with(path + ": "));

  // Another state under this name: whole, but not the one that the checkpoint names.
  fs::remove(path);
  REQUIRE(write_state(path, state_at(0), *digests_of(state_at(0)), Clobber::kRefuse).ok());
  CHECK(error().message.starts_with(path + ": has digest "));

  // One that itself leaves entries out, and so could name itself.
  REQUIRE(
      write_state(path, state_at(0), *digests_of(state_at(0)), frozen(state_at(0)), Clobber::kReplace).ok());
  CHECK(error().code == ErrorCode::kMalformed);

  test::spill(path, content);
  CHECK(RunReader::open(folder / "run")->state(0).ok());
}

TEST_CASE("a killed call may have left the constant entries, and nobody else") {
  const Folder folder;
  { const RunWriter writer = create(folder / "run"); }
  fs::remove(folder / "run/index.h5");
  { const RunWriter writer = create(folder / "run"); }
  fs::remove(folder / "run/index.h5");
  fs::rename(constants_in(folder / "run"), folder / "run/constant-0123456789ab.h5");
  const State start = state_at(0);
  const auto refused =
      RunWriter::create(folder / "run", header(), {}, start, *digests_of(start), {}, {}, frozen(start));
  CHECK(refused.error().code == ErrorCode::kCannotCreate);
}

Result<SampleReader> sample_of(const std::string& path, const Constants& constants,
                               const std::vector<State>& states) {
  DGX_TRY(SampleWriter writer, SampleWriter::create(path, {{}, {}, 100}, Clobber::kReplace, {}, constants));
  for (std::size_t i = 0; i < states.size(); ++i) {
    DGX_TRY(const StateDigests digests, digests_of(states[i]));
    DGX_CHECK(writer.add({static_cast<std::int64_t>(i), digests.state, {}}, states[i], digests));
  }
  DGX_CHECK(writer.commit());
  return SampleReader::open(path);
}

TEST_CASE("a sample stores constant entries once") {
  const Folder folder;
  const std::vector<State> states{state_at(0), state_at(10), state_at(20), state_at(30), state_at(40)};
  const auto sample = sample_of(folder / "s.h5", frozen(states[0]), states);
  REQUIRE(sample.ok());
  CHECK(sample->constants() == std::vector<std::string>{"model/a", "model/c"});
  for (std::size_t i = 0; i < states.size(); ++i) {
    const auto start = sample->start(i);
    REQUIRE(start.ok());
    CHECK(test::same(start->state, states[i]));
  }
  const auto whole = sample_of(folder / "w.h5", {}, states);
  CHECK(whole->constants().empty());
  CHECK(fs::file_size(folder / "s.h5") < fs::file_size(folder / "w.h5") / 3);
}

TEST_CASE("constant entries that lie are refused") {
  const Folder folder;
  const std::vector<State> states{state_at(0), state_at(10)};
  SECTION("an entry that changes") {
    const auto sample = sample_of(folder / "s.h5", frozen(states[0], {"model/a", "model/b"}), states);
    CHECK(sample->start(0).ok());
    CHECK(sample->start(1).error().code == ErrorCode::kMalformed);
  }
  SECTION("numbers that do not have their digest") {
    StateDigests digests = *digests_of(states[0]);
    const Digest honest = digests.state;
    State wrong = states[0];
    wrong[0].tensor.as<float>()[5] += 1;
    auto writer =
        SampleWriter::create(folder / "s.h5", {{}, {}, 100}, Clobber::kReplace, {}, frozen(states[0]));
    REQUIRE(writer->add({0, honest, {}}, wrong, digests).ok());
    REQUIRE(writer->commit().ok());
    const auto start = SampleReader::open(folder / "s.h5")->start(0);
    CHECK(start.error().code == ErrorCode::kMalformed);
    CHECK(start.error().message.find("constant: \"model/a\" has digest") != std::string::npos);
  }
  SECTION("an entry that is missing") {
    State less = states[1];
    less.erase(less.begin() + 2);
    auto writer = SampleWriter::create(folder / "s.h5", {{}, {}, 100}, Clobber::kReplace, {},
                                       frozen(states[0], {"model/a"}));
    REQUIRE(writer->add({0, digests_of(states[0])->state, {}}, states[0], *digests_of(states[0])).ok());
    REQUIRE(writer->add({1, digests_of(states[1])->state, {}}, less, *digests_of(less)).ok());
    REQUIRE(writer->commit().ok());
    CHECK(SampleReader::open(folder / "s.h5")->start(1).error().code == ErrorCode::kMalformed);
  }
}

}  // namespace
}  // namespace dgx::bundle
