#include "dgx/bundle/state.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "dgx/bundle/dataset.h"
#include "support.h"

namespace dgx::bundle {
namespace {

using test::Folder;

StateDigests digests(const State& state) {
  auto out = digests_of(state);
  REQUIRE(out.ok());
  return std::move(out).value();
}

TEST_CASE("a state comes back bit for bit, with its digests") {
  const Folder folder;
  const State state = test::sample_state(12);
  const StateDigests before = digests(state);
  REQUIRE(write_state(folder / "a.h5", state, before, Clobber::kRefuse).ok());
  for (const int threads : {1, 2, 7}) {
    const auto after = read_state(folder / "a.h5", Check::kDigests, {threads});
    REQUIRE(after.ok());
    CHECK(test::same(after->state, state));
    CHECK(after->digests.state == before.state);
    CHECK(after->digests.tensors == before.tensors);
  }
  CHECK(*kind_of(folder / "a.h5") == Kind::kState);
}

TEST_CASE("threads do not change a state's digests") {
  const State state = test::sample_state(1);
  const auto expected = merkle::state_digests(state);
  REQUIRE(expected.ok());
  for (const int threads : {1, 3}) {
    CHECK(digests_of(state, threads)->state == expected->state);
    CHECK(digests_of(state, threads)->tensors == expected->tensors);
  }
}

TEST_CASE("a state of no entries is a state") {
  const Folder folder;
  REQUIRE(write_state(folder / "a.h5", {}, digests({}), Clobber::kRefuse).ok());
  const auto after = read_state(folder / "a.h5");
  REQUIRE(after.ok());
  CHECK(after->state.empty());
}

TEST_CASE("the same state gives the same bytes, whatever the name, the moment and the threads") {
  const Folder folder;
  const State state = test::sample_state(12);
  REQUIRE(write_state(folder / "a.h5", state, digests(state), Clobber::kRefuse, {1}).ok());
  const std::string first = test::slurp(folder / "a.h5");
  for (const int threads : {1, 2, 5}) {
    REQUIRE(
        write_state(folder / "another name.h5", state, digests(state), Clobber::kReplace, {threads}).ok());
    CHECK(test::slurp(folder / "another name.h5") == first);
  }
}

TEST_CASE("a plain state is the same state, in a larger file") {
  const Folder folder;
  const State state{{"model/weight", Tensor(DType::kF32, {300, 200})}};
  REQUIRE(write_state(folder / "a.h5", state, digests(state), Clobber::kRefuse).ok());
  REQUIRE(write_state(folder / "b.h5", state, digests(state), Clobber::kRefuse, {1}, Storage::kPlain).ok());
  CHECK(test::slurp(folder / "a.h5").size() < 60'000);
  CHECK(test::slurp(folder / "b.h5").size() > 240'000);
  const auto plain = read_state(folder / "b.h5");
  REQUIRE(plain.ok());
  CHECK(plain->digests.state == digests(state).state);
  CHECK(plain->state[0].tensor.shape() == Shape{300, 200});
}

TEST_CASE("a file that exists is only replaced when asked") {
  const Folder folder;
  test::spill(folder / "a.h5", "mine");
  const auto refused = write_state(folder / "a.h5", {}, digests({}), Clobber::kRefuse);
  REQUIRE(!refused.ok());
  CHECK(refused.error().code == ErrorCode::kCannotCreate);
  CHECK(test::slurp(folder / "a.h5") == "mine");
  CHECK(write_state(folder / "a.h5", {}, digests({}), Clobber::kReplace).ok());
  CHECK(folder.list() == "a.h5");
}

TEST_CASE("entry names that no bundle can hold are refused") {
  const auto state_of = [](std::initializer_list<std::string> names) {
    State state;
    for (const std::string& name : names) state.push_back({name, Tensor(DType::kU8, {1})});
    return state;
  };
  const std::string long_part(513, 'a');
  for (const std::string& name :
       {std::string(), std::string("/a"), std::string("a/"), std::string("a//b"), std::string("."),
        std::string("a/.."), std::string("caf\xc3\xa9"), std::string("a\nb"), std::string("a\0b", 3),
        std::string("1/2/3/4/5/6/7/8/9"), long_part}) {
    CAPTURE(name);
    const auto result = digests_of(state_of({name}));
    REQUIRE(!result.ok());
    CHECK(result.error().code == ErrorCode::kMalformed);
  }
  CHECK(!digests_of(state_of({"b", "a"})).ok());
  CHECK(!digests_of(state_of({"a", "a"})).ok());
  // "a-b" sorts between "a" and "a/b".
  const auto both = digests_of(state_of({"a", "a-b", "a/b"}));
  REQUIRE(!both.ok());
  CHECK(both.error().message == "state: \"a\" is an entry and a prefix of entry \"a/b\"");
  CHECK(digests_of(state_of({"a-b", "a/b", "ab"})).ok());
}

TEST_CASE("names whose order differs between bytes and folders come back in byte order") {
  const Folder folder;
  State state;
  for (const std::string name : {"m/a-b", "m/a.b/c", "m/a/z", "m/a0", "m b/c"}) {
    state.push_back({name, test::numbers(DType::kU8, {3}, state.size())});
  }
  std::sort(state.begin(), state.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });
  REQUIRE(write_state(folder / "a.h5", state, digests(state), Clobber::kRefuse).ok());
  const auto after = read_state(folder / "a.h5");
  REQUIRE(after.ok());
  CHECK(test::same(after->state, state));
}

TEST_CASE("a digest that is not the numbers' is found, and names the entry") {
  const Folder folder;
  const State state = test::sample_state(12);
  StateDigests wrong = digests(state);
  wrong.tensors[1].bytes[31] ^= 1;
  REQUIRE(write_state(folder / "a.h5", state, wrong, Clobber::kRefuse).ok());
  const auto read = read_state(folder / "a.h5");
  REQUIRE(!read.ok());
  CHECK(read.error().code == ErrorCode::kMalformed);
  CHECK(read.error().message.find("\"model/0.bias\" has digest") != std::string::npos);
  CHECK(read_state(folder / "a.h5", Check::kNothing).ok());

  wrong = digests(state);
  wrong.state.bytes[0] ^= 1;
  REQUIRE(write_state(folder / "a.h5", state, wrong, Clobber::kReplace).ok());
  CHECK(!read_state(folder / "a.h5").ok());
}

TEST_CASE("more numbers than a reader expects are refused before they are read") {
  const Folder folder;
  const State state = test::sample_state(12);
  REQUIRE(write_state(folder / "a.h5", state, digests(state), Clobber::kRefuse).ok());
  const auto read = read_state(folder / "a.h5", Check::kDigests, {1, 1000});
  REQUIRE(!read.ok());
  CHECK(read.error().code == ErrorCode::kMalformed);
  CHECK(read.error().message.find("more than 1000 bytes of numbers") != std::string::npos);
}

TEST_CASE("what is missing, no bundle, or another bundle is told apart") {
  const Folder folder;
  CHECK(read_state(folder / "none.h5").error().code == ErrorCode::kMissing);
  test::spill(folder / "text.h5", "hello\n");
  CHECK(read_state(folder / "text.h5").error().message == (folder / "text.h5") + ": is not an HDF5 file");
  CHECK(read_state(folder.path()).error().code == ErrorCode::kMalformed);
  const auto data = make_dataset(Tensor(DType::kU8, {2, 3}), Tensor(DType::kU8, {2}));
  REQUIRE(data.ok());
  REQUIRE(write_dataset(folder / "data.h5", *data, Clobber::kRefuse).ok());
  CHECK(read_state(folder / "data.h5").error().message ==
        (folder / "data.h5") + ": is a dataset bundle, expected a state bundle");
}

TEST_CASE("a state of thousands of entries, whose names fill every kind of block, is read again") {
  const test::Folder folder;
  // 9,000 links of 100 bytes: a name tree of three levels, and a heap larger than its direct blocks of 512
  // KiB.
  State state;
  for (int i = 0; i < 9000; ++i) {
    std::string name = std::to_string(i);
    name = "model/" + std::string(86 - name.size(), 'n') + name;
    state.push_back({std::move(name), test::numbers(DType::kU8, {i % 3}, static_cast<std::uint64_t>(i))});
  }
  std::sort(state.begin(), state.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });
  REQUIRE(write_state(folder / "a.h5", state, *digests_of(state), Clobber::kRefuse).ok());
  const auto read = read_state(folder / "a.h5");
  REQUIRE(read.ok());
  CHECK(test::same(read->state, state));
}

}  // namespace
}  // namespace dgx::bundle
