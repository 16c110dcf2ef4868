#include "dgx/merkle/tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cassert>

#include "dgx/crypto/sha256.h"

namespace dgx::merkle {
namespace {

constexpr std::array<std::uint8_t, 1> kLeafPrefix = {0x00};
constexpr std::array<std::uint8_t, 1> kNodePrefix = {0x01};

/// The bytes of digests, one after another.
ByteView bytes_of(std::span<const Digest> digests) {
  static_assert(sizeof(Digest) == 32);
  return {reinterpret_cast<const std::uint8_t*>(digests.data()), digests.size_bytes()};
}

/// The size of the left subtree: the largest power of two below `count`, which is at least 2.
std::uint64_t split_of(std::uint64_t count) { return std::bit_floor(count - 1); }

/// Leaves [begin, end), part of a tree.
struct Range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  [[nodiscard]] std::uint64_t count() const { return end - begin; }
  [[nodiscard]] Range left() const { return {begin, begin + split_of(count())}; }
  [[nodiscard]] Range right() const { return {begin + split_of(count()), end}; }
};

/// The path of leaf `index` among the leaves of `range`. `root_of` gives the root over any range.
template <class RootOf>
Path path_to(std::uint64_t index, Range range, const RootOf& root_of) {
  Path path;
  while (range.count() > 1) {
    const bool right = index >= range.right().begin;
    path.push_back(root_of(right ? range.left() : range.right()));
    range = right ? range.right() : range.left();
  }
  std::reverse(path.begin(), path.end());
  return path;
}

/// Says whether the verifier has the root of a subtree, which the proof then leaves out.
enum class Known { kNo, kYes };
/// SUBPROOF of RFC 6962 section 2.1.2: shows that the leaves up to `old_end` are a beginning of `range`.
/// `known` says whether the verifier already has the root of `range`.
template <class RootOf>
void subproof(Range range, std::uint64_t old_end, Known known, const RootOf& root_of, Path& path) {
  if (old_end == range.end) {
    if (known == Known::kNo) path.push_back(root_of(range));
    return;
  }
  if (old_end <= range.left().end) {
    subproof(range.left(), old_end, known, root_of, path);
    path.push_back(root_of(range.right()));
  } else {
    subproof(range.right(), old_end, Known::kNo, root_of, path);
    path.push_back(root_of(range.left()));
  }
}

/// The roots over ranges of these leaves, each computed when it is asked for.
auto roots_over(std::span<const Digest> leaves) {
  return [leaves](Range range) { return root_of(leaves.subspan(range.begin, range.count())); };
}

}  // namespace

Digest leaf_hash(ByteView data) { return crypto::sha256(kLeafPrefix, data); }

Digest leaf_hash(ByteView first, ByteView second) {
  return crypto::Sha256().update(kLeafPrefix).update(first).update(second).finish();
}

void hash_leaves(ByteView data, std::span<Digest> out) { crypto::sha256_each(kLeafPrefix[0], data, out); }

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
  if (leaves.empty()) return empty_root();
  // Level by level, in place: a level's last node, if it has no sibling, is one of the level above.
  std::vector<Digest> level(leaves.begin(), leaves.end());
  while (level.size() > 1) {
    const std::size_t pairs = level.size() / 2;
    const Digest last = level.back();
    const std::span all(level);
    crypto::sha256_each(kNodePrefix[0], bytes_of(all.first(2 * pairs)), all.first(pairs));
    if (level.size() % 2 != 0) level[pairs] = last;
    level.resize(level.size() - pairs);
  }
  return level.front();
}

Result<Path> inclusion_path(std::span<const Digest> leaves, std::uint64_t index) {
  if (index >= leaves.size())
    return usage_error(fmt::format("leaf {} of a tree of {}", index, leaves.size()));
  return path_to(index, {0, leaves.size()}, roots_over(leaves));
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
  if (old_count > 0) subproof({0, leaves.size()}, old_count, Known::kYes, roots_over(leaves), path);
  return path;
}

void StoredTree::add_hash(const Digest& leaf) {
  Digest root = leaf;
  for (std::size_t level = 0;; ++level) {
    if (level == levels_.size()) levels_.emplace_back();
    std::vector<Digest>& roots = levels_[level];
    roots.push_back(root);
    if (roots.size() % 2 != 0) return;
    root = node_hash(roots[roots.size() - 2], roots.back());
  }
}

void StoredTree::shrink(std::uint64_t count) {
  assert(count <= size());
  for (std::size_t level = 0; level < levels_.size(); ++level) levels_[level].resize(count >> level);
}

Digest StoredTree::root_between(std::uint64_t begin, std::uint64_t end) const {
  const Range range{begin, end};
  if (std::has_single_bit(range.count()))
    return levels_[static_cast<std::size_t>(std::countr_zero(range.count()))][begin / range.count()];
  return node_hash(root_between(begin, range.left().end), root_between(range.right().begin, end));
}

Digest StoredTree::root(std::uint64_t count) const {
  assert(count <= size());
  return count == 0 ? empty_root() : root_between(0, count);
}

Status StoredTree::check_count(std::uint64_t count) const {
  if (count <= size()) return {};
  return usage_error(fmt::format("a tree of {} leaves: there are {}", count, size()));
}

Result<Path> StoredTree::inclusion_path(std::uint64_t index, std::uint64_t count) const {
  DGX_CHECK(check_count(count));
  if (index >= count) return usage_error(fmt::format("leaf {} of a tree of {}", index, count));
  return path_to(index, {0, count}, [this](Range range) { return root_between(range.begin, range.end); });
}

Result<Path> StoredTree::consistency_path(std::uint64_t old_count, std::uint64_t count) const {
  DGX_CHECK(check_count(count));
  if (old_count > count) return usage_error(fmt::format("{} leaves of a tree of {}", old_count, count));
  Path path;
  const auto roots = [this](Range range) { return root_between(range.begin, range.end); };
  if (old_count > 0) subproof({0, count}, old_count, Known::kYes, roots, path);
  return path;
}

}  // namespace dgx::merkle
