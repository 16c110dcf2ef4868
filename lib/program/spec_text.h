#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dgx/core/json.h"
#include "dgx/core/result.h"
#include "dgx/core/text.h"
#include "dgx/program/number_text.h"

/// Shared by all specs: fields as people type them, and numbers as a task holds them.
namespace dgx::program {

/// The shortest decimal that reads back to the same number.
inline std::string decimal(double value) {
  char buffer[32];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, value);
  return {buffer, end};
}

template <class T>
Result<T> parse_number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size())
    return usage_error(fmt::format("'{}' is not a number", text));
  if constexpr (std::is_floating_point_v<T>) {
    if (!std::isfinite(value)) return usage_error(fmt::format("'{}' is not finite", text));
  }
  return value;
}

/// Reads `kind:key=value,key,key=value` key by key. An absent field leaves `out` as it is. The first error is
/// kept, and returned by finish(), for which a field that no call took is an error, too.
class SpecReader {
 public:
  explicit SpecReader(std::string_view text) {
    const std::size_t colon = text.find(':');
    kind_ = text.substr(0, colon);
    has_fields_ = colon != std::string_view::npos;
    std::string_view rest = has_fields_ ? text.substr(colon + 1) : "";
    while (has_fields_) {
      const std::size_t comma = rest.find(',');
      fields_.push_back({rest.substr(0, comma), false});
      if (comma == std::string_view::npos) break;
      rest.remove_prefix(comma + 1);
    }
  }

  [[nodiscard]] std::string_view kind() const { return kind_; }

  template <class T>
  void number(std::string_view key, T& out, T low, T high) {
    const auto text = take(key, true);
    if (!text) return;
    auto value = parse_number<T>(*text);
    if (!value) return fail(fmt::format("{}: {}", key, value.error().message));
    if (*value < low || *value > high) return fail(fmt::format("{}: {} is out of range", key, *text));
    out = *value;
  }
  void flag(std::string_view key, bool& out) { out = take(key, false).has_value() || out; }
  [[nodiscard]] std::optional<std::string_view> text(std::string_view key) { return take(key, true); }
  /// The first field, which has no key.
  [[nodiscard]] std::string_view first() {
    if (fields_.empty()) return {};
    fields_[0].second = true;
    return fields_[0].first;
  }
  void fail(std::string message, std::string hint = {}) {
    if (!error_) error_ = usage_error(fmt::format("{}: {}", kind_, message), std::move(hint));
  }
  [[nodiscard]] Status finish() {
    for (const auto& [field, taken] : fields_) {
      if (!taken && !error_) error_ = unknown(field);
    }
    if (error_) return *error_;
    return {};
  }

 private:
  [[nodiscard]] Error unknown(std::string_view field) const {
    const std::string name(field.substr(0, field.find('=')));
    const std::string list = keys_.empty() ? fmt::format("{} takes no fields", kind_)
                                           : fmt::format("{} takes {}", kind_, fmt::join(keys_, ", "));
    const bool has_key = std::find(keys_.begin(), keys_.end(), name) != keys_.end();
    const bool has_value = field.size() > name.size();
    return usage_error(fmt::format("{}: unknown field '{}'", kind_, field),
                       !has_key    ? hint_among(name, keys_, list)
                       : has_value ? fmt::format("{} takes no value", name)
                                   : fmt::format("{} needs a value: {}=…", name, name));
  }

  std::optional<std::string_view> take(std::string_view key, bool has_value) {
    std::optional<std::string_view> found;
    keys_.emplace_back(key);
    for (auto& [field, taken] : fields_) {
      const std::size_t equals = field.find('=');
      if (field.substr(0, equals) != key || (equals != std::string_view::npos) != has_value) continue;
      if (found) fail(fmt::format("a second '{}'", key));
      taken = true;
      found = has_value ? field.substr(equals + 1) : std::string_view{};
    }
    return found;
  }

  std::string_view kind_;
  bool has_fields_ = false;
  std::vector<std::pair<std::string_view, bool>> fields_;
  std::vector<std::string> keys_;  ///< those that were asked for
  std::optional<Error> error_;
};

/// Writes a spec; number() leaves out a field that has its default.
class SpecWriter {
 public:
  explicit SpecWriter(std::string kind) : text_(std::move(kind)) {}
  void field(const std::string& text) { text_ += (std::exchange(first_, false) ? ":" : ",") + text; }
  void number(std::string_view key, double value, std::optional<double> usual) {
    if (value != usual) field(fmt::format("{}={}", key, decimal(value)));
  }
  [[nodiscard]] std::string text() const { return text_; }

 private:
  std::string text_;
  bool first_ = true;
};

/// The largest number in a spec.
inline constexpr double kMostNumber = 1e30;

/// Reads a field that holds a binary64 in hex (number_text.h), which must be from `low` to `high`.
inline double read_double(json::Fields& in, std::string_view key, double low, double high) {
  auto value = parse_hex_double(in.string(key));
  if (!value) {
    in.fail(key, value.error().message);
    return low;
  }
  if (!(*value >= low && *value <= high)) in.fail(key, "is out of range");
  return *value;
}

}  // namespace dgx::program
