#pragma once

#include <charconv>
#include <optional>
#include <string>

#include "dgx/cli/out.h"
#include "dgx/core/time_text.h"

namespace dgx::tools {

/// The cells of dgx-settle's tables.

/// A time in Unix milliseconds; as text in UTC.
[[nodiscard]] inline cli::Cell time_cell(std::int64_t milliseconds) {
  return {json::Output(milliseconds), utc_text(milliseconds)};
}

/// A place of a table without a value.
[[nodiscard]] inline cli::Cell no_cell() { return {json::Output(), "-"}; }

[[nodiscard]] inline cli::Cell id_cell(const std::optional<Digest>& id) {
  return id ? cli::Cell(*id) : no_cell();
}

/// A number of the closed forms, which may be above 2^64, or what is said instead of one.
[[nodiscard]] inline cli::Cell bound_cell(const std::string& text) {
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  if (text.empty()) return {json::Output(), ""};
  return {error == std::errc() && stopped == end ? json::Output(number) : json::Output(text), text};
}

}  // namespace dgx::tools
