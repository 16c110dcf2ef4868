#pragma once

#include <cstddef>
#include <span>
#include <vector>

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

}  // namespace dgx::exchange
