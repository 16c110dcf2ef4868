#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dgx/core/bytes.h"
#include "dgx/core/result.h"

namespace dgx::merkle {

/// RFC 6962 section 2.1 trees: leaf = H(0x00 ‖ data), node = H(0x01 ‖ left ‖ right), a tree of n leaves split
/// at the largest power of two below n. Everything dgx commits to is such a tree (dgx-bundle(5), "Digests").

[[nodiscard]] Digest leaf_hash(ByteView data);
/// The hash of leaf data given in two parts.
[[nodiscard]] Digest leaf_hash(ByteView first, ByteView second);
/// The hashes of leaves of one length, whose data lies one after another. Several at once are faster than
/// leaf_hash() of each (crypto::sha256_each).
void hash_leaves(ByteView data, std::span<Digest> out);
[[nodiscard]] Digest node_hash(const Digest& left, const Digest& right);
/// The root of a tree without leaves: SHA-256 of nothing.
[[nodiscard]] Digest empty_root();

/// Computes the root of leaves added one by one. Keeps one digest per level.
class TreeBuilder {
 public:
  void add(ByteView data) { add_hash(leaf_hash(data)); }
  void add_hash(const Digest& leaf);
  [[nodiscard]] std::uint64_t size() const { return size_; }
  /// The root of the leaves added so far; more may be added.
  [[nodiscard]] Digest root() const;

 private:
  std::uint64_t size_ = 0;
  std::vector<Digest> peaks_;  // roots of the perfect subtrees, one per set bit of size_, largest first
};

/// The root over leaf hashes. Also the root over the roots of equal parts of 2^k leaves (the last may be
/// shorter), so the parts can be hashed in parallel.
[[nodiscard]] Digest root_of(std::span<const Digest> leaves);

/// Sibling digests, from the leaf to the root.
using Path = std::vector<Digest>;

/// The path of leaf `index`; kUsage if there is no such leaf. Cost: hashes the whole tree.
[[nodiscard]] Result<Path> inclusion_path(std::span<const Digest> leaves, std::uint64_t index);

/// The root that `path` leads to from leaf hash `leaf` at `index` of `count`; kMalformed if there is no such
/// leaf or the path has the wrong length. The caller compares it with a trusted root.
[[nodiscard]] Result<Digest> root_from_path(const Digest& leaf, std::uint64_t index, std::uint64_t count,
                                            std::span<const Digest> path);
[[nodiscard]] bool verify_inclusion(const Digest& leaf, std::uint64_t index, std::uint64_t count,
                                    std::span<const Digest> path, const Digest& root);

/// The proof that the tree of the first `old_count` leaves is a prefix of the whole tree (RFC 6962
/// section 2.1.2); empty if `old_count` is 0 or all. kUsage if there are fewer leaves.
[[nodiscard]] Result<Path> consistency_path(std::span<const Digest> leaves, std::uint64_t old_count);

/// A tree that grows by leaves and keeps the roots of all its perfect subtrees, 64 bytes a leaf: the root of
/// any of its beginnings, and any proof, costs a few hashes a level however many leaves there are.
class StoredTree {
 public:
  void add_hash(const Digest& leaf);
  /// Takes back all leaves but the first `count`, of which there must be as many: asserted.
  void shrink(std::uint64_t count);
  [[nodiscard]] std::uint64_t size() const { return levels_.empty() ? 0 : levels_.front().size(); }
  [[nodiscard]] Digest root() const { return root(size()); }
  /// The root over the first `count` leaves, of which there must be as many: asserted.
  [[nodiscard]] Digest root(std::uint64_t count) const;
  /// inclusion_path() and consistency_path() in the tree of the first `count` leaves; kUsage out of range.
  [[nodiscard]] Result<Path> inclusion_path(std::uint64_t index, std::uint64_t count) const;
  [[nodiscard]] Result<Path> consistency_path(std::uint64_t old_count, std::uint64_t count) const;

 private:
  [[nodiscard]] Digest root_between(std::uint64_t begin, std::uint64_t end) const;
  [[nodiscard]] Status check_count(std::uint64_t count) const;

  /// levels_[k][i] is the root over leaves [i 2^k, (i + 1) 2^k).
  std::vector<std::vector<Digest>> levels_;
};

}  // namespace dgx::merkle
