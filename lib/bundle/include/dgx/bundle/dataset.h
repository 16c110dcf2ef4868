#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "dgx/bundle/format.h"
#include "dgx/core/bulk.h"
#include "dgx/core/bytes.h"
#include "dgx/core/files.h"
#include "dgx/core/tensor.h"

namespace dgx::bundle {

/// The least and the greatest number of an integer field.
struct IntegerRange {
  std::int64_t low = 0;
  std::int64_t high = 0;
  bool operator==(const IntegerRange&) const = default;
};

/// Samples, outermost dimension first, in their source element type, and their labels or targets. A number v
/// of `x` means v * scale + shift, which is an op of the step program, never done here.
struct Dataset {
  BulkTensor x;
  BulkTensor y;
  float scale = 1;
  float shift = 0;
  /// Present exactly for i64 and u8 fields, and then exact.
  std::optional<IntegerRange> x_range;
  std::optional<IntegerRange> y_range;
};

/// A dataset bundle's metadata, without its numbers.
struct DatasetInfo {
  std::int64_t samples = 0;
  DType x_dtype = DType::kF32;
  DType y_dtype = DType::kF32;
  Shape x_shape;
  Shape y_shape;
  float scale = 1;
  float shift = 0;
  std::optional<IntegerRange> x_range;
  std::optional<IntegerRange> y_range;
  Digest digest;
};

/// Joins samples and labels, checks them and finds the ranges. Keeps only the first `first` samples, if
/// given.
///
/// kMalformed: no samples; different numbers of samples in x and y; a rank of 0; a number that is not finite
/// (named by sample and element); an i64 beyond 2^53. kUsage: scale or shift not finite, scale 0, `first`
/// below 1 or above the number of samples.
[[nodiscard]] Result<Dataset> make_dataset(BulkTensor x, BulkTensor y, float scale = 1, float shift = 0,
                                           std::optional<std::int64_t> first = std::nullopt);

/// The canonical JSON that the dataset digest binds in addition to the tensors:
///
///     {"ranges":{"x":[0,255],"y":[0,9]},"scale":"0x1p-8","shift":"0x0p0"}
///
/// with an entry in `ranges` for each integer field; scale and shift in the text form of dgx-program(5).
[[nodiscard]] std::string dataset_recipe(const Dataset& dataset);

/// The digest by which a task names its dataset: H(0x07 | RFC 6962 root over the state entries "x" and "y" |
/// SHA-256 of the recipe). Hashes all numbers.
[[nodiscard]] Result<Digest> dataset_digest(const Dataset& dataset);

/// Writes the bundle and returns its digest. The same dataset gives the same bytes. Errors of
/// AtomicFile::create, kIo.
[[nodiscard]] Result<Digest> write_dataset(const std::string& path, const Dataset& dataset, Clobber clobber,
                                           Effort effort = {});

/// Reads a dataset bundle. kMalformed if anything disagrees with dgx-bundle(5); with `check` also if the
/// digest or a range is wrong or a number is not finite. kMissing, kIo.
[[nodiscard]] Result<Dataset> read_dataset(const std::string& path, Check check = Check::kDigests,
                                           Effort effort = {});
/// Reads all but the numbers; the digest is the one stated in the file. Same errors.
[[nodiscard]] Result<DatasetInfo> read_dataset_info(const std::string& path);

}  // namespace dgx::bundle
