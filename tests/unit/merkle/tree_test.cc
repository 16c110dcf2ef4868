#include "dgx/merkle/tree.h"

#include <catch2/catch.hpp>

#include "consistency.h"
#include "vectors.h"

namespace dgx::merkle {
namespace {

std::span<const Digest> first(const std::vector<Digest>& leaves, std::uint64_t count) {
  return std::span(leaves).first(count);
}

Digest flipped(Digest digest, std::size_t bit) {
  digest.bytes[bit / 8 % 32] ^= static_cast<std::uint8_t>(1u << bit % 8);
  return digest;
}

TEST_CASE("the roots are those of the Certificate Transparency test inputs") {
  const auto roots = digests(member(vectors(), "ct_roots"));
  TreeBuilder builder;
  CHECK(builder.root() == roots[0]);
  CHECK(empty_root() == roots[0]);
  for (const json::Value& input : *member(vectors(), "ct_inputs").as_array()) {
    const auto data = from_hex(*input.as_string());
    REQUIRE(data.ok());
    builder.add(*data);
    CHECK(builder.root() == roots[builder.size()]);
  }
  CHECK(builder.root().hex() == "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328");
}

TEST_CASE("every size up to 40 gives the root of the recursive definition") {
  const auto roots = digests(member(vectors(), "numbered_roots"));
  const auto leaves = numbered_leaves(40);
  for (std::uint64_t n = 0; n <= 40; ++n) CHECK(root_of(first(leaves, n)) == roots[n]);
}

TEST_CASE("a leaf in two parts hashes as the whole") {
  const Bytes bytes = pattern(70);
  CHECK(leaf_hash(ByteView(bytes).first(1), ByteView(bytes).subspan(1)) == leaf_hash(bytes));
}

TEST_CASE("the root over roots of equal power-of-two parts is the root") {
  const auto leaves = numbered_leaves(40);
  for (std::uint64_t n = 1; n <= 40; ++n) {
    for (const std::uint64_t part : {1u, 2u, 8u, 16u}) {
      std::vector<Digest> parts;
      for (std::uint64_t at = 0; at < n; at += part) {
        parts.push_back(root_of(first(leaves, n).subspan(at, std::min(part, n - at))));
      }
      CHECK(root_of(parts) == root_of(first(leaves, n)));
    }
  }
}

TEST_CASE("inclusion paths are those of the recursive definition") {
  for (const json::Value& vector : *member(vectors(), "inclusion").as_array()) {
    const auto count = static_cast<std::uint64_t>(integer(vector, "count"));
    const auto index = static_cast<std::uint64_t>(integer(vector, "index"));
    const auto path = inclusion_path(numbered_leaves(count), index);
    REQUIRE(path.ok());
    CHECK(*path == digests(member(vector, "path")));
  }
}

TEST_CASE("every leaf of every small tree is proved, at its own index only") {
  const auto leaves = numbered_leaves(18);
  for (std::uint64_t n = 1; n <= 18; ++n) {
    const Digest root = root_of(first(leaves, n));
    for (std::uint64_t i = 0; i < n; ++i) {
      const auto path = inclusion_path(first(leaves, n), i);
      REQUIRE(path.ok());
      for (std::uint64_t other = 0; other <= n; ++other) {
        CHECK(verify_inclusion(leaves[i], other, n, *path, root) == (other == i));
      }
    }
  }
}

TEST_CASE("any flipped bit, and a path too long or too short, breaks an inclusion proof") {
  const auto leaves = numbered_leaves(13);
  const Digest root = root_of(leaves);
  const auto path = inclusion_path(leaves, 9);
  REQUIRE(path.ok());
  for (std::size_t bit = 0; bit < 256; bit += 37) {
    CHECK_FALSE(verify_inclusion(flipped(leaves[9], bit), 9, 13, *path, root));
    CHECK_FALSE(verify_inclusion(leaves[9], 9, 13, *path, flipped(root, bit)));
    for (std::size_t k = 0; k < path->size(); ++k) {
      Path bad = *path;
      bad[k] = flipped(bad[k], bit);
      CHECK_FALSE(verify_inclusion(leaves[9], 9, 13, bad, root));
    }
  }
  Path longer = *path;
  longer.push_back(root);
  CHECK(root_from_path(leaves[9], 9, 13, longer).error().message == "path of 5 digests is too long");
  const Path shorter(path->begin(), path->end() - 1);
  CHECK(root_from_path(leaves[9], 9, 13, shorter).error().message == "path of 3 digests is too short");
  CHECK(root_from_path(leaves[9], 13, 13, *path).error().code == ErrorCode::kMalformed);
  CHECK(root_from_path(leaves[9], 0, 0, {}).error().code == ErrorCode::kMalformed);
  CHECK(root_from_path(leaves[9], ~0ull - 1, ~0ull, *path).error().code == ErrorCode::kMalformed);
}

TEST_CASE("a node is no leaf: the root of two leaves does not prove itself as one") {
  const auto leaves = numbered_leaves(2);
  Bytes both(leaves[0].bytes.begin(), leaves[0].bytes.end());
  both.insert(both.end(), leaves[1].bytes.begin(), leaves[1].bytes.end());
  CHECK(leaf_hash(both) != node_hash(leaves[0], leaves[1]));
}

TEST_CASE("a leaf that is not there has no path") {
  CHECK(inclusion_path({}, 0).error().code == ErrorCode::kUsage);
  CHECK(inclusion_path(numbered_leaves(3), 3).error().code == ErrorCode::kUsage);
  CHECK(consistency_path(numbered_leaves(3), 4).error().code == ErrorCode::kUsage);
}

TEST_CASE("consistency paths are those of the recursive definition") {
  for (const json::Value& vector : *member(vectors(), "consistency").as_array()) {
    const auto leaves = numbered_leaves(static_cast<std::uint64_t>(integer(vector, "new")));
    const auto path = consistency_path(leaves, static_cast<std::uint64_t>(integer(vector, "old")));
    REQUIRE(path.ok());
    CHECK(*path == digests(member(vector, "path")));
  }
}

TEST_CASE("every prefix of every small tree is proved, and no other tree") {
  const auto leaves = numbered_leaves(18);
  for (std::uint64_t n = 0; n <= 18; ++n) {
    const Digest new_root = root_of(first(leaves, n));
    for (std::uint64_t m = 0; m <= n; ++m) {
      const Digest old_root = root_of(first(leaves, m));
      const auto path = consistency_path(first(leaves, n), m);
      REQUIRE(path.ok());
      CHECK(test::verify_consistency(m, old_root, n, new_root, *path));
      CHECK_FALSE(test::verify_consistency(m, flipped(old_root, 3), n, new_root, *path));
      if (m > 0) CHECK_FALSE(test::verify_consistency(m, old_root, n, flipped(new_root, 3), *path));
      CHECK_FALSE(test::verify_consistency(m + 1, old_root, n, new_root, *path));
    }
  }
}

TEST_CASE("any flipped digest, and a path too long or too short, breaks a consistency proof") {
  const auto leaves = numbered_leaves(33);
  const Digest new_root = root_of(leaves);
  for (const std::uint64_t m : {1u, 7u, 8u, 16u, 21u, 32u}) {
    const Digest old_root = root_of(first(leaves, m));
    const auto path = consistency_path(leaves, m);
    REQUIRE(path.ok());
    for (std::size_t k = 0; k < path->size(); ++k) {
      Path bad = *path;
      bad[k] = flipped(bad[k], 100);
      CHECK_FALSE(test::verify_consistency(m, old_root, 33, new_root, bad));
    }
    Path longer = *path;
    longer.push_back(new_root);
    CHECK_FALSE(test::verify_consistency(m, old_root, 33, new_root, longer));
    CHECK_FALSE(
        test::verify_consistency(m, old_root, 33, new_root, std::span(*path).first(path->size() - 1)));
    CHECK_FALSE(test::verify_consistency(m, old_root, 33, new_root, {}));
  }
  CHECK_FALSE(test::verify_consistency(34, new_root, 33, new_root, {}));
  CHECK_FALSE(test::verify_consistency(33, new_root, 33, new_root, std::vector{new_root}));
  CHECK_FALSE(test::verify_consistency(0, empty_root(), 33, new_root, std::vector{new_root}));
}

}  // namespace
TEST_CASE("a stored tree has the roots and paths of trees built anew, of all its beginnings") {
  const auto leaves = numbered_leaves(70);
  StoredTree tree;
  CHECK(tree.root() == empty_root());
  for (const Digest& leaf : leaves) tree.add_hash(leaf);
  for (std::uint64_t n = 0; n <= leaves.size(); ++n) {
    const std::span<const Digest> some = first(leaves, n);
    REQUIRE(tree.root(n) == root_of(some));
    for (std::uint64_t i = 0; i < n; ++i) REQUIRE(*tree.inclusion_path(i, n) == *inclusion_path(some, i));
    for (std::uint64_t m = 0; m <= n; ++m)
      REQUIRE(*tree.consistency_path(m, n) == *consistency_path(some, m));
  }
  CHECK_FALSE(tree.inclusion_path(70, 70).ok());
  CHECK_FALSE(tree.inclusion_path(0, 71).ok());
  CHECK_FALSE(tree.consistency_path(3, 2).ok());
  CHECK_FALSE(tree.consistency_path(3, 71).ok());
  tree.shrink(33);
  CHECK(tree.size() == 33);
  CHECK(tree.root() == root_of(first(leaves, 33)));
  tree.add_hash(leaves[33]);
  CHECK(tree.root() == root_of(first(leaves, 34)));
}

}  // namespace dgx::merkle
