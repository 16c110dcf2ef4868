#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dgx/core/bytes.h"
#include "dgx/core/result.h"

namespace dgx::exchange {

/// Floats most of which are +0, as the places and the bits of the others (dgx-placement(7), "CODINGS"): what
/// workers of dgc send. It is lossless, and each list of floats has one text. Both sides know how many floats
/// there are.

/// The coded floats, at most 2^53 of them. Cost: linear in them.
[[nodiscard]] std::vector<std::byte> encode_sparse(std::span<const float> values);

/// Writes every one of `values` from what encode_sparse() gave for as many. kMalformed, with the byte, if the
/// text is too short or too long, has a place outside, or is not what encode_sparse() would write; `values`
/// then hold anything. Cost: linear in both.
[[nodiscard]] Status decode_sparse(std::span<const std::byte> coded, std::span<float> values);

/// Numbers of few bits, 1 to 7 each, one behind the other without a gap (dgx-placement(7), "CODINGS"): what
/// crosses a cut of AQ-SGD. Both sides know how many numbers there are, and of how many bits.

/// The bytes that so many packed numbers take.
[[nodiscard]] constexpr std::size_t packed_size(std::size_t count, int bits) {
  const auto each = static_cast<std::size_t>(bits);
  return count / 8 * each + (count % 8 * each + 7) / 8;
}

/// The packed numbers. kInternal, with the place, if one has more bits: the program that makes them has none,
/// so memory or processor have failed. Cost: linear.
[[nodiscard]] Result<std::vector<std::byte>> pack_bits(std::span<const std::uint8_t> numbers, int bits);

/// Writes every one of `numbers` from what pack_bits() gave for as many. kMalformed if the text has another
/// length, or bits behind the last number; `numbers` then hold anything. Cost: linear.
[[nodiscard]] Status unpack_bits(std::span<const std::byte> packed, int bits,
                                 std::span<std::uint8_t> numbers);

/// Rows of numbers, `row` bytes each, of which some are all +0 (dgx-placement(7), "CODINGS"): what goes to
/// experts and back, as many slots have no token. It is lossless, and equal rows have one text.

/// The coded rows; `row` is above 0 and divides the bytes. Cost: linear in them.
[[nodiscard]] std::vector<std::byte> encode_rows(ByteView values, std::size_t row);

/// Writes every one of `values` from what encode_rows() gave for as many bytes. kMalformed if the text is too
/// short or too long, or not what encode_rows() would write; `values` then hold anything. Cost: linear in
/// both.
[[nodiscard]] Status decode_rows(std::span<const std::byte> coded, std::size_t row,
                                 std::span<std::uint8_t> values);

}  // namespace dgx::exchange
