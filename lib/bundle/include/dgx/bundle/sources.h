#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "dgx/core/bulk.h"
#include "dgx/core/result.h"

/// Readers of users' own data files. Each keeps the source's element type if it is one of ours, widens other
/// types without loss (other integers to i64, f16 and bf16 to f32, bool to u8), and refuses with a hint
/// whatever would lose bits. All check sizes before allocating and refuse trailing bytes. kMissing, kIo,
/// kMalformed with a position.
namespace dgx::bundle {

/// The choice whether f64 is refused, or each number rounded to the nearest binary32, ties to even.
enum class Rounding { kRefuse, kF32 };

/// Settings that all readers share.
struct Reading {
  /// Size in bytes from which numbers are kept in a file (core/bulk.h).
  std::uint64_t bulk_bytes = kBulkBytes;
  Rounding rounding = Rounding::kRefuse;
};

/// Samples and their labels or targets, one row each.
struct Samples {
  BulkTensor x;
  BulkTensor y;
  /// Names of the classes 0, 1, … of y, where the source has them.
  std::vector<std::string> classes = {};
};

/// IDX (http://yann.lecun.com/exdb/mnist), plain or gzip.
[[nodiscard]] Result<BulkTensor> read_idx(const std::string& path, const Reading& reading = {});

/// NPY format 1.0 and 2.0. Refused with a hint: u8 (NumPy's, 8 bytes), big-endian, Fortran order, objects and
/// structures.
[[nodiscard]] Result<BulkTensor> read_npy(const std::string& path, const Reading& reading = {});

/// One dataset of any HDF5 file by its path inside: numbers of any byte order, deflate, shuffle and
/// fletcher32 allowed. Refused: u64, external and soft links, virtual datasets, external storage.
[[nodiscard]] Result<BulkTensor> read_hdf5(const std::string& file, const std::string& path,
                                           const Reading& reading = {});

/// One tensor of a safetensors file by its name: F64, F32, F16, BF16, I64, I32, I16, I8, U32, U16, U8, BOOL.
/// The others may be of any type.
[[nodiscard]] Result<BulkTensor> read_safetensor(const std::string& path, const std::string& name,
                                                 const Reading& reading = {});

/// The form of a file of tokens: an NPY file, or nothing but little-endian numbers.
enum class TokenFile { kNpy, kU16, kU32 };

/// Cuts a row of tokens into windows of `context` tokens that do not overlap: x is [samples, context], and y
/// has the token that follows each token of x. A remainder shorter than a window is dropped. kUsage if
/// `context` is below 1 or there is no complete window.
[[nodiscard]] Result<Samples> read_tokens(const std::string& path, TokenFile encoding, std::int64_t context,
                                          const Reading& reading = {});
/// read_tokens() of a file's bytes: u8.
[[nodiscard]] Result<Samples> read_text(const std::string& path, std::int64_t context,
                                        const Reading& reading = {});

}  // namespace dgx::bundle
