#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <string_view>

#include "dgx/core/files.h"
#include "dgx/core/json.h"

namespace dgx::test {

/// The known answers in a file of tests/vectors.
inline json::Value read_vectors(const std::string& path) {
  const auto text = read_file(path, 1 << 20);
  REQUIRE(text.ok());
  auto parsed = json::parse(*text);
  REQUIRE(parsed.ok());
  return *std::move(parsed);
}

/// A member that the object must have.
inline const json::Value& member(const json::Value& object, std::string_view key) {
  REQUIRE(object.as_object() != nullptr);
  const auto found = object.as_object()->find(key);
  REQUIRE(found != object.as_object()->end());
  return found->second;
}

inline std::int64_t integer(const json::Value& object, std::string_view key) {
  REQUIRE(member(object, key).as_int() != nullptr);
  return *member(object, key).as_int();
}

}  // namespace dgx::test
