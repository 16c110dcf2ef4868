#pragma once

#include <cstdint>
#include <span>

#include "dgx/core/bytes.h"
#include "sha256_lanes.h"

namespace dgx::crypto {

/// sha256_each() of at most `compressor.lanes` messages, and at least one, by `compressor`.
void sha256_in_lanes(const LaneCompressor& compressor, std::uint8_t prefix, ByteView data,
                     std::span<Digest> out);

}  // namespace dgx::crypto
