#pragma once

#include <cstdint>
#include <vector>

#include "dgx/core/bytes.h"
#include "dgx/core/json.h"
#include "json_vectors.h"

namespace dgx::merkle {

using test::integer;
using test::member;

/// tests/vectors/merkle.json, derived by tests/vectors/merkle.py with hashlib.
const json::Value& vectors();
Digest digest(const json::Value& value);
std::vector<Digest> digests(const json::Value& array);

/// Leaf hashes of 0, 1, … as u64.
std::vector<Digest> numbered_leaves(std::uint64_t count);
/// Byte i is (7 i + i / 256) mod 256, as in merkle.py.
Bytes pattern(std::size_t size);

}  // namespace dgx::merkle
