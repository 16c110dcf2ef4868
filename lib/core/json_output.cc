#include "dgx/core/json_output.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <utility>

#include "dgx/core/text.h"

namespace dgx::json {
namespace {

constexpr std::int64_t kMaxInteger = std::int64_t{1} << 53;

std::string_view word_of(double value) { return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf"; }

std::string text_of(double value) {
  if (!std::isfinite(value)) return "null";
  std::string text = fmt::format("{}", value);
  // Python reads -0 as an integer, without its sign.
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string quoted(const std::string& text) { return Value(text).dump(); }

}  // namespace

Value integer_in_output(std::int64_t value) {
  if (value < -kMaxInteger || value > kMaxInteger) return std::to_string(value);
  return value;
}

Output::Output(std::int64_t value) : Output(integer_in_output(value)) {}

Output::Output(const Value& value) {
  if (const bool* const yes = value.as_bool()) {
    data_ = *yes;
  } else if (const std::int64_t* const number = value.as_int()) {
    data_ = *number;
  } else if (const std::string* const text = value.as_string()) {
    data_ = *text;
  } else if (const json::Array* const array = value.as_array()) {
    data_ = Array(array->begin(), array->end());
  } else {
    data_ = Object(value.as_object()->begin(), value.as_object()->end());
  }
}

Output Output::of_hex(std::string text) {
  Output out;
  if (const auto number = number_of_hex(text)) {
    out.data_ = Hex{std::move(text), *number};
  } else if (text == "inf" || text == "-inf") {
    out.data_ = std::copysign(std::numeric_limits<double>::infinity(), text == "inf" ? 1.0 : -1.0);
  } else if (text == "nan") {
    out.data_ = std::numeric_limits<double>::quiet_NaN();
  } else {
    out.data_ = std::move(text);
  }
  return out;
}

std::optional<std::string> Output::hex() const {
  if (const Hex* const hex = std::get_if<Hex>(&data_)) return hex->text;
  const double* const number = as_float();
  if (number != nullptr && !std::isfinite(*number)) return std::string(word_of(*number));
  return std::nullopt;
}

std::string Output::dump() const {
  if (is_null()) return "null";
  if (const bool* const yes = as_bool()) return *yes ? "true" : "false";
  if (const std::int64_t* const number = as_int()) return std::to_string(*number);
  if (const double* const number = as_float()) return text_of(*number);
  if (const std::string* const text = as_string()) return quoted(*text);
  if (const Hex* const hex = std::get_if<Hex>(&data_)) {
    if (const double* const number = std::get_if<double>(&hex->number)) return text_of(*number);
    return Output(std::get<std::int64_t>(hex->number)).dump();
  }
  if (const Array* const array = as_array()) {
    std::string out = "[";
    for (const char* separator = ""; const Output& item : *array)
      out += std::exchange(separator, ",") + item.dump();
    return out + "]";
  }
  std::map<std::string, std::string> members;
  for (const auto& [name, item] : *as_object()) {
    members.insert_or_assign(name, item.dump());
    if (const auto hex = item.hex()) members.insert_or_assign(name + "_hex", quoted(*hex));
  }
  std::string out = "{";
  for (const char* separator = ""; const auto& [name, text] : members)
    out += fmt::format("{}{}:{}", std::exchange(separator, ","), quoted(name), text);
  return out + "}";
}

}  // namespace dgx::json
