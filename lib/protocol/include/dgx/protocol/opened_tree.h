#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "dgx/core/bytes.h"
#include "dgx/core/checked.h"

namespace dgx::protocol {

/// A node of a Merkle tree as a dispute descends it: an aligned range of leaves, opened up to 256 children at
/// a time (dgx-dispute(7), "Trees").
struct Node {
  std::uint64_t first = 0;
  std::uint64_t count = 0;

  [[nodiscard]] bool is_leaf() const { return count == 1; }
  /// Leaves of each child: 2^m, m the largest multiple of 8 with 2^m < count; 1 for a leaf.
  [[nodiscard]] std::uint64_t child_size() const {
    std::uint64_t size = 1;
    while (size << 8 < count && size < std::uint64_t{1} << 48) size <<= 8;
    return size;
  }
  [[nodiscard]] std::uint64_t children() const { return ceil_div(count, child_size()); }
  /// `index` must be below children().
  [[nodiscard]] Node child(std::uint64_t index) const {
    const std::uint64_t at = index * child_size();
    return {first + at, std::min(child_size(), count - at)};
  }
  /// True if the children are leaves.
  [[nodiscard]] bool is_bottom() const { return child_size() == 1; }

  bool operator==(const Node&) const = default;
};

/// The children of a node as the defender listed them: values' digests at the bottom of a value table, else
/// hashes.
struct NodeList {
  Node node;
  std::vector<Digest> children;
};

/// A node that the challenger named, and its hash by the list that it was named in.
struct NamedNode {
  Node node;
  Digest hash;
};

/// A tree as the defender has opened it, never empty: the children of its top, then those of each node that
/// was named in the list before.
struct OpenedTree {
  Digest root;
  std::vector<NodeList> lists;

  [[nodiscard]] const Node& top() const { return lists.front().node; }
  [[nodiscard]] const NodeList& last() const { return lists.back(); }
  /// Child `index` of the last list, which must have it.
  [[nodiscard]] NamedNode child(std::int64_t index) const {
    const auto at = static_cast<std::size_t>(index);
    return {last().node.child(at), last().children[at]};
  }
};

/// The roots of a node's children, from all leaf hashes of the tree.
[[nodiscard]] std::vector<Digest> children_of(std::span<const Digest> leaves, const Node& node);

}  // namespace dgx::protocol
