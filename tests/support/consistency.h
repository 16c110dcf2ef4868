#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <span>

#include "dgx/merkle/tree.h"

namespace dgx::test {

/// Both roots that a consistency path leads to, or nullopt if its length is wrong. RFC 9162 section 2.1.4.2.
struct Roots {
  Digest old_root;
  Digest new_root;
};
inline std::optional<Roots> roots_from(std::uint64_t old_count, const Digest& old_root,
                                       std::uint64_t new_count, std::span<const Digest> path) {
  std::uint64_t node = old_count - 1;
  std::uint64_t last = new_count - 1;
  const int shift = std::countr_one(node);
  node >>= shift;
  last >>= shift;
  std::size_t at = 0;
  // A perfect old tree is itself a node of the new one, so the path leaves its root out: the verifier has it.
  if (!std::has_single_bit(old_count)) {
    if (path.empty()) return std::nullopt;
    at = 1;
  }
  const Digest start = at == 0 ? old_root : path[0];
  Roots roots{start, start};
  for (; at < path.size(); ++at) {
    if (last == 0) return std::nullopt;
    if ((node & 1) != 0 || node == last) {
      roots = {merkle::node_hash(path[at], roots.old_root), merkle::node_hash(path[at], roots.new_root)};
      while ((node & 1) == 0 && node != 0) {
        node >>= 1;
        last >>= 1;
      }
    } else {
      roots.new_root = merkle::node_hash(roots.new_root, path[at]);
    }
    node >>= 1;
    last >>= 1;
  }
  if (last != 0) return std::nullopt;
  return roots;
}

/// True if `path` proves that the tree (old_count, old_root) is a prefix of (new_count, new_root). An empty
/// old tree is a prefix of every tree, with an empty path.
[[nodiscard]] inline bool verify_consistency(std::uint64_t old_count, const Digest& old_root,
                                             std::uint64_t new_count, const Digest& new_root,
                                             std::span<const Digest> path) {
  if (old_count > new_count) return false;
  if (old_count == new_count) return path.empty() && old_root == new_root;
  if (old_count == 0) return path.empty() && old_root == merkle::empty_root();
  const auto roots = roots_from(old_count, old_root, new_count, path);
  return roots && roots->old_root == old_root && roots->new_root == new_root;
}

}  // namespace dgx::test
