#include "dgx/merkle/digests.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "dgx/crypto/sha256.h"
#include "dgx/merkle/nodes.h"
#include "vectors.h"

namespace dgx::merkle {
namespace {

std::vector<NamedDigest> example_entries() {
  const Bytes bytes = pattern(1024);
  return {{"loss", tensor_digest({DType::kF32, {}, ByteView(bytes).first(4)})},
          {"model/a", tensor_digest({DType::kF32, {3, 5}, ByteView(bytes).first(60)})},
          {"model/b", tensor_digest({DType::kI64, {128}, bytes})},
          {"step", tensor_digest({DType::kI64, {}, ByteView(bytes).first(8)})}};
}

State example_state() {
  State state;
  for (const auto& [name, size] : {std::pair("a", 3), std::pair("b", 4), std::pair("c", 700)}) {
    state.push_back({name, Tensor(DType::kF32, {size})});
  }
  return state;
}

TEST_CASE("tensor digests are those of the definition") {
  for (const json::Value& vector : *member(vectors(), "tensors").as_array()) {
    Shape shape;
    for (const json::Value& dim : *member(vector, "dims").as_array()) shape.push_back(*dim.as_int());
    const auto dtype = static_cast<DType>(integer(vector, "dtype"));
    const Bytes bytes = pattern(static_cast<std::size_t>(*element_count(shape)) * size_of(dtype));
    CAPTURE(to_string(shape));
    CHECK(tensor_digest({dtype, shape, bytes}) == digest(member(vector, "digest")));
  }
}

TEST_CASE("a tensor hashed by leaves or by parts has the same digest") {
  const std::size_t size = GENERATE(as<std::size_t>{}, 0, 1, 1024, 1025, kTensorPartBytes,
                                    kTensorPartBytes + 1, 3 * kTensorPartBytes - 1024);
  const Bytes bytes = pattern(size);
  const Shape shape = {static_cast<std::int64_t>(size)};
  const Digest whole = tensor_digest({DType::kU8, shape, bytes});
  CHECK(tensor_leaves(bytes).size() == tensor_leaf_count(size));
  CHECK(tensor_digest(DType::kU8, shape, root_of(tensor_leaves(bytes))) == whole);
  std::vector<Digest> parts;
  for (std::uint64_t i = 0; i < tensor_part_count(size); ++i) parts.push_back(tensor_part_root(bytes, i));
  CHECK(tensor_digest(DType::kU8, shape, root_of(parts)) == whole);
}

TEST_CASE("the nodes of a tensor are those of the definition, and their root is its root") {
  for (const json::Value& vector : *member(vectors(), "nodes").as_array()) {
    const auto size = static_cast<std::size_t>(integer(vector, "bytes"));
    const Bytes bytes = pattern(size);
    std::vector<Digest> nodes;
    for (std::size_t at = 0; at < size; at += kTensorNodeBytes)
      nodes.push_back(tensor_node(ByteView(bytes).subspan(at, std::min(kTensorNodeBytes, size - at))));
    CAPTURE(size);
    CHECK(nodes == digests(member(vector, "nodes")));
    CHECK(nodes.size() == tensor_node_count(size));
    CHECK(root_of(nodes) == root_of(tensor_leaves(bytes)));
  }
}

TEST_CASE("leaf and part counts round up and do not overflow") {
  CHECK(tensor_leaf_count(0) == 0);
  CHECK(tensor_leaf_count(1) == 1);
  CHECK(tensor_leaf_count(1024) == 1);
  CHECK(tensor_leaf_count(1025) == 2);
  CHECK(tensor_leaf_count(~0ull) == 1ull << 54);
  CHECK(tensor_part_count(kTensorPartBytes + 1) == 2);
}

TEST_CASE("type, dimensions and every byte of a tensor are bound by its digest") {
  Bytes bytes = pattern(2400);
  std::set<Digest> seen;
  seen.insert(tensor_digest({DType::kF32, {600}, bytes}));
  seen.insert(tensor_digest({DType::kI64, {300}, bytes}));
  seen.insert(tensor_digest({DType::kU8, {2400}, bytes}));
  seen.insert(tensor_digest({DType::kF32, {600, 1}, bytes}));
  seen.insert(tensor_digest({DType::kF32, {1, 600}, bytes}));
  seen.insert(tensor_digest({DType::kF32, {20, 30}, bytes}));
  for (const std::size_t at : {0u, 1023u, 1024u, 2047u, 2048u, 2399u}) {
    bytes[at] ^= 1;
    seen.insert(tensor_digest({DType::kF32, {600}, bytes}));
    bytes[at] ^= 1;
  }
  CHECK(seen.size() == 12);
}

TEST_CASE("a scalar and a tensor of one element differ, and so do empty tensors of different shapes") {
  const Bytes four(4);
  CHECK(tensor_digest({DType::kF32, {}, four}) != tensor_digest({DType::kF32, {1}, four}));
  CHECK(tensor_digest({DType::kF32, {0, 2}, {}}) != tensor_digest({DType::kF32, {2, 0}, {}}));
}

TEST_CASE("the state digest is that of the definition") {
  const json::Value& vector = member(vectors(), "state");
  CHECK(*state_digest(example_entries()) == digest(member(vector, "digest")));
  CHECK(*state_digest(std::span<const NamedDigest>()) == digest(member(vector, "empty")));
}

TEST_CASE("a state's names must be good and ascend") {
  auto entries = example_entries();
  std::swap(entries[1], entries[2]);
  CHECK(state_digest(entries).error().message == "entry 2 \"model/a\": not after \"model/b\" in byte order");
  entries = example_entries();
  entries[1].name = "loss";
  CHECK(state_digest(entries).error().code == ErrorCode::kMalformed);
  entries[0].name = "";
  CHECK(state_digest(entries).error().message == "entry 0: entry name of 0 bytes, must be 1 to 65535");
  entries[3].name = std::string(65536, 'z');
  entries[0].name = "a";
  CHECK_FALSE(state_digest(entries).ok());
  entries[3].name.pop_back();
  CHECK(state_digest(entries).ok());
  CHECK_FALSE(dataset_digest(std::vector<NamedDigest>{{"b", {}}, {"a", {}}}, "{}").ok());
}

TEST_CASE("names sort by unsigned bytes") {
  CHECK(state_digest(std::vector<NamedDigest>{{"a", {}}, {"\xC3\xA9", {}}}).ok());
  CHECK_FALSE(state_digest(std::vector<NamedDigest>{{"\xC3\xA9", {}}, {"a", {}}}).ok());
}

TEST_CASE("a state's digest is the same from tensors and from digests, on any number of threads") {
  const State state = example_state();
  const auto digests = state_digests(state);
  REQUIRE(digests.ok());
  REQUIRE(digests->tensors.size() == 3);
  std::vector<NamedDigest> entries;
  for (std::size_t i = 0; i < 3; ++i)
    entries.push_back({state[i].name, tensor_digest(state[i].tensor.view())});
  CHECK(*state_digest(entries) == digests->state);
  for (const int threads : {0, 1, 3}) CHECK(state_digests(state, threads)->state == digests->state);
}

TEST_CASE("any bit or name of a state changes its digest") {
  State state = example_state();
  const Digest before = state_digests(state)->state;
  state[2].tensor.bytes()[2799] ^= 0x80;
  CHECK(state_digests(state)->state != before);
  state[2].tensor.bytes()[2799] ^= 0x80;
  CHECK(state_digests(state)->state == before);
  state[1].name = "bb";
  CHECK(state_digests(state)->state != before);
  state.pop_back();
  CHECK(state_digests(state)->state != before);
}

TEST_CASE("leaves of trees of digests begin with their kind") {
  const Digest one = crypto::sha256(as_bytes("one"));
  CHECK(committed_state_leaf(one) == digest(member(vectors(), "committed_state_leaf")));
  CHECK(value_leaf(one) == digest(member(vectors(), "value_leaf")));
  CHECK(ledger_leaf(one, 1700000000123) == digest(member(vectors(), "ledger_leaf")));
}

TEST_CASE("the dataset digest binds its tensors and its scales") {
  const std::string scales = *member(vectors(), "scales").as_string();
  const auto entries = example_entries();
  CHECK(*dataset_digest(entries, scales) == digest(member(vectors(), "dataset")));
  CHECK(*dataset_digest(entries, scales + " ") != *dataset_digest(entries, scales));
  CHECK(*dataset_digest(std::span(entries).first(3), scales) != *dataset_digest(entries, scales));
}

TEST_CASE("a program's leaves are its lines without newlines, empty ones too") {
  const auto leaves = program_leaves(*member(vectors(), "program").as_string());
  REQUIRE(leaves.ok());
  CHECK(leaves->size() == 3);
  CHECK(root_of(*leaves) == digest(member(vectors(), "program_root")));
  CHECK(program_leaves("")->empty());
  CHECK(program_leaves("a\nb").error().message == "program: the last line has no newline");
}

}  // namespace
}  // namespace dgx::merkle
