#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace dgx {

/// Texts as people read them.

/// The treatment of newlines by printable().
enum class Newlines { kEscape, kKeep };
/// `text` with all that could hide, move or turn around other text escaped, since text from someone else's
/// file must not control a terminal or mislead a reader: control characters, line separators, marks and
/// overrides of the writing direction, and bytes that are not UTF-8, as \xNN or \u{NNNN}. The result is
/// UTF-8.
[[nodiscard]] std::string printable(std::string_view text, Newlines newlines = Newlines::kEscape);

/// The characters of UTF-8 `text`, each of which is taken for one column of the screen.
[[nodiscard]] std::size_t columns_of(std::string_view text);

/// 1234567 as "1,234,567".
[[nodiscard]] std::string grouped(std::int64_t number);

/// The shortest decimal that reads back as the same binary32 or, for a number that is not one, as the same
/// binary64.
[[nodiscard]] std::string decimal(double number);

/// A number in hex, exactly; nullopt for any other text. It is either bits, as rulings have them ("0x" and 8
/// digits for a binary32, 16 for a two's complement integer, 2 for a byte), or a hex float: "0x1.8p3",
/// "-0x1p-149".
[[nodiscard]] std::optional<std::variant<std::int64_t, double>> number_of_hex(std::string_view text);
/// The same as decimal(), for people.
[[nodiscard]] std::optional<std::string> decimal_of_hex(std::string_view text);

/// The word of `known` that was probably meant by `given`, which is none of them: at most two letters
/// inserted, removed, replaced or swapped, and fewer than all but one of the word's. Empty if there is none.
[[nodiscard]] std::string nearest(std::string_view given, const std::vector<std::string>& known);

/// A hint for a word that is none of a closed list: "did you mean lr?" or, if none is near, `otherwise`,
/// which unless given lists them all.
[[nodiscard]] std::string hint_among(std::string_view given, const std::vector<std::string>& known,
                                     const std::string& otherwise = {});

}  // namespace dgx
