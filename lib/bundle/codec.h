#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "dgx/core/bytes.h"
#include "dgx/core/result.h"

/// Encodes and decodes one chunk: byte shuffle (HDF5 filter 2) for types wider than a byte, then one zstd
/// frame that states its content size (registered filter 32015). dgx-bundle(5), "Compression".
namespace dgx::bundle {

inline constexpr int kZstdLevel = 1;

/// Moves byte b of number i, of n, to b * n + i. For numbers of 1, 4 and 8 bytes; `in` and `out` have the
/// same size, a multiple of that.
void shuffle(ByteView in, std::size_t number_bytes, std::span<std::uint8_t> out);
/// Undoes shuffle() for the first out.size() / number_bytes numbers of `in`.
void unshuffle(ByteView in, std::size_t number_bytes, std::span<std::uint8_t> out);

/// A buffer that is reused from chunk to chunk and never shrinks.
using Scratch = Bytes;

/// Encodes one chunk of `chunk_bytes`: `numbers`, then zeros. Returns a view into `out`. kInternal if zstd is
/// out of memory.
[[nodiscard]] Result<ByteView> encode_chunk(ByteView numbers, std::size_t number_bytes,
                                            std::size_t chunk_bytes, Scratch& scratch, Scratch& out);

/// Fills `numbers` from the beginning of a chunk. kMalformed unless `stored` is one frame that states a
/// content of exactly `chunk_bytes`.
[[nodiscard]] Status decode_chunk(ByteView stored, std::size_t number_bytes, std::size_t chunk_bytes,
                                  std::span<std::uint8_t> numbers, Scratch& scratch);

/// The most bytes a chunk of `chunk_bytes` may take in a file.
[[nodiscard]] std::size_t max_stored_bytes(std::size_t chunk_bytes);

}  // namespace dgx::bundle
