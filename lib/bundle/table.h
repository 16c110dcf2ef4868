#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dgx/core/bytes.h"
#include "dgx/core/result.h"
#include "dgx/core/tensor.h"
#include "formats/widen.h"
#include "structure.h"

/// The description of one dataset of a container by dgx-h5, and its encoding: a little-endian message on
/// standard output, of fields preceded by their lengths. It contains none of the dataset's numbers, unless
/// they are in the dataset's header.
namespace dgx::bundle {

inline constexpr std::size_t kMaxFilters = 8;
inline constexpr std::uint64_t kMaxTableChunks = std::uint64_t{1} << 22;
inline constexpr std::uint64_t kMaxCompactBytes = 65536;
/// Limit of a whole message.
inline constexpr std::size_t kMaxMessageBytes = (std::size_t{1} << 17) + kMaxTableChunks * 20;

struct TableChunk {
  Extent at;                  ///< place in the file
  std::uint32_t skipped = 0;  ///< bit i: filter i was not applied
};

struct Table {
  enum class Layout : std::uint8_t { kCompact, kContiguous, kChunked };
  NumberType type;
  Shape shape;
  Layout layout = Layout::kContiguous;
  Bytes compact;                     ///< kCompact: the numbers
  Extent contiguous;                 ///< kContiguous
  std::vector<std::uint64_t> chunk;  ///< kChunked: numbers in each dimension
  std::vector<unsigned> filters;     ///< numbers of the filters, in the order of writing
  std::vector<TableChunk> chunks;    ///< all chunks of the grid, in row-major order
};

/// Encodes a table, or the error in its place.
[[nodiscard]] Bytes encode_message(const Result<Table>& table);
/// The table or error of a message. kInternal if it is malformed: its writer does not follow the format. A
/// table is within this header's limits, and its sizes fit each other; they are not checked against the file.
[[nodiscard]] Result<Table> decode_message(ByteView message);

}  // namespace dgx::bundle
