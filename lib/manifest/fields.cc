#include "dgx/manifest/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "dgx/program/number_text.h"

namespace dgx::manifest {

Digest read_digest(json::Fields& in, std::string_view key) {
  const auto digest = digest_from_hex(in.string(key, 64));
  if (!digest.ok()) in.fail(key, digest.error().message);
  return digest.ok() ? *digest : Digest{};
}

std::optional<Digest> read_optional_digest(json::Fields& in, std::string_view key) {
  if (!in.has(key)) return std::nullopt;
  return read_digest(in, key);
}

std::uint64_t read_u64(json::Fields& in, std::string_view key) {
  const std::string text = in.string(key, 20);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || fmt::format("{}", value) != text) {
    in.fail(key, fmt::format("\"{}\" is not a 64-bit number in decimal", text));
  }
  return value;
}

double read_double(json::Fields& in, std::string_view key) {
  const auto value = program::parse_hex_double(in.string(key, 32));
  if (!value.ok()) in.fail(key, value.error().message);
  if (value.ok() && !std::isfinite(*value)) in.fail(key, "is not finite");
  return value.ok() ? *value : 0;
}

float read_float(json::Fields& in, std::string_view key) {
  const auto value = program::parse_hex_float(in.string(key, 32));
  if (!value.ok()) in.fail(key, value.error().message);
  if (value.ok() && !std::isfinite(*value)) in.fail(key, "is not finite");
  return value.ok() ? *value : 0;
}

std::string read_name(json::Fields& in, std::string_view key, std::size_t max_bytes) {
  std::string text = in.string(key, max_bytes);
  const auto bad = std::find_if(text.begin(), text.end(), [](char c) { return c < 0x20 || c > 0x7e; });
  if (bad != text.end()) {
    in.fail(key, fmt::format("character {} is not printable ASCII", bad - text.begin()));
  }
  if (text.empty()) in.fail(key, "is empty");
  return text;
}

Bytes read_bytes(json::Fields& in, std::string_view key, std::size_t max_bytes) {
  auto bytes = from_base64(in.string(key, (max_bytes + 2) / 3 * 4));
  if (!bytes.ok()) {
    in.fail(key, bytes.error().message);
    return {};
  }
  if (bytes->size() > max_bytes) {
    in.fail(key, fmt::format("has {} bytes, at most {} allowed", bytes->size(), max_bytes));
    return {};
  }
  return *std::move(bytes);
}

std::vector<Digest> read_digests(json::Fields& in, std::string_view key, std::size_t max) {
  constexpr std::size_t kSize = sizeof(Digest::bytes);
  const Bytes bytes = read_bytes(in, key, max * kSize);
  std::vector<Digest> out(bytes.size() / kSize);
  if (bytes.size() != out.size() * kSize) {
    in.fail(key, fmt::format("has {} bytes, which is not a whole number of digests", bytes.size()));
  }
  for (std::size_t i = 0; i < out.size(); ++i)
    std::copy_n(bytes.data() + i * kSize, kSize, out[i].bytes.begin());
  return out;
}

json::Value digests_json(std::span<const Digest> digests) {
  ByteWriter bytes;
  for (const Digest& digest : digests) bytes.digest(digest);
  return to_base64(bytes.bytes());
}

}  // namespace dgx::manifest
