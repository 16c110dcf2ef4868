#pragma once

#include <cstdint>
#include <span>

#include "dgx/core/bytes.h"

namespace dgx::merkle {

/// True if `path` proves that the tree (old_count, old_root) is a prefix of (new_count, new_root): RFC 9162
/// section 2.1.4.2. An empty old tree is a prefix of every tree, and every tree of itself, with an empty
/// path.
[[nodiscard]] bool verify_consistency(std::uint64_t old_count, const Digest& old_root,
                                      std::uint64_t new_count, const Digest& new_root,
                                      std::span<const Digest> path);

}  // namespace dgx::merkle
