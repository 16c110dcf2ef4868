#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "dgx/core/bulk.h"
#include "dgx/core/result.h"

/// Readers of users' own data files. Each keeps the source's element type if it is one of ours, widens other
/// integers exactly to i64, and refuses with a hint whatever would lose bits. All refuse trailing bytes and
/// check sizes before allocating. From `bulk_bytes` on, numbers are kept in a file (core/bulk.h). kMissing,
/// kIo, kMalformed with a position.
namespace dgx::bundle {

/// IDX (http://yann.lecun.com/exdb/mnist), plain or gzip: u8 and f32 stay, i8, i16, i32 become i64, f64 is
/// refused.
[[nodiscard]] Result<BulkTensor> read_idx(const std::string& path, std::uint64_t bulk_bytes = kBulkBytes);

/// NPY format 1.0 and 2.0, C order, little-endian. By NumPy's type codes (sizes in bytes): u1, i8 and f4
/// stay; i1, i2, i4, u2 and u4 become i64; f8, f2, u8, big-endian, Fortran order, objects and structures are
/// refused with a hint.
[[nodiscard]] Result<BulkTensor> read_npy(const std::string& path, std::uint64_t bulk_bytes = kBulkBytes);

/// Cuts a file's bytes into windows of `context` bytes that do not overlap: x is u8[samples,context], and y
/// the byte that follows each byte of x. A remainder shorter than a window is dropped. kUsage if `context` is
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
