#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dgx/core/json_document.h"
#include "dgx/core/text.h"

/// Readers of the parts of a json::Document: each checks the type, and its error names the place.
namespace dgx::lowering {

using json::Document;

/// A place inside the text, for messages: "graph: nodes[3]: outputs". Only made when an error is reported, so
/// it is passed down as the chain of its parts.
struct Place {
  const Place* outer = nullptr;
  std::string_view key = {};
  std::size_t index = 0;
  bool is_item = false;

  [[nodiscard]] Place item(std::size_t n) const { return {this, {}, n, true}; }
  [[nodiscard]] Place member(std::string_view name) const { return {this, name, 0, false}; }
  [[nodiscard]] std::string text() const {
    const std::string before = outer ? outer->text() : "";
    if (is_item) return fmt::format("{}[{}]", before, index);
    return before.empty() ? std::string(key) : fmt::format("{}: {}", before, printable(key));
  }
  [[nodiscard]] Error error(std::string_view what) const {
    return malformed(fmt::format("{}: {}", text(), what));
  }
};

inline Error wrong_type(const Place& place, std::string_view wanted, const Document& value) {
  return place.error(fmt::format("expected {}, found {}", wanted, value.type_name()));
}

[[nodiscard]] inline Result<const Document*> member_of(const Document& object, std::string_view key,
                                                       const Place& place) {
  if (!object.as_object()) return wrong_type(place, "an object", object);
  const Document* const found = object.find(key);
  if (!found) return place.error(fmt::format("has no {}", key));
  return found;
}

// One reader a type; each names the place of what does not fit.
inline Status read(const Document& value, const Place& place, bool& out) {
  if (!value.as_bool()) return wrong_type(place, "true or false", value);
  out = *value.as_bool();
  return {};
}
inline Status read(const Document& value, const Place& place, std::int64_t& out) {
  if (!value.as_int()) return wrong_type(place, "an integer", value);
  out = *value.as_int();
  return {};
}
inline Status read(const Document& value, const Place& place, std::string& out) {
  if (!value.as_string()) return wrong_type(place, "a string", value);
  out = *value.as_string();
  return {};
}
/// Floats that JSON cannot hold are strings: "Infinity", "-Infinity", "NaN".
inline Status read(const Document& value, const Place& place, double& out) {
  if (value.as_float() || value.as_int()) {
    out = value.as_float() ? *value.as_float() : static_cast<double>(*value.as_int());
    return {};
  }
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::string* const text = value.as_string();
  if (!text) return wrong_type(place, "a number", value);
  if (*text == "Infinity") return out = kInfinity, Status();
  if (*text == "-Infinity") return out = -kInfinity, Status();
  if (*text == "NaN") return out = std::numeric_limits<double>::quiet_NaN(), Status();
  return place.error(fmt::format("'{}' is no number", printable(*text)));
}

template <class T>
Status read_member(const Document& object, std::string_view key, const Place& place, T& out) {
  DGX_TRY(const Document* const value, member_of(object, key, place));
  return read(*value, place.member(key), out);
}

/// Reads each item of an array by `read_item(item, its place, out)`.
template <class T, class ReadItem>
Status read_list(const Document& value, const Place& place, std::vector<T>& out, const ReadItem& read_item) {
  const Document::Array* const items = value.as_array();
  if (!items) return wrong_type(place, "an array", value);
  out.clear();
  out.reserve(items->size());
  for (std::size_t n = 0; n < items->size(); ++n) {
    T item{};
    DGX_CHECK(read_item((*items)[n], place.item(n), item));
    out.push_back(std::move(item));
  }
  return {};
}
template <class T>
Status read_plain_list(const Document& value, const Place& place, std::vector<T>& out) {
  return read_list(value, place, out,
                   [](const Document& item, const Place& at, T& result) { return read(item, at, result); });
}

/// The one member of a union: {"as_int": 3}.
struct Alternative {
  std::string_view kind;
  const Document* value = nullptr;
};
inline Result<Alternative> alternative_of(const Document& value, const Place& place) {
  const Document::Object* const members = value.as_object();
  if (!members || members->size() != 1) return place.error("is no union of one member");
  return Alternative{members->begin()->first, &members->begin()->second};
}

}  // namespace dgx::lowering
