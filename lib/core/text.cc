#include "dgx/core/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>

#include "dgx/core/utf8.h"

namespace dgx {
namespace {

/// A character of a text: its code point and its length in bytes; length 0 for a byte that is not UTF-8.
struct Character {
  std::uint32_t code = 0;
  std::size_t bytes = 0;
};

/// Reads the character at the beginning of `text`, which is not empty, by RFC 3629: shortest form, no
/// surrogates, at most U+10FFFF.
Character read_character(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i]));
  };
  const std::uint32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return {};
  std::uint32_t code = first & (0xffU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code = (code << 6) | (byte(i) & 0x3f);
  }
  constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kLeast[length] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return {};
  return {code, length};
}

/// True for characters that cannot be seen but change how others are: controls, of which some terminals obey
/// U+0080 to U+009F too, line separators, and marks and overrides of direction.
bool is_hidden(std::uint32_t code) {
  const bool control = code < 0x20 || (code >= 0x7f && code < 0xa0);
  const bool direction = code == 0x61c || code == 0x200e || code == 0x200f ||
                         (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
  return control || direction || code == 0xfeff || code == 0x2028 || code == 0x2029;
}

bool is_hex_digit(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

using Number = std::variant<std::int64_t, double>;

/// A number's bits; nullopt unless there are as many digits as a number has.
std::optional<Number> number_of_bits(std::string_view digits) {
  std::uint64_t bits = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), bits, 16);
  switch (digits.size()) {
    case 2: return Number(static_cast<std::int64_t>(bits));
    case 8: return Number(static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits))));
    case 16: return Number(std::bit_cast<std::int64_t>(bits));
    default: return std::nullopt;
  }
}

/// A hex float without its sign and "0x".
std::optional<Number> number_of_float(std::string_view digits, bool negative) {
  double value = 0;
  const char* const end = digits.data() + digits.size();
  const auto parsed = std::from_chars(digits.data(), end, value, std::chars_format::hex);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return Number(negative ? -value : value);
}

/// The letters to insert, remove, replace, or swap with their neighbour, to make `b` of `a`.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> older(b.size() + 1);
  std::vector<std::size_t> old(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::swap(older, old);
    std::swap(old, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = a[i - 1] == b[j - 1];
      row[j] = std::min({old[j - 1] + (same ? 0 : 1), old[j] + 1, row[j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], older[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t bytes = read_character(text).bytes;
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

std::string printable(std::string_view text, Newlines newlines) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Character next = read_character(text);
    const bool kept_newline = next.code == '\n' && newlines == Newlines::kKeep;
    if (next.bytes == 0) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text.front()));
    } else if (!is_hidden(next.code) || kept_newline) {
      out += text.substr(0, next.bytes);
    } else {
      out += next.code < 0x100 ? fmt::format("\\x{:02x}", next.code) : fmt::format("\\u{{{:x}}}", next.code);
    }
    text.remove_prefix(std::max<std::size_t>(1, next.bytes));
  }
  return out;
}

std::size_t columns_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string grouped(std::int64_t number) {
  std::string out = std::to_string(number);
  const std::size_t sign = number < 0 ? 1 : 0;
  for (std::size_t at = out.size(); at > 3 + sign;) out.insert(at -= 3, ",");
  return out;
}

std::string decimal(double number) {
  const bool narrows = std::abs(number) <= std::numeric_limits<float>::max() &&
                       static_cast<double>(static_cast<float>(number)) == number;
  return narrows ? fmt::format("{}", static_cast<float>(number)) : fmt::format("{}", number);
}

std::string nearest(std::string_view given, const std::vector<std::string>& known) {
  constexpr std::size_t kMost = 2;
  // Among words at one distance the one is meant that begins more like `given`.
  const auto shared = [&](const std::string& word) {
    return std::mismatch(given.begin(), given.end(), word.begin(), word.end()).first - given.begin();
  };
  std::string best;
  std::size_t best_distance = kMost;
  for (const std::string& word : known) {
    const std::size_t longer = std::max(given.size(), word.size());
    if (longer - std::min(given.size(), word.size()) > best_distance) continue;
    const std::size_t distance = edit_distance(given, word);
    if (distance > best_distance || distance + 1 >= word.size()) continue;
    const bool better = best.empty() || distance < best_distance || shared(word) > shared(best);
    if (better) best = word, best_distance = distance;
  }
  return best;
}

std::string hint_among(std::string_view given, const std::vector<std::string>& known,
                       const std::string& otherwise) {
  const std::string meant = nearest(given, known);
  if (!meant.empty()) return fmt::format("did you mean {}?", meant);
  return !otherwise.empty() || known.empty() ? otherwise
                                             : fmt::format("use one of {}", fmt::join(known, ", "));
}

std::optional<std::variant<std::int64_t, double>> number_of_hex(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  if (!text.starts_with("0x")) return std::nullopt;
  text.remove_prefix(2);
  if (text.empty() || !is_hex_digit(text.front())) return std::nullopt;  // from_chars() takes another sign
  if (!negative && std::all_of(text.begin(), text.end(), is_hex_digit)) return number_of_bits(text);
  return text.find('p') == std::string_view::npos ? std::nullopt : number_of_float(text, negative);
}

std::optional<std::string> decimal_of_hex(std::string_view text) {
  const auto number = number_of_hex(text);
  if (!number) return std::nullopt;
  const double* const real = std::get_if<double>(&*number);
  return real != nullptr ? decimal(*real) : std::to_string(std::get<std::int64_t>(*number));
}

}  // namespace dgx
