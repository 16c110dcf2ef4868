#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "dgx/core/json.h"
#include "dgx/core/result.h"

namespace dgx::json {

/// A JSON value (RFC 8259) that other programs wrote, read-only. Unlike Value, which is what dgx signs, it
/// has null, numbers of binary64 and any key, and no canonical form.
class Document {
 public:
  using Array = std::vector<Document>;
  using Object = std::map<std::string, Document, std::less<>>;

  /// Null.
  Document() = default;
  Document(bool value) : data_(value) {}                    // NOLINT: implicit by design, as below
  Document(std::int64_t value) : data_(value) {}            // NOLINT
  Document(double value) : data_(value) {}                  // NOLINT
  Document(std::string value) : data_(std::move(value)) {}  // NOLINT
  Document(Array value) : data_(std::move(value)) {}        // NOLINT
  Document(Object value) : data_(std::move(value)) {}       // NOLINT

  [[nodiscard]] bool is_null() const { return std::holds_alternative<std::monostate>(data_); }
  [[nodiscard]] const bool* as_bool() const { return std::get_if<bool>(&data_); }
  /// An integer of 64 bits, as the text has it; a number with a point or an exponent is none.
  [[nodiscard]] const std::int64_t* as_int() const { return std::get_if<std::int64_t>(&data_); }
  /// Any other number, rounded to binary64; finite.
  [[nodiscard]] const double* as_float() const { return std::get_if<double>(&data_); }
  [[nodiscard]] const std::string* as_string() const { return std::get_if<std::string>(&data_); }
  [[nodiscard]] const Array* as_array() const { return std::get_if<Array>(&data_); }
  [[nodiscard]] const Object* as_object() const { return std::get_if<Object>(&data_); }
  [[nodiscard]] Array* as_array() { return std::get_if<Array>(&data_); }
  [[nodiscard]] Object* as_object() { return std::get_if<Object>(&data_); }

  /// The member of an object; nullptr if there is none, or if this is not an object.
  [[nodiscard]] const Document* find(std::string_view key) const;
  /// "null", "bool", "integer", "number", "string", "array" or "object": for messages.
  [[nodiscard]] std::string_view type_name() const;

 private:
  std::variant<std::monostate, bool, std::int64_t, double, std::string, Array, Object> data_;
};

/// Parses exactly one value. kMalformed, with the byte position, for: more than `limits`, duplicate keys,
/// numbers beyond binary64, invalid UTF-8, a byte-order mark, trailing bytes. Needs about 100 bytes of memory
/// a value besides the texts.
[[nodiscard]] Result<Document> parse_document(std::string_view text, Limits limits);

}  // namespace dgx::json
