#include "dgx/exchange/coding.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

namespace dgx::exchange {
namespace {

/// The first byte: how many of a float's bytes are there, its upper ones.
constexpr std::uint8_t kWholeFloats = 4, kUpperHalves = 2;

bool is_zero(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }

/// The number of low bits of a gap that are written as they are, the rest in unary: near the logarithm of ln
/// 2 times the mean gap, which is best for places at random.
int gap_bits(std::size_t values, std::size_t kept) {
  const std::size_t mean = values / kept;
  const std::size_t share = mean / 256 * 177 + mean % 256 * 177 / 256;
  return share == 0 ? 0 : static_cast<int>(std::bit_width(share)) - 1;
}

class BitWriter {
 public:
  explicit BitWriter(std::vector<std::byte>& out) : out_(out) {}
  void put(bool bit) {
    if (used_ == 8) {
      out_.push_back(std::byte{0});
      used_ = 0;
    }
    if (bit) out_.back() |= std::byte{1} << used_;
    ++used_;
  }

 private:
  std::vector<std::byte>& out_;
  int used_ = 8;
};

/// Reads a coded text from its front; nothing behind its end.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> text) : text_(text) {}

  [[nodiscard]] bool is_done() const { return at_ == text_.size(); }
  [[nodiscard]] std::size_t left() const { return text_.size() - at_; }
  [[nodiscard]] Error error(std::string_view what) const {
    return malformed(fmt::format("coded values: byte {}: {}", at_, what));
  }

  Result<std::uint8_t> byte() {
    if (is_done()) return error("the text ends too early");
    return std::to_integer<std::uint8_t>(text_[at_++]);
  }

  /// An integer in groups of seven bits, the lowest first, in as few as possible.
  Result<std::uint64_t> integer() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 63; shift += 7) {
      DGX_TRY(const std::uint8_t group, byte());
      value |= std::uint64_t{group & 0x7FU} << shift;
      if (group >= 0x80) continue;
      if (group == 0 && shift > 0) return error("an integer has a group of zeros at its end");
      return value;
    }
    return error("an integer is too large");
  }

  Result<bool> bit() {
    if (free_ == 0) {
      DGX_TRY(bits_, byte());
      free_ = 8;
    }
    const bool out = (bits_ & 1U) != 0;
    bits_ = static_cast<std::uint8_t>(bits_ >> 1U);
    --free_;
    return out;
  }
  /// The bits of a byte that is not used up, all 0.
  Status end_bits() {
    free_ = 0;
    if (bits_ != 0) return error("bits behind the last place");
    return {};
  }

 private:
  std::span<const std::byte> text_;
  std::size_t at_ = 0;
  std::uint8_t bits_ = 0;
  int free_ = 0;
};

/// The next place, behind `before` (one past the last one), of `values`.
Result<std::size_t> next_place(Reader& in, std::size_t before, int low_bits, std::size_t values) {
  std::size_t high = 0;
  for (;;) {
    DGX_TRY(const bool more, in.bit());
    if (!more) break;
    // Fewer than the places that are left, so that the sum below cannot overflow.
    if (++high > ((values - before) >> low_bits)) return in.error("a place outside the values");
  }
  std::size_t low = 0;
  for (int n = 0; n < low_bits; ++n) {
    DGX_TRY(const bool bit, in.bit());
    low |= std::size_t{bit ? 1U : 0U} << n;
  }
  const std::size_t gap = (high << low_bits) + low;
  if (gap >= values - before) return in.error("a place outside the values");
  return before + gap;
}

Result<float> next_value(Reader& in, std::uint8_t width) {
  std::uint32_t bits = 0;
  for (std::uint8_t n = 0; n < width; ++n) {
    DGX_TRY(const std::uint8_t byte, in.byte());
    bits |= std::uint32_t{byte} << (8U * (4U - width + n));
  }
  if (bits == 0) return in.error("a value of +0");
  return std::bit_cast<float>(bits);
}

}  // namespace

std::vector<std::byte> encode_sparse(std::span<const float> values) {
  std::vector<std::size_t> places;
  std::uint32_t lower_halves = 0;
  for (std::size_t n = 0; n < values.size(); ++n) {
    if (bits_of(values[n]) == 0) continue;
    places.push_back(n);
    lower_halves |= bits_of(values[n]) & 0xFFFFU;
  }
  const std::uint8_t width = lower_halves == 0 ? kUpperHalves : kWholeFloats;
  std::vector<std::byte> out{std::byte{width}};
  std::uint64_t count = places.size();
  for (; count >= 0x80; count >>= 7U) out.push_back(static_cast<std::byte>(count | 0x80U));
  out.push_back(static_cast<std::byte>(count));
  if (places.empty()) return out;

  const int low_bits = gap_bits(values.size(), places.size());
  BitWriter bits(out);
  std::size_t before = 0;
  for (const std::size_t place : places) {
    const std::size_t gap = place - before;
    for (std::size_t n = gap >> low_bits; n > 0; --n) bits.put(true);
    bits.put(false);
    for (int n = 0; n < low_bits; ++n) bits.put(((gap >> n) & 1U) != 0);
    before = place + 1;
  }
  for (const std::size_t place : places) {
    for (std::uint8_t n = 0; n < width; ++n)
      out.push_back(static_cast<std::byte>(bits_of(values[place]) >> (8U * (4U - width + n))));
  }
  return out;
}

Status decode_sparse(std::span<const std::byte> coded, std::span<float> values) {
  Reader in(coded);
  DGX_TRY(const std::uint8_t width, in.byte());
  if (width != kUpperHalves && width != kWholeFloats) return in.error("neither 2 nor 4 bytes a value");
  DGX_TRY(const std::uint64_t count, in.integer());
  // Each value takes `width` bytes, so a count that the text has no room for takes no memory here.
  if (count > values.size() || count > in.left() / width) return in.error("more values than there are");
  std::ranges::fill(values, 0.0F);
  std::vector<std::size_t> places;
  places.reserve(count);
  std::size_t before = 0;
  for (std::uint64_t n = 0; n < count; ++n) {
    DGX_TRY(const std::size_t place, next_place(in, before, gap_bits(values.size(), count), values.size()));
    places.push_back(place);
    before = place + 1;
  }
  DGX_CHECK(in.end_bits());
  bool has_lower_half = false;
  for (const std::size_t place : places) {
    DGX_TRY(values[place], next_value(in, width));
    has_lower_half = has_lower_half || (bits_of(values[place]) & 0xFFFFU) != 0;
  }
  if (has_lower_half != (width == kWholeFloats)) return in.error("4 bytes a value where 2 would do");
  if (!in.is_done()) return in.error("bytes behind the last value");
  return {};
}

Result<std::vector<std::byte>> pack_bits(std::span<const std::uint8_t> numbers, int bits) {
  std::vector<std::byte> out;
  out.reserve(packed_size(numbers.size(), bits));
  std::uint32_t pending = 0;  // bits that fill no byte yet, fewer than 8 between two numbers
  int held = 0;
  for (std::size_t n = 0; n < numbers.size(); ++n) {
    if (numbers[n] >> bits != 0)
      return internal_error(
          fmt::format("coded values: number {} is {}, which {} bits do not hold", n, numbers[n], bits));
    pending |= std::uint32_t{numbers[n]} << held;
    held += bits;
    if (held < 8) continue;
    out.push_back(static_cast<std::byte>(pending & 0xFFU));
    pending >>= 8U;
    held -= 8;
  }
  if (held > 0) out.push_back(static_cast<std::byte>(pending));
  return out;
}

Status unpack_bits(std::span<const std::byte> packed, int bits, std::span<std::uint8_t> numbers) {
  if (packed.size() != packed_size(numbers.size(), bits))
    return malformed(fmt::format("coded values: {} bytes, for {} numbers of {} bits", packed.size(),
                                 numbers.size(), bits));
  const std::uint32_t all = (1U << bits) - 1;
  std::uint32_t pending = 0;
  int held = 0;
  std::size_t at = 0;
  for (std::uint8_t& number : numbers) {
    if (held < bits) {
      pending |= std::to_integer<std::uint32_t>(packed[at++]) << held;
      held += 8;
    }
    number = static_cast<std::uint8_t>(pending & all);
    pending >>= bits;
    held -= bits;
  }
  if (pending != 0)
    return malformed(fmt::format("coded values: byte {}: bits behind the last number", at - 1));
  return {};
}

std::vector<std::byte> encode_rows(ByteView values, std::size_t row) {
  const std::size_t count = values.size() / row, head = (count + 7) / 8;
  std::vector<std::byte> out(head);
  std::size_t kept = 0;
  const auto row_at = [&](std::size_t n) { return std::as_bytes(values.subspan(n * row, row)); };
  for (std::size_t n = 0; n < count; ++n) {
    if (is_zero(row_at(n))) continue;
    out[n / 8] |= std::byte{1} << n % 8;
    ++kept;
  }
  out.reserve(head + kept * row);
  for (std::size_t n = 0; n < count; ++n) {
    if ((out[n / 8] >> n % 8 & std::byte{1}) == std::byte{0}) continue;
    const auto bytes = row_at(n);
    out.insert(out.end(), bytes.begin(), bytes.end());
  }
  return out;
}

Status decode_rows(std::span<const std::byte> coded, std::size_t row, std::span<std::uint8_t> values) {
  const std::size_t count = values.size() / row, head = (count + 7) / 8;
  const auto wrong = [&](const char* what) { return malformed(fmt::format("coded rows: {}", what)); };
  if (coded.size() < head) return wrong("the text ends too early");
  const auto bits = coded.first(head);
  if (count % 8 != 0 && (bits.back() >> count % 8) != std::byte{0}) return wrong("bits behind the last row");
  auto rest = coded.subspan(head);
  for (std::size_t n = 0; n < count; ++n) {
    const auto to = values.subspan(n * row, row);
    if ((bits[n / 8] >> n % 8 & std::byte{1}) == std::byte{0}) {
      std::ranges::fill(to, std::uint8_t{0});
      continue;
    }
    if (rest.size() < row) return wrong("the text ends too early");
    if (is_zero(rest.first(row))) return wrong("a row of zeros");
    std::memcpy(to.data(), rest.data(), row);
    rest = rest.subspan(row);
  }
  return rest.empty() ? Status() : wrong("bytes behind the last row");
}

}  // namespace dgx::exchange
