#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "dgx/core/bytes.h"
#include "dgx/core/json.h"

namespace dgx::merkle {

/// tests/vectors/merkle.json, derived by tests/vectors/merkle.py with hashlib.
const json::Value& vectors();
/// A member that the object must have.
const json::Value& member(const json::Value& object, std::string_view key);
std::int64_t integer(const json::Value& object, std::string_view key);
Digest digest(const json::Value& value);
std::vector<Digest> digests(const json::Value& array);

/// Leaf hashes of 0, 1, … as u64.
std::vector<Digest> numbered_leaves(std::uint64_t count);
/// Byte i is (7 i + i / 256) mod 256, as in merkle.py.
Bytes pattern(std::size_t size);

}  // namespace dgx::merkle
