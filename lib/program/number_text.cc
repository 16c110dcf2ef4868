#include "dgx/program/number_text.h"

#include <fmt/format.h>

#include <cassert>
#include <charconv>
#include <cmath>
#include <limits>

namespace dgx::program {
namespace {

/// Hex digits of a fraction in [0, 1) given by its upper `bits` bits, without trailing zeros.
std::string fraction_digits(std::uint64_t fraction, int bits) {
  std::string digits;
  for (int shift = bits - 4; shift >= 0 && fraction != 0; shift -= 4) {
    digits += "0123456789abcdef"[(fraction >> shift) & 15];
    fraction &= (std::uint64_t{1} << shift) - 1;
  }
  return digits;
}

/// Every binary32 is a binary64 too, so one printer serves both.
std::string print(double value) {
  assert(!std::isnan(value));
  const std::string sign = std::signbit(value) ? "-" : "";
  if (std::isinf(value)) return sign + "inf";
  if (value == 0) return sign + "0x0p0";
  int exponent = 0;
  const double half = std::frexp(std::fabs(value), &exponent);  // in [0.5, 1)
  const auto mantissa = static_cast<std::uint64_t>(std::ldexp(half, 53));
  const std::string digits = fraction_digits(mantissa & ((std::uint64_t{1} << 52) - 1), 52);
  return fmt::format("{}0x1{}{}p{}", sign, digits.empty() ? "" : ".", digits, exponent - 1);
}

template <class T>
Result<T> parse(std::string_view text) {
  const auto refuse = [&] {
    return malformed(fmt::format("'{}' is not a normalised hex float", text),
                     "for example 0x1.8p3, 0x0p0, -inf");
  };
  std::string_view rest = text;
  const bool negative = rest.starts_with('-');
  if (negative) rest.remove_prefix(1);
  T value = std::numeric_limits<T>::infinity();
  if (rest != "inf") {
    if (!rest.starts_with("0x")) return refuse();
    rest.remove_prefix(2);
    const auto [end, error] =
        std::from_chars(rest.data(), rest.data() + rest.size(), value, std::chars_format::hex);
    if (error != std::errc{} || end != rest.data() + rest.size()) return refuse();
  }
  if (negative) value = -value;
  // Catches spelling, excess digits and rounding at once: only what the printer writes comes back the same.
  if (std::isnan(value) || print(static_cast<double>(value)) != text) return refuse();
  return value;
}

}  // namespace

std::string hex_float(float value) { return print(static_cast<double>(value)); }
std::string hex_float(double value) { return print(value); }
Result<float> parse_hex_float(std::string_view text) { return parse<float>(text); }
Result<double> parse_hex_double(std::string_view text) { return parse<double>(text); }

}  // namespace dgx::program
