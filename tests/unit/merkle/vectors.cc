#include "vectors.h"

#include <catch2/catch.hpp>

#include "dgx/merkle/tree.h"

namespace dgx::merkle {

const json::Value& vectors() {
  static const json::Value value = test::read_vectors(DGX_VECTORS "/merkle.json");
  return value;
}

Digest digest(const json::Value& value) {
  REQUIRE(value.as_string() != nullptr);
  const auto digest = digest_from_hex(*value.as_string());
  REQUIRE(digest.ok());
  return *digest;
}

std::vector<Digest> digests(const json::Value& array) {
  REQUIRE(array.as_array() != nullptr);
  std::vector<Digest> out;
  for (const json::Value& item : *array.as_array()) out.push_back(digest(item));
  return out;
}

std::vector<Digest> numbered_leaves(std::uint64_t count) {
  std::vector<Digest> leaves;
  for (std::uint64_t i = 0; i < count; ++i) leaves.push_back(leaf_hash(ByteWriter().u64(i).bytes()));
  return leaves;
}

Bytes pattern(std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::uint8_t>(7 * i + i / 256);
  return bytes;
}

}  // namespace dgx::merkle
