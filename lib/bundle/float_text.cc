#include "float_text.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>

namespace dgx::bundle {

std::string float_text(float value) {
  const std::string sign = std::signbit(value) ? "-" : "";
  if (value == 0) return sign + "0x0p0";
  int exponent = 0;
  // In [1,2), also for subnormals, so that the text does not depend on how a number is stored.
  const float fraction = std::frexp(std::fabs(value), &exponent) * 2;
  std::uint32_t bits = (std::bit_cast<std::uint32_t>(fraction) & 0x7fffffU) << 1;
  std::string digits;
  for (; bits != 0; bits = (bits << 4) & 0xffffffU) digits += "0123456789abcdef"[bits >> 20];
  return fmt::format("{}0x1{}{}p{}", sign, digits.empty() ? "" : ".", digits, exponent - 1);
}

Result<float> float_from_text(std::string_view text) {
  constexpr std::size_t kMaxLength = 24;
  const std::string copy(text.substr(0, kMaxLength));
  const float value = std::strtof(copy.c_str(), nullptr);
  if (!std::isfinite(value) || float_text(value) != text) {
    return malformed(fmt::format("\"{}\" is not a normalised binary32 number", copy));
  }
  return value;
}

}  // namespace dgx::bundle
