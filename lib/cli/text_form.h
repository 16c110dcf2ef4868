#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "dgx/cli/out.h"
#include "dgx/core/json_output.h"
#include "dgx/core/text.h"

namespace dgx::cli {

/// `text` and, if it is a number in hex (core/text.h), its decimal: "0x3f800000 (1)".
[[nodiscard]] std::string with_decimal(std::string_view text);

/// A number and, if its name says that it is in milliseconds, what they come to: "604800000 (7 d)". What is
/// called milliseconds and is longer than any duration of the formats is a time: "1795000000000 (2026-11-18
/// 11:06:40 UTC)".
[[nodiscard]] std::string with_time(std::string_view name, std::int64_t number);

/// scalar_text(): a scalar on one line, of a text beyond 1,024 bytes only the beginning (in tables, too).
/// block_text(): arrays and objects as indented lines, each ending in a newline; an object's members in the
/// order of key_order.h.
[[nodiscard]] std::string scalar_text(const json::Output& value);
[[nodiscard]] std::string block_text(const json::Output& value, int indent);
/// Header and rows in aligned columns, numbers to the right, each line ending in a newline.
[[nodiscard]] std::string table_text(const Table& table, int indent);

}  // namespace dgx::cli
