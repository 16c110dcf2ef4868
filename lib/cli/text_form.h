#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "dgx/cli/out.h"
#include "dgx/core/json.h"

namespace dgx::cli {

/// The treatment of newlines by printable().
enum class Newlines { kEscape, kKeep };
/// `text` with control characters as \xNN, since text from someone else's file must not control the terminal.
[[nodiscard]] std::string printable(std::string_view text, Newlines newlines = Newlines::kEscape);

/// 1234567 as "1,234,567".
[[nodiscard]] std::string grouped(std::int64_t number);

/// scalar_text(): a scalar on one line, of a text beyond 1,024 bytes only the beginning (in tables, too).
/// block_text(): arrays and objects as indented lines, each ending in a newline.
[[nodiscard]] std::string scalar_text(const json::Value& value);
[[nodiscard]] std::string block_text(const json::Value& value, int indent);
/// Header and rows in aligned columns, numbers to the right, each line ending in a newline.
[[nodiscard]] std::string table_text(const Table& table, int indent);

}  // namespace dgx::cli
