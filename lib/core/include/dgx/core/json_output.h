#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "dgx/core/json.h"

namespace dgx::json {

/// An integer as programs print it with --json: beyond 2^53 as a decimal string.
[[nodiscard]] Value integer_in_output(std::int64_t value);

/// A value of what a program prints with --json (dgx(7), JSON). Nothing that is signed or hashed is made of
/// it: that is Value, which has no floats. An Output has, besides all that Value has, floats, numbers that
/// are given in hex, and null.
///
/// A float is printed as the shortest decimal that reads back as the same binary64, with a point or an
/// exponent (0.25, 1.0, -0.0, 1e-07), and is null if it is not finite; an integer beyond 2^53 as a string.
/// The member NAME of an object has a second one beside it, NAME_hex, if it is given in hex, or is not
/// finite: then that is "nan", "inf" or "-inf".
class Output {
 public:
  using Array = std::vector<Output>;
  using Object = std::map<std::string, Output, std::less<>>;

  Output() = default;                                             ///< null
  Output(bool value) : data_(value) {}                            // NOLINT: implicit by design, as below
  Output(std::int64_t value);                                     // NOLINT
  Output(int value) : data_(static_cast<std::int64_t>(value)) {}  // NOLINT
  Output(double value) : data_(value) {}                          // NOLINT
  Output(std::string value) : data_(std::move(value)) {}          // NOLINT
  Output(std::string_view value) : data_(std::string(value)) {}   // NOLINT
  Output(const char* value) : data_(std::string(value)) {}        // NOLINT
  Output(Array value) : data_(std::move(value)) {}                // NOLINT
  Output(Object value) : data_(std::move(value)) {}               // NOLINT
  Output(const Value& value);                                     // NOLINT
  Output(const json::Array& value) : Output(Value(value)) {}      // NOLINT
  Output(const json::Object& value) : Output(Value(value)) {}     // NOLINT

  /// The number that `text` is in hex, as number_of_hex() reads it, or "inf", "-inf", "nan"; else the text.
  [[nodiscard]] static Output of_hex(std::string text);

  [[nodiscard]] bool is_null() const { return std::holds_alternative<std::monostate>(data_); }
  [[nodiscard]] const bool* as_bool() const { return std::get_if<bool>(&data_); }
  [[nodiscard]] const std::int64_t* as_int() const { return std::get_if<std::int64_t>(&data_); }
  [[nodiscard]] const double* as_float() const { return std::get_if<double>(&data_); }
  [[nodiscard]] const std::string* as_string() const { return std::get_if<std::string>(&data_); }
  [[nodiscard]] const Array* as_array() const { return std::get_if<Array>(&data_); }
  [[nodiscard]] const Object* as_object() const { return std::get_if<Object>(&data_); }
  [[nodiscard]] Object* as_object() { return std::get_if<Object>(&data_); }
  /// The hex of a number that is given in it, or the word for a float that is not finite.
  [[nodiscard]] std::optional<std::string> hex() const;

  /// One line: sorted keys, no spaces, no newline. What came from a Value has the same bytes as there.
  [[nodiscard]] std::string dump() const;

  bool operator==(const Output&) const = default;

 private:
  struct Hex {
    std::string text;
    std::variant<std::int64_t, double> number;
    bool operator==(const Hex&) const = default;
  };
  std::variant<std::monostate, bool, std::int64_t, double, Hex, std::string, Array, Object> data_;
};

}  // namespace dgx::json
