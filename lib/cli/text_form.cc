#include "text_form.h"

#include <fmt/format.h>

#include <algorithm>

#include "dgx/core/text.h"
#include "dgx/core/time_text.h"
#include "key_order.h"

namespace dgx::cli {
namespace {

std::string spaces(std::size_t count) { return std::string(count, ' '); }

bool is_block(const json::Output& value) {
  const json::Output::Array* const array = value.as_array();
  if (array != nullptr) {
    return std::any_of(array->begin(), array->end(), [](const json::Output& item) {
      return item.as_array() != nullptr || item.as_object() != nullptr;
    });
  }
  return value.as_object() != nullptr;
}

/// A text, or of a long one (base64 may have thousands of characters) the beginning and the length in bytes.
std::string shortened(const std::string& text) {
  constexpr std::size_t kMost = 1024;
  constexpr std::size_t kShown = 64;
  if (text.size() <= kMost) return printable(text);
  std::size_t end = kShown;
  // Never half a UTF-8 character.
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return fmt::format("{}... ({} bytes)", printable(std::string_view(text).substr(0, end)),
                     grouped(static_cast<std::int64_t>(text.size())));
}

/// A value that is no block, as its name says: a number of milliseconds with the time that it is, a shape in
/// brackets, the key of a statement's signer as such, since elsewhere signers are named by key ids.
std::string value_text(std::string_view name, const json::Output& value) {
  if (const std::int64_t* const number = value.as_int()) return with_time(name, *number);
  if (name == "signer") return scalar_text(value) + " (public key)";
  const json::Output::Array* const array = value.as_array();
  return array != nullptr && name == "shape" ? shortened(value.dump()) : scalar_text(value);
}

}  // namespace

std::string with_decimal(std::string_view text) {
  const auto decimal = decimal_of_hex(text);
  return decimal ? fmt::format("{} ({})", text, *decimal) : std::string(text);
}

std::string with_time(std::string_view name, std::int64_t number) {
  constexpr std::int64_t kMostDuration = std::int64_t{366} * 86'400'000;
  const std::string text = std::to_string(number);
  if (number < 1000 || !(name.ends_with("_ms") || name.ends_with("milliseconds"))) return text;
  if (number <= kMostDuration) return fmt::format("{} ({})", text, duration_text(number));
  return name == "milliseconds" ? fmt::format("{} ({})", text, utc_text(number)) : text;
}

std::string scalar_text(const json::Output& value) {
  if (const bool* const yes = value.as_bool()) return *yes ? "yes" : "no";
  if (const std::int64_t* const number = value.as_int()) return std::to_string(*number);
  if (const double* const number = value.as_float()) return decimal(*number);
  if (const auto hex = value.hex()) return with_decimal(*hex);
  if (const std::string* const words = value.as_string()) return with_decimal(shortened(*words));
  std::vector<std::string> items;
  if (const json::Output::Array* const array = value.as_array()) {
    for (const json::Output& item : *array) items.push_back(scalar_text(item));
  }
  return items.empty() ? "none" : fmt::format("{}", fmt::join(items, " "));
}

std::string block_text(const json::Output& value, int indent) {
  const std::string margin = spaces(static_cast<std::size_t>(indent));
  if (!is_block(value)) return margin + scalar_text(value) + "\n";
  std::string out;
  if (const json::Output::Array* const array = value.as_array()) {
    for (const json::Output& item : *array) {
      std::string lines = block_text(item, indent + 2);
      lines[static_cast<std::size_t>(indent)] = '-';
      out += lines;
    }
    return out;
  }
  for (const auto* const member : in_told_order(*value.as_object())) {
    const auto& [name, item] = *member;
    out += is_block(item) ? fmt::format("{}{}:\n{}", margin, printable(name), block_text(item, indent + 2))
                          : fmt::format("{}{}: {}\n", margin, printable(name), value_text(name, item));
  }
  return out.empty() ? margin + "none\n" : out;
}

std::string table_text(const Table& table, int indent) {
  std::vector<std::size_t> widths;
  for (const std::string& column : table.columns) widths.push_back(columns_of(column));
  const auto cell_text = [](const Cell& cell) { return shortened(cell.text); };
  for (const auto& row : table.rows) {
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], columns_of(cell_text(row[i])));
  }
  const auto numeric = [&](std::size_t i) {
    return !table.rows.empty() && std::all_of(table.rows.begin(), table.rows.end(), [&](const auto& row) {
      return row[i].value.as_int() != nullptr;
    });
  };
  const auto line = [&](const auto& text_of) {
    std::string out = spaces(static_cast<std::size_t>(indent));
    for (std::size_t i = 0; i < widths.size(); ++i) {
      const std::string text = text_of(i);
      const std::string padding = spaces(widths[i] - columns_of(text));
      out += (i == 0 ? "" : "  ") + (numeric(i) ? padding + text : text + padding);
    }
    out.erase(out.find_last_not_of(' ') + 1);
    return out + "\n";
  };
  std::string out = line([&](std::size_t i) { return table.columns[i]; });
  for (const auto& row : table.rows) out += line([&](std::size_t i) { return cell_text(row[i]); });
  return out;
}

}  // namespace dgx::cli
