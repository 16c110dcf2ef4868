#include <fmt/format.h>

#include <algorithm>

#include "dgx/core/json.h"
#include "dgx/core/text.h"

namespace dgx::json {
namespace {

const Value kNothing;
const Array kNoItems;

std::string expected(std::string_view type, const Value& value) {
  const std::string_view name = value.type_name();
  const bool vowel = name.front() == 'a' || name.front() == 'i' || name.front() == 'o';
  return fmt::format("is {} {}, expected {}", vowel ? "an" : "a", name, type);
}

}  // namespace

Fields::Fields(const Value& value, std::string where) : object_(value.as_object()), where_(std::move(where)) {
  if (object_ == nullptr) error_ = within(where_, malformed(expected("an object", value)));
}

const Value* Fields::take(std::string_view key) {
  if (object_ == nullptr) return nullptr;
  asked_.emplace_back(key);
  const auto member = object_->find(key);
  if (member == object_->end()) {
    fail(key, "is missing");
    return nullptr;
  }
  return &member->second;
}

std::int64_t Fields::integer(std::string_view key, std::int64_t low, std::int64_t high) {
  const Value* value = take(key);
  if (value == nullptr) return low;
  const std::int64_t* number = value->as_int();
  if (number == nullptr) {
    fail(key, expected("an integer", *value));
    return low;
  }
  if (*number < low || *number > high) {
    fail(key, fmt::format("is {}, must be {} to {}", *number, low, high));
    return low;
  }
  return *number;
}

std::string Fields::string(std::string_view key, std::size_t max_bytes) {
  const Value* value = take(key);
  if (value == nullptr) return {};
  const std::string* text = value->as_string();
  if (text == nullptr) {
    fail(key, expected("a string", *value));
    return {};
  }
  if (text->size() > max_bytes) {
    fail(key, fmt::format("has {} bytes, at most {} allowed", text->size(), max_bytes));
    return {};
  }
  return *text;
}

bool Fields::boolean(std::string_view key) {
  const Value* value = take(key);
  if (value == nullptr) return false;
  const bool* flag = value->as_bool();
  if (flag == nullptr) fail(key, expected("a bool", *value));
  return flag != nullptr && *flag;
}

const Value& Fields::value(std::string_view key) {
  const Value* value = take(key);
  return value == nullptr || error_ ? kNothing : *value;
}

const Array& Fields::array(std::string_view key, std::size_t max_items) {
  const Value* value = take(key);
  if (value == nullptr) return kNoItems;
  const Array* items = value->as_array();
  if (items == nullptr) {
    fail(key, expected("an array", *value));
    return kNoItems;
  }
  if (items->size() > max_items) {
    fail(key, fmt::format("has {} items, at most {} allowed", items->size(), max_items));
    return kNoItems;
  }
  return *items;
}

bool Fields::has(std::string_view key) const { return object_ != nullptr && object_->contains(key); }

void Fields::fail(std::string_view key, std::string message) {
  if (error_) return;
  error_ = malformed(fmt::format("{}: {}: {}", where_, key, message));
}

std::optional<Error> Fields::unknown() const {
  if (object_ == nullptr) return std::nullopt;
  for (const auto& [key, value] : *object_) {
    if (std::find(asked_.begin(), asked_.end(), key) != asked_.end()) continue;
    return malformed(fmt::format("{}: {}: unknown field", where_, key), hint_among(key, asked_));
  }
  return std::nullopt;
}

Status Fields::finish() const {
  if (error_) return *error_;
  if (const auto error = unknown()) return malformed(error->message);
  return {};
}

}  // namespace dgx::json
