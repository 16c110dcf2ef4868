#include "dgx/bundle/sample.h"

#include <catch2/catch.hpp>

#include "support.h"

namespace dgx::bundle {
namespace {

using test::Folder;

Digest digest(std::uint8_t value) {
  Digest out;
  out.bytes.fill(value);
  return out;
}

SampleHeader header() { return {digest(1), digest(2), 100}; }

Status write(const std::string& path, const std::vector<std::int64_t>& segments) {
  DGX_TRY(SampleWriter writer, SampleWriter::create(path, header(), Clobber::kReplace));
  for (const std::int64_t segment : segments) {
    const State state = test::sample_state(segment * 10, static_cast<std::uint64_t>(segment));
    DGX_TRY(const StateDigests digests, digests_of(state));
    DGX_CHECK(writer.add({segment, digests.state, {digest(3), digest(4)}}, state, digests));
  }
  return writer.commit();
}

TEST_CASE("a sample gives back start states, digests and paths") {
  const Folder folder;
  REQUIRE(write(folder / "s.h5", {3, 17, 99}).ok());
  const auto reader = SampleReader::open(folder / "s.h5");
  REQUIRE(reader.ok());
  CHECK(reader->header() == header());
  REQUIRE(reader->segments().size() == 3);
  CHECK(reader->segments()[1].segment == 17);
  CHECK(reader->segments()[2].path == std::vector{digest(3), digest(4)});
  const auto start = reader->start(1);
  REQUIRE(start.ok());
  CHECK(test::same(start->state, test::sample_state(170, 17)));
  CHECK(start->digests.state == reader->segments()[1].start);
  CHECK(reader->start(3).error().code == ErrorCode::kUsage);
}

TEST_CASE("a sample of no segments and an empty path are possible") {
  const Folder folder;
  REQUIRE(write(folder / "s.h5", {}).ok());
  CHECK(SampleReader::open(folder / "s.h5")->segments().empty());
  auto writer = SampleWriter::create(folder / "one.h5", {digest(1), digest(2), 1}, Clobber::kRefuse);
  REQUIRE(writer.ok());
  REQUIRE(writer->add({0, digests_of({})->state, {}}, {}, *digests_of({})).ok());
  REQUIRE(writer->commit().ok());
  const auto reader = SampleReader::open(folder / "one.h5");
  REQUIRE(reader.ok());
  CHECK(reader->segments()[0].path.empty());
  CHECK(reader->start(0).ok());
}

TEST_CASE("nothing is at the target before a sample is complete") {
  const Folder folder;
  {
    auto writer = SampleWriter::create(folder / "s.h5", header(), Clobber::kRefuse);
    REQUIRE(writer.ok());
    REQUIRE(writer->add({0, digests_of({})->state, {}}, {}, *digests_of({})).ok());
    CHECK(SampleReader::open(folder / "s.h5").error().code == ErrorCode::kMissing);
  }
  CHECK(folder.list().empty());
}

TEST_CASE("segments ascend and are below the checkpoints") {
  const Folder folder;
  CHECK(write(folder / "s.h5", {3, 3}).error().code == ErrorCode::kUsage);
  CHECK(write(folder / "s.h5", {5, 3}).error().code == ErrorCode::kUsage);
  CHECK(write(folder / "s.h5", {100}).error().code == ErrorCode::kUsage);
  CHECK(folder.list().empty());
}

TEST_CASE("a start state that is not the one named is found") {
  const Folder folder;
  auto writer = SampleWriter::create(folder / "s.h5", header(), Clobber::kRefuse);
  REQUIRE(writer.ok());
  const State state = test::sample_state(10);
  REQUIRE(writer->add({1, digest(9), {}}, state, *digests_of(state)).ok());
  REQUIRE(writer->commit().ok());
  const auto reader = SampleReader::open(folder / "s.h5");
  REQUIRE(reader.ok());
  CHECK(reader->start(0).error().code == ErrorCode::kMalformed);
}

}  // namespace
}  // namespace dgx::bundle
