#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "dgx/core/bulk.h"
#include "dgx/core/result.h"

/// Readers of what people have their data in. Each keeps the source's element type where it is one of ours,
/// widens other integers exactly to i64, and refuses what would lose bits, with a hint. All refuse trailing
/// bytes and check sizes before allocating. From `bulk_bytes` on, numbers lie in a file (core/bulk.h).
/// kMissing, kIo, kMalformed with a position.
namespace dgx::bundle {

/// IDX (http://yann.lecun.com/exdb/mnist), plain or gzip: u8 and f32 stay, i8, i16, i32 become i64, f64 is
/// refused.
[[nodiscard]] Result<BulkTensor> read_idx(const std::string& path, std::uint64_t bulk_bytes = kBulkBytes);

/// NPY format 1.0 and 2.0, C order, little-endian: u8, i8 (widened), i2, i4, u2, u4 (widened), i8 bytes, f4.
/// Refused with a hint: f8, f2, u8 bytes, big-endian, Fortran order, objects, structures.
[[nodiscard]] Result<BulkTensor> read_npy(const std::string& path, std::uint64_t bulk_bytes = kBulkBytes);

/// The bytes of a file cut into windows of `context` bytes that do not overlap: x u8[samples,context], and y
/// the byte that follows each byte of x. A rest shorter than a window is left out. kUsage if `context` is
/// below 1 or the file has no complete window.
[[nodiscard]] Result<std::pair<BulkTensor, BulkTensor>> read_text(const std::string& path,
                                                                  std::int64_t context,
                                                                  std::uint64_t bulk_bytes = kBulkBytes);

/// One dataset of any HDF5 file by its path inside: numbers of any byte order, deflate, shuffle and
/// fletcher32 allowed. Refused: f64 and f16, u64, external and soft links, virtual datasets, external
/// storage.
[[nodiscard]] Result<BulkTensor> read_hdf5(const std::string& file, const std::string& path,
                                           std::uint64_t bulk_bytes = kBulkBytes);

/// A safetensors file: its tensors by name, F32, I64 and U8; other element types are refused by name. Every
/// byte must belong to one tensor.
[[nodiscard]] Result<State> read_safetensors(const std::string& path);

}  // namespace dgx::bundle
