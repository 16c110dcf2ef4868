#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "dgx/core/result.h"

namespace dgx::json {

class Value;
using Array = std::vector<Value>;
using Object = std::map<std::string, Value, std::less<>>;

/// A JSON value as dgx writes it: object, array, string, bool, or an integer of at most 2^53 in magnitude. No
/// floats (they travel as hex strings) and no null, so that dump() is canonical (RFC 8785) by construction.
class Value {
 public:
  Value() : data_(Object{}) {}
  Value(bool value) : data_(value) {}                            // NOLINT: implicit by design, as below
  Value(std::int64_t value) : data_(value) {}                    // NOLINT
  Value(int value) : data_(static_cast<std::int64_t>(value)) {}  // NOLINT
  Value(std::string value) : data_(std::move(value)) {}          // NOLINT
  Value(std::string_view value) : data_(std::string(value)) {}   // NOLINT
  Value(const char* value) : data_(std::string(value)) {}        // NOLINT
  Value(Array value) : data_(std::move(value)) {}                // NOLINT
  Value(Object value) : data_(std::move(value)) {}               // NOLINT

  [[nodiscard]] const bool* as_bool() const { return std::get_if<bool>(&data_); }
  [[nodiscard]] const std::int64_t* as_int() const { return std::get_if<std::int64_t>(&data_); }
  [[nodiscard]] const std::string* as_string() const { return std::get_if<std::string>(&data_); }
  [[nodiscard]] const Array* as_array() const { return std::get_if<Array>(&data_); }
  [[nodiscard]] const Object* as_object() const { return std::get_if<Object>(&data_); }
  [[nodiscard]] Array* as_array() { return std::get_if<Array>(&data_); }
  [[nodiscard]] Object* as_object() { return std::get_if<Object>(&data_); }

  /// "object", "array", "string", "bool" or "integer": for messages.
  [[nodiscard]] std::string_view type_name() const;
  /// Canonical bytes: sorted keys, no spaces, no newline.
  [[nodiscard]] std::string dump() const;

  bool operator==(const Value&) const = default;

 private:
  std::variant<bool, std::int64_t, std::string, Array, Object> data_;
};

struct Limits {
  std::size_t bytes = 1 << 20;
  int depth = 32;
};

/// Parses exactly one value. kMalformed, with the byte position, for: more than `limits`, duplicate keys,
/// floats, null, integers beyond 2^53, keys that are not printable ASCII, invalid UTF-8, trailing bytes.
[[nodiscard]] Result<Value> parse(std::string_view text, Limits limits = {});

/// parse(), and the text must also be its own canonical form: else kMalformed, with the first differing
/// position.
[[nodiscard]] Result<Value> parse_canonical(std::string_view text, Limits limits = {});

/// Reads the fields of an object one by one, and at the end refuses those that were not read. The first error
/// sticks, so a reader asks for every field and checks once:
///
///     Fields in(value, "predicate");
///     out.steps = in.integer("steps", 1, kMaxSteps);
///     out.program = in.digest... (see manifest)
///     DGX_CHECK(in.finish());
class Fields {
 public:
  /// `where` names the object in messages. If `value` is not an object, finish() returns an error.
  Fields(const Value& value, std::string where);

  [[nodiscard]] std::int64_t integer(std::string_view key, std::int64_t low, std::int64_t high);
  [[nodiscard]] std::string string(std::string_view key, std::size_t max_bytes = 4096);
  [[nodiscard]] bool boolean(std::string_view key);
  /// Any value; an empty object after an error.
  [[nodiscard]] const Value& value(std::string_view key);
  [[nodiscard]] const Array& array(std::string_view key, std::size_t max_items);
  /// True if the object has the field. Does not count as reading it.
  [[nodiscard]] bool has(std::string_view key) const;
  /// Records an error unless there is one already; `where` and `key` are put before the message.
  void fail(std::string_view key, std::string message);
  /// kMalformed for a field that was never asked for, with a hint at those that were; nullopt if there is
  /// none.
  [[nodiscard]] std::optional<Error> unknown() const;
  /// The first error, else that of unknown() without the hint, which is for people who type fields.
  [[nodiscard]] Status finish() const;

 private:
  const Value* take(std::string_view key);

  const Object* object_ = nullptr;
  std::string where_;
  std::vector<std::string> asked_;
  std::optional<Error> error_;
};

}  // namespace dgx::json
