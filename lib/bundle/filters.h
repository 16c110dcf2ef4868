#pragma once

#include <cstdint>
#include <vector>

#include "dgx/core/bytes.h"
#include "dgx/core/result.h"

namespace dgx::bundle {

/// Undoes the filters that other programs apply to chunks: deflate (1), shuffle (2), fletcher32 (3), zstd
/// (32015). Bit i of `skipped` says that filter i was not applied. Leaves the chunk in `bytes`. kMalformed
/// unless it then has `chunk_bytes`; never allocates more than that, and a few bytes for each filter.
[[nodiscard]] Status undo_filters(const std::vector<unsigned>& filters, std::uint32_t skipped,
                                  std::size_t number_bytes, std::uint64_t chunk_bytes, Bytes& bytes);

/// HDF5's checksum of chunks: Fletcher's, over 16-bit big-endian words.
[[nodiscard]] std::uint32_t fletcher32(ByteView bytes);

}  // namespace dgx::bundle
