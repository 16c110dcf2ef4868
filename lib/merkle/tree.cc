#include "dgx/merkle/tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "dgx/crypto/sha256.h"

namespace dgx::merkle {
namespace {

constexpr std::array<std::uint8_t, 1> kLeafPrefix = {0x00};
constexpr std::array<std::uint8_t, 1> kNodePrefix = {0x01};

/// The size of the left subtree: the largest power of two below `count`, which is at least 2.
std::uint64_t split_of(std::uint64_t count) { return std::bit_floor(count - 1); }

/// Says whether the verifier has the root of a subtree, which the proof then leaves out.
enum class Known { kNo, kYes };
/// SUBPROOF of RFC 6962 section 2.1.2. `known` says whether the verifier already has the root of `leaves`.
void subproof(std::span<const Digest> leaves, std::uint64_t old_count, Known known, Path& path) {
  if (old_count == leaves.size()) {
    if (known == Known::kNo) path.push_back(root_of(leaves));
    return;
  }
  const std::uint64_t split = split_of(leaves.size());
  if (old_count <= split) {
    subproof(leaves.first(split), old_count, known, path);
    path.push_back(root_of(leaves.subspan(split)));
  } else {
    subproof(leaves.subspan(split), old_count - split, Known::kNo, path);
    path.push_back(root_of(leaves.first(split)));
  }
}

}  // namespace

Digest leaf_hash(ByteView data) { return crypto::sha256(kLeafPrefix, data); }

Digest leaf_hash(ByteView first, ByteView second) {
  return crypto::Sha256().update(kLeafPrefix).update(first).update(second).finish();
}

Digest node_hash(const Digest& left, const Digest& right) {
  return crypto::Sha256().update(kNodePrefix).update(left).update(right).finish();
}

Digest empty_root() { return crypto::sha256({}); }

void TreeBuilder::add_hash(const Digest& leaf) {
  Digest peak = leaf;
  for (std::uint64_t rest = size_; (rest & 1) != 0; rest >>= 1) {
    peak = node_hash(peaks_.back(), peak);
    peaks_.pop_back();
  }
  peaks_.push_back(peak);
  ++size_;
}

Digest TreeBuilder::root() const {
  if (peaks_.empty()) return empty_root();
  Digest root = peaks_.back();
  for (std::size_t i = peaks_.size() - 1; i-- > 0;) root = node_hash(peaks_[i], root);
  return root;
}

Digest root_of(std::span<const Digest> leaves) {
  TreeBuilder builder;
  for (const Digest& leaf : leaves) builder.add_hash(leaf);
  return builder.root();
}

Result<Path> inclusion_path(std::span<const Digest> leaves, std::uint64_t index) {
  if (index >= leaves.size())
    return usage_error(fmt::format("leaf {} of a tree of {}", index, leaves.size()));
  Path path;
  while (leaves.size() > 1) {
    const std::uint64_t split = split_of(leaves.size());
    const bool right = index >= split;
    path.push_back(root_of(right ? leaves.first(split) : leaves.subspan(split)));
    leaves = right ? leaves.subspan(split) : leaves.first(split);
    if (right) index -= split;
  }
  std::reverse(path.begin(), path.end());
  return path;
}

// The algorithm of RFC 9162 section 2.1.3.2.
Result<Digest> root_from_path(const Digest& leaf, std::uint64_t index, std::uint64_t count,
                              std::span<const Digest> path) {
  if (index >= count) return malformed(fmt::format("leaf {} of a tree of {}", index, count));
  std::uint64_t node = index;
  std::uint64_t last = count - 1;
  Digest root = leaf;
  for (const Digest& sibling : path) {
    if (last == 0) return malformed(fmt::format("path of {} digests is too long", path.size()));
    if ((node & 1) != 0 || node == last) {
      root = node_hash(sibling, root);
      while ((node & 1) == 0 && node != 0) {
        node >>= 1;
        last >>= 1;
      }
    } else {
      root = node_hash(root, sibling);
    }
    node >>= 1;
    last >>= 1;
  }
  if (last != 0) return malformed(fmt::format("path of {} digests is too short", path.size()));
  return root;
}

bool verify_inclusion(const Digest& leaf, std::uint64_t index, std::uint64_t count,
                      std::span<const Digest> path, const Digest& root) {
  const auto reached = root_from_path(leaf, index, count, path);
  return reached.ok() && *reached == root;
}

Result<Path> consistency_path(std::span<const Digest> leaves, std::uint64_t old_count) {
  if (old_count > leaves.size())
    return usage_error(fmt::format("{} leaves of a tree of {}", old_count, leaves.size()));
  Path path;
  if (old_count > 0) subproof(leaves, old_count, Known::kYes, path);
  return path;
}

}  // namespace dgx::merkle
