#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dgx/core/bytes.h"
#include "dgx/core/json.h"

namespace dgx::manifest {

/// The greatest integer that JSON holds exactly.
inline constexpr std::int64_t kMaxInteger = std::int64_t{1} << 53;

/// Readers of field types that JSON does not have. Like those of json::Fields they return a harmless value
/// after an error.

[[nodiscard]] Digest read_digest(json::Fields& in, std::string_view key);
/// nullopt if the field is absent.
[[nodiscard]] std::optional<Digest> read_optional_digest(json::Fields& in, std::string_view key);
/// A 64-bit number as a decimal string without leading zeros.
[[nodiscard]] std::uint64_t read_u64(json::Fields& in, std::string_view key);
/// A finite float in the text form of program::hex_float.
[[nodiscard]] float read_float(json::Fields& in, std::string_view key);
[[nodiscard]] double read_double(json::Fields& in, std::string_view key);
/// 1 to `max_bytes` printable ASCII characters.
[[nodiscard]] std::string read_name(json::Fields& in, std::string_view key, std::size_t max_bytes);

/// At most `max_bytes` bytes in base64.
[[nodiscard]] Bytes read_bytes(json::Fields& in, std::string_view key, std::size_t max_bytes);
/// At most `max` digests of 32 bytes each, concatenated, in base64: the form that digests_json() writes.
[[nodiscard]] std::vector<Digest> read_digests(json::Fields& in, std::string_view key, std::size_t max);
[[nodiscard]] json::Value digests_json(std::span<const Digest> digests);

/// Reports `error`, whose message begins with "KEY: ", as the error of `in`'s field KEY.
inline void fail_nested(json::Fields& in, std::string_view key, const Error& error) {
  const std::string prefix = std::string(key) + ": ";
  const bool named = error.message.starts_with(prefix);
  in.fail(key, named ? error.message.substr(prefix.size()) : error.message);
}

/// Takes the object at `key` and reads its fields with `read(json::Fields&)`; all of them must be taken.
template <class Read>
[[nodiscard]] auto read_object(json::Fields& in, std::string_view key, Read read) {
  json::Fields inner(in.value(key), std::string(key));
  auto out = read(inner);
  const Status status = inner.finish();
  if (!status.ok()) fail_nested(in, key, status.error());
  return out;
}

/// Reads an enum value by its name, as name_of() gives it.
template <class Enum, std::size_t N>
[[nodiscard]] Enum read_enum(json::Fields& in, std::string_view key, const std::array<Enum, N>& values) {
  const std::string text = in.string(key, 64);
  for (const Enum value : values) {
    if (name_of(value) == text) return value;
  }
  in.fail(key, "unknown name \"" + text + "\"");
  return values[0];
}

}  // namespace dgx::manifest
