#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "dgx/core/checked.h"
#include "dgx/core/result.h"
#include "dgx/core/tensor.h"

namespace dgx::bundle {

/// The division of a tensor's numbers into chunks: whole rows of one dimension, so that a chunk is one range
/// of the row-major bytes. Its HDF5 chunk shape is (1, …, 1, rows, all, …, all). dgx-bundle(5),
/// "Compression".
struct ChunkLayout {
  std::size_t dimension = 0;    ///< the one that is divided
  std::uint64_t rows = 0;       ///< rows of that dimension in a chunk
  std::uint64_t extent = 0;     ///< extent of that dimension in the tensor
  std::uint64_t row_bytes = 0;  ///< size of a row, with everything inside that dimension
  std::uint64_t outer = 1;      ///< product of the dimensions outside

  [[nodiscard]] std::uint64_t chunk_bytes() const { return rows * row_bytes; }
  [[nodiscard]] std::uint64_t chunks_per_outer() const { return ceil_div(extent, rows); }
  [[nodiscard]] std::uint64_t chunk_count() const { return outer * chunks_per_outer(); }
};

/// Tensors below this many bytes are not cut and not compressed.
inline constexpr std::uint64_t kMinChunkedBytes = 65536;
/// The most bytes of a chunk that is written; a tensor's chunks are of about equal size.
inline constexpr std::uint64_t kChunkTargetBytes = std::uint64_t{1} << 20;

/// True if a tensor of this type and shape is stored in chunks.
[[nodiscard]] bool is_chunked(DType dtype, const Shape& shape);
/// The layout that a writer chooses. The tensor must have elements.
[[nodiscard]] ChunkLayout layout_for(DType dtype, const Shape& shape);
/// The layout that a file's chunk shape stands for; it must have as many dimensions as `shape`, which has
/// elements. kMalformed if a chunk would not be one range of the row-major bytes, or has more than
/// kMaxChunkBytes.
[[nodiscard]] Result<ChunkLayout> layout_from(const std::vector<std::uint64_t>& chunk, DType dtype,
                                              const Shape& shape);
/// The chunk shape of a layout.
[[nodiscard]] Shape chunk_shape(const ChunkLayout& layout, const Shape& shape);

/// Chunk `index` in row-major order: the offset of its numbers among the tensor's bytes, how many bytes of
/// the tensor it holds, and its offset in elements in every dimension.
struct ChunkPlace {
  std::uint64_t begin = 0;
  std::uint64_t size = 0;
  std::vector<std::uint64_t> offset;
};
[[nodiscard]] ChunkPlace place_of_chunk(const ChunkLayout& layout, const Shape& shape, std::uint64_t index);

}  // namespace dgx::bundle
