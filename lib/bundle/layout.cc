#include "layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

#include "dgx/bundle/format.h"
#include "dgx/core/checked.h"

namespace dgx::bundle {

bool is_chunked(DType dtype, const Shape& shape) {
  std::uint64_t bytes = size_of(dtype);
  for (const std::int64_t size : shape) bytes *= static_cast<std::uint64_t>(size);
  return bytes >= kMinChunkedBytes;
}

ChunkLayout layout_for(DType dtype, const Shape& shape) {
  assert(!shape.empty());
  ChunkLayout layout;
  layout.row_bytes = size_of(dtype);
  std::size_t dimension = shape.size() - 1;
  const auto extent = [&] { return static_cast<std::uint64_t>(shape[dimension]); };
  while (dimension > 0 && layout.row_bytes * extent() <= kChunkTargetBytes) {
    layout.row_bytes *= extent();
    --dimension;
  }
  layout.dimension = dimension;
  layout.extent = extent();
  for (std::size_t i = 0; i < dimension; ++i) layout.outer *= static_cast<std::uint64_t>(shape[i]);
  const std::uint64_t most = std::max<std::uint64_t>(1, kChunkTargetBytes / layout.row_bytes);
  const std::uint64_t parts = ceil_div(layout.extent, most);
  layout.rows = ceil_div(layout.extent, parts);
  return layout;
}

Result<ChunkLayout> layout_from(const std::vector<std::uint64_t>& chunk, DType dtype, const Shape& shape) {
  assert(chunk.size() == shape.size() && !shape.empty());
  const auto extent = [&](std::size_t i) { return static_cast<std::uint64_t>(shape[i]); };
  ChunkLayout layout;
  layout.row_bytes = size_of(dtype);
  std::size_t dimension = shape.size() - 1;
  while (dimension > 0 && chunk[dimension] == extent(dimension)) layout.row_bytes *= extent(dimension--);
  layout.dimension = dimension;
  layout.extent = extent(dimension);
  layout.rows = chunk[dimension];
  for (std::size_t i = 0; i < dimension; ++i) {
    if (chunk[i] != 1) return malformed("has chunks that are not whole rows");
    layout.outer *= extent(i);
  }
  const auto bytes = checked_mul<std::uint64_t>(layout.rows, layout.row_bytes);
  if (layout.rows == 0 || layout.rows > layout.extent || !bytes || *bytes > kMaxChunkBytes) {
    return malformed(fmt::format("has chunks of more than {} bytes, or none", kMaxChunkBytes));
  }
  return layout;
}

Shape chunk_shape(const ChunkLayout& layout, const Shape& shape) {
  Shape chunk(shape);
  std::fill(chunk.begin(), chunk.begin() + static_cast<std::ptrdiff_t>(layout.dimension), 1);
  chunk[layout.dimension] = static_cast<std::int64_t>(layout.rows);
  return chunk;
}

ChunkPlace place_of_chunk(const ChunkLayout& layout, const Shape& shape, std::uint64_t index) {
  const std::uint64_t outer = index / layout.chunks_per_outer();
  const std::uint64_t first_row = index % layout.chunks_per_outer() * layout.rows;
  ChunkPlace place;
  place.begin = (outer * layout.extent + first_row) * layout.row_bytes;
  place.size = std::min(layout.rows, layout.extent - first_row) * layout.row_bytes;
  place.offset.assign(shape.size(), 0);
  place.offset[layout.dimension] = first_row;
  std::uint64_t rest = outer;
  for (std::size_t i = layout.dimension; i-- > 0;) {
    place.offset[i] = rest % static_cast<std::uint64_t>(shape[i]);
    rest /= static_cast<std::uint64_t>(shape[i]);
  }
  return place;
}

}  // namespace dgx::bundle
