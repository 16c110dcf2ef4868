// Coded values, sparse floats, rows and packed numbers: whatever is decoded is inside, and is encoded to the
// same bytes.

#include "dgx/exchange/coding.h"

#include <algorithm>
#include <cstring>

#include "target.h"

using namespace dgx;

namespace {

constexpr std::size_t kRow = 16;

std::string coded_text(std::span<const float> values, unsigned count) {
  std::string out(1, static_cast<char>(count));
  for (const std::byte byte : exchange::encode_sparse(values)) out += static_cast<char>(byte);
  return out;
}

std::string coded_rows(std::span<const float> values, unsigned count) {
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(values.data());
  std::string out(1, static_cast<char>(count));
  for (const std::byte byte : exchange::encode_rows({bytes, values.size_bytes()}, kRow))
    out += static_cast<char>(byte);
  return out;
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  std::vector<std::string> out;
  for (const unsigned count : {0U, 1U, 7U, 100U, 255U}) {
    std::vector<float> values(std::size_t{count} * 4, 0.0F);
    out.push_back(coded_text(values, count));
    for (std::size_t n = 3; n < values.size(); n += 17) values[n] = static_cast<float>(n);
    out.push_back(coded_text(values, count));
    out.push_back(coded_rows(values, count));
    for (float& value : values) value += 0.1F;
    out.push_back(coded_text(values, count));
  }
  return out;
}

namespace {

void unpack(std::span<const std::byte> coded, std::size_t count) {
  for (int bits = 1; bits < 8; ++bits) {
    std::vector<std::uint8_t> numbers(count, 255);
    if (!exchange::unpack_bits(coded, bits, numbers).ok()) continue;
    const auto again = exchange::pack_bits(numbers, bits);
    fuzz::require(again.ok() && std::ranges::equal(*again, coded),
                  "unpacked numbers are packed to the same bytes");
  }
}

}  // namespace

/// The first byte says how many floats there are, in fours, or rows of four, or numbers; the others are the
/// text.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t count = std::size_t{data[0]} * 4;
  const auto coded = std::as_bytes(std::span(data, size)).subspan(1);
  unpack(coded, data[0]);
  std::vector<std::uint8_t> rows(count * sizeof(float), 1);
  if (exchange::decode_rows(coded, kRow, rows).ok())
    fuzz::require(std::ranges::equal(exchange::encode_rows(rows, kRow), coded),
                  "accepted rows are encoded to the same bytes");
  // A heap block of the size that is asked for, so that a sanitizer sees a write behind it.
  std::vector<float> values(count, 1.0F);
  if (!exchange::decode_sparse(coded, values).ok()) return 0;
  const auto again = exchange::encode_sparse(values);
  fuzz::require(std::ranges::equal(again, coded), "accepted values are encoded to the same bytes");
  return 0;
}
