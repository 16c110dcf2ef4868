#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "dgx/core/bulk.h"
#include "dgx/core/result.h"

namespace dgx::bundle {

[[nodiscard]] bool is_gzip(std::string_view head);

/// The first `count` bytes of one gzip member, fewer if it is shorter. kMalformed if it is not gzip; errors
/// of copy_bytes().
[[nodiscard]] Result<std::string> inflate_head(const BulkView& content, std::size_t count);

/// Inflates one gzip member that must hold exactly `size` bytes and end where `content` ends; checks its CRC.
/// Refuses, before allocating, a size that no deflate stream of this length can hold. Returns u8[size]; from
/// `bulk_bytes` on kept in a file (core/bulk.h). Errors of copy_bytes().
[[nodiscard]] Result<BulkTensor> inflate_exactly(const BulkView& content, std::uint64_t size,
                                                 std::uint64_t bulk_bytes);

}  // namespace dgx::bundle
