#include "dgx/core/json.h"

#include <fmt/format.h>

#include <utility>

namespace dgx::json {
namespace {

/// Appends a string as in RFC 8785 section 3.2.2.2: the two-character escapes, \u00xx for other controls,
/// everything else as it is.
void append_string(std::string& out, std::string_view text) {
  const auto is_plain = [](char c) { return static_cast<unsigned char>(c) >= 0x20 && c != '"' && c != '\\'; };
  out += '"';
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::size_t begin = i;
    while (i < text.size() && is_plain(text[i])) ++i;
    out += text.substr(begin, i - begin);
    if (i == text.size()) break;
    switch (const char c = text[i]) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\b': out += "\\b"; break;
      case '\f': out += "\\f"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      default: out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    }
  }
  out += '"';
}

void append(std::string& out, const Value& value) {
  if (const auto* b = value.as_bool()) {
    out += *b ? "true" : "false";
  } else if (const auto* i = value.as_int()) {
    out += std::to_string(*i);
  } else if (const auto* s = value.as_string()) {
    append_string(out, *s);
  } else if (const auto* a = value.as_array()) {
    out += '[';
    for (const char* separator = ""; const Value& item : *a) {
      out += std::exchange(separator, ",");
      append(out, item);
    }
    out += ']';
  } else {
    out += '{';
    for (const char* separator = ""; const auto& [key, member] : *value.as_object()) {
      out += std::exchange(separator, ",");
      append_string(out, key);
      out += ':';
      append(out, member);
    }
    out += '}';
  }
}

}  // namespace

std::string_view Value::type_name() const {
  if (as_bool() != nullptr) return "bool";
  if (as_int() != nullptr) return "integer";
  if (as_string() != nullptr) return "string";
  return as_array() != nullptr ? "array" : "object";
}

std::string Value::dump() const {
  std::string out;
  append(out, *this);
  return out;
}

}  // namespace dgx::json
