#include "dgx/merkle/consistency.h"

#include <bit>
#include <optional>

#include "dgx/merkle/tree.h"

namespace dgx::merkle {
namespace {

/// Both roots that a consistency path leads to.
struct Roots {
  Digest old_root;
  Digest new_root;
};

/// nullopt if the path's length is wrong. The old tree is neither empty nor the whole.
std::optional<Roots> roots_from(std::uint64_t old_count, const Digest& old_root, std::uint64_t new_count,
                                std::span<const Digest> path) {
  std::uint64_t node = old_count - 1;
  std::uint64_t last = new_count - 1;
  const int shift = std::countr_one(node);
  node >>= shift;
  last >>= shift;
  // A perfect old tree is itself a node of the new one, so the path leaves its root out: the verifier has it.
  const bool perfect = std::has_single_bit(old_count);
  if (!perfect && path.empty()) return std::nullopt;
  const Digest start = perfect ? old_root : path[0];
  Roots roots{start, start};
  for (const Digest& sibling : path.subspan(perfect ? 0 : 1)) {
    if (last == 0) return std::nullopt;
    if ((node & 1) != 0 || node == last) {
      roots = {node_hash(sibling, roots.old_root), node_hash(sibling, roots.new_root)};
      while ((node & 1) == 0 && node != 0) {
        node >>= 1;
        last >>= 1;
      }
    } else {
      roots.new_root = node_hash(roots.new_root, sibling);
    }
    node >>= 1;
    last >>= 1;
  }
  if (last != 0) return std::nullopt;
  return roots;
}

}  // namespace

bool verify_consistency(std::uint64_t old_count, const Digest& old_root, std::uint64_t new_count,
                        const Digest& new_root, std::span<const Digest> path) {
  if (old_count > new_count) return false;
  if (old_count == new_count) return path.empty() && old_root == new_root;
  if (old_count == 0) return path.empty() && old_root == empty_root();
  const auto roots = roots_from(old_count, old_root, new_count, path);
  return roots && roots->old_root == old_root && roots->new_root == new_root;
}

}  // namespace dgx::merkle
