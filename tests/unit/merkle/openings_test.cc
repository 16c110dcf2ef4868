#include "dgx/merkle/openings.h"

#include <catch2/catch.hpp>

#include "dgx/merkle/nodes.h"
#include "vectors.h"

namespace dgx::merkle {
namespace {

TEST_CASE("every leaf of a tensor opens to its digest") {
  const std::size_t size = GENERATE(as<std::size_t>{}, 1, 1023, 1024, 1025, 5000);
  const Bytes bytes = pattern(size);
  const TensorView tensor{DType::kU8, {static_cast<std::int64_t>(size)}, bytes};
  for (std::uint64_t leaf = 0; leaf < tensor_leaf_count(size); ++leaf) {
    const auto opening = open_tensor(tensor, leaf);
    REQUIRE(opening.ok());
    CHECK(opening->data[0] == bytes[leaf * kTensorLeafBytes]);
    CHECK(*tensor_digest_of(*opening) == tensor_digest(tensor));
    CHECK(check_opening(*opening, tensor_digest(tensor)).ok());
  }
  CHECK(open_tensor(tensor, tensor_leaf_count(size)).error().code == ErrorCode::kUsage);
}

TEST_CASE("a leaf opens alike from its group and the tensor's nodes") {
  for (const std::size_t size : {std::size_t{1}, std::size_t{16384}, std::size_t{5 * 16384 + 1025}}) {
    const Bytes bytes = pattern(size);
    const TensorView tensor{DType::kU8, {static_cast<std::int64_t>(size)}, bytes};
    std::vector<ByteView> groups;
    std::vector<Digest> nodes;
    for (std::size_t at = 0; at < size; at += kTensorNodeBytes) {
      groups.push_back(ByteView(bytes).subspan(at, std::min(kTensorNodeBytes, size - at)));
      nodes.push_back(tensor_node(groups.back()));
    }
    for (std::uint64_t leaf = 0; leaf < tensor_leaf_count(size); ++leaf)
      CHECK(*open_tensor(tensor.dtype, tensor.shape, leaf, groups[leaf / 16], nodes) ==
            *open_tensor(tensor, leaf));
  }
}

TEST_CASE("an empty tensor has nothing to open") {
  CHECK_FALSE(open_tensor({DType::kF32, {0}, {}}, 0).ok());
  CHECK_FALSE(tensor_digest_of({DType::kF32, {0}, 0, {}, {}}).ok());
}

TEST_CASE("an element is where its leaf says") {
  const Bytes bytes = pattern(4096);
  const auto place = place_of(DType::kF32, 300);
  CHECK(place.leaf == 1);
  CHECK(place.offset_bytes == 176);
  const auto opening = open_tensor({DType::kF32, {1024}, bytes}, place.leaf);
  REQUIRE(opening.ok());
  CHECK(opening->data[place.offset_bytes] == bytes[1200]);
}

TEST_CASE("a changed opening of a tensor does not check") {
  const Bytes bytes = pattern(5000);
  const TensorView tensor{DType::kU8, {5000}, bytes};
  const Digest digest = tensor_digest(tensor);
  const auto good = open_tensor(tensor, 3);
  REQUIRE(good.ok());
  const auto fails = [&](auto change) {
    TensorOpening bad = *good;
    change(bad);
    const auto status = check_opening(bad, digest);
    return !status.ok() && status.error().code == ErrorCode::kMalformed;
  };
  CHECK(fails([](TensorOpening& o) { o.data[1023] ^= 1; }));
  CHECK(fails([](TensorOpening& o) { o.leaf = 2; }));
  CHECK(fails([](TensorOpening& o) { o.leaf = 4; }));
  CHECK(fails([](TensorOpening& o) { o.leaf = 5; }));
  CHECK(fails([](TensorOpening& o) { o.path[0].bytes[0] ^= 1; }));
  CHECK(fails([](TensorOpening& o) { o.path.pop_back(); }));
  CHECK(fails([](TensorOpening& o) { o.path.push_back({}); }));
  CHECK(fails([](TensorOpening& o) { o.data.pop_back(); }));
  CHECK(fails([](TensorOpening& o) { o.data.push_back(0); }));
  CHECK(fails([](TensorOpening& o) { o.shape = {5000, 1}; }));
  CHECK(fails([](TensorOpening& o) { o.shape = {4999}; }));
  CHECK(fails([](TensorOpening& o) { o.shape = {-1}; }));
  CHECK(fails([](TensorOpening& o) { o.shape = Shape(9, 1); }));
  CHECK(fails([](TensorOpening& o) { o.dtype = DType::kF32; }));
}

std::vector<NamedDigest> entries(std::size_t count) {
  std::vector<NamedDigest> out;
  const auto digests = numbered_leaves(count);
  for (std::size_t i = 0; i < count; ++i) out.push_back({"e" + std::to_string(100 + i), digests[i]});
  return out;
}

TEST_CASE("every entry opens to its state's digest") {
  for (const std::size_t count : {1u, 2u, 7u, 8u, 13u}) {
    const auto state = entries(count);
    for (const NamedDigest& entry : state) {
      const auto opening = open_entry(state, entry.name);
      REQUIRE(opening.ok());
      CHECK(opening->tensor == entry.digest);
      CHECK(check_opening(*opening, *state_digest(state)).ok());
    }
    CHECK(open_entry(state, "e99").error().message == "no entry \"e99\"");
  }
}

TEST_CASE("a changed opening of an entry does not check") {
  const auto state = entries(7);
  const auto good = open_entry(state, "e106");
  REQUIRE(good.ok());
  const auto fails = [&](auto change) {
    EntryOpening bad = *good;
    change(bad);
    const auto status = check_opening(bad, *state_digest(state));
    return !status.ok() && status.error().code == ErrorCode::kMalformed;
  };
  CHECK(fails([](EntryOpening& o) { o.name = "e107"; }));
  CHECK(fails([](EntryOpening& o) { o.name = ""; }));
  CHECK(fails([](EntryOpening& o) { o.name = std::string(65536, 'x'); }));
  CHECK(fails([](EntryOpening& o) { o.tensor.bytes[5] ^= 4; }));
  CHECK(fails([](EntryOpening& o) { o.index = 5; }));
  CHECK(fails([](EntryOpening& o) { o.count = 6; }));
  CHECK(fails([](EntryOpening& o) { o.count = 0; }));
  CHECK(fails([](EntryOpening& o) { o.count = 8; }));
  CHECK(fails([](EntryOpening& o) { o.path.clear(); }));
  CHECK(fails([](EntryOpening& o) { o.path.back().bytes[31] ^= 1; }));
}

}  // namespace
}  // namespace dgx::merkle
