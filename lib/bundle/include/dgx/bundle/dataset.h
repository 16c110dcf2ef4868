#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dgx/bundle/format.h"
#include "dgx/core/bulk.h"
#include "dgx/core/bytes.h"
#include "dgx/core/files.h"
#include "dgx/core/rows.h"
#include "dgx/core/tensor.h"

namespace dgx::bundle {

/// The least and the greatest number of an integer field.
struct IntegerRange {
  std::int64_t low = 0;
  std::int64_t high = 0;
  bool operator==(const IntegerRange&) const = default;
};

/// A scale and a shift: v becomes v * scale + shift.
struct Affine {
  float scale = 1;
  float shift = 0;
  bool operator==(const Affine&) const = default;
};

/// A named tensor of a dataset, with a row for every sample.
struct Field {
  BulkTensor numbers;  ///< [samples, …]
  /// Present exactly for i64 and u8, and then exact.
  std::optional<IntegerRange> range = {};
};

/// Samples by field: x, perhaps y, their labels or targets, and others; at most merkle::kMaxFields. Row i of
/// every field is of one sample. A number v of x means v * scale + shift, which is an op of the step program,
/// never done here.
struct Dataset {
  std::map<std::string, Field, std::less<>> fields;
  float scale = 1;
  float shift = 0;
  /// Names of the classes 0, 1, …, which are the numbers in y. May be empty.
  std::vector<std::string> classes = {};
  /// Scale and shift that were applied to each index of dimension 1 when x was packed: a record for those who
  /// pack more data alike, with nothing left to apply. May be empty.
  std::vector<Affine> channels = {};

  [[nodiscard]] const Field& x() const { return fields.find("x")->second; }
  /// The field, or nullptr.
  [[nodiscard]] const Field* find(std::string_view name) const;
  [[nodiscard]] std::int64_t samples() const { return x().numbers.shape()[0]; }
  /// The rows of all fields: views of their numbers.
  [[nodiscard]] FieldRows rows() const;
};

/// A field's metadata.
struct FieldInfo {
  DType dtype = DType::kF32;
  Shape shape;  ///< [samples, …]
  std::optional<IntegerRange> range = {};
};

/// A dataset bundle's metadata, without its numbers.
struct DatasetInfo {
  std::int64_t samples = 0;
  std::map<std::string, FieldInfo, std::less<>> fields;
  float scale = 1;
  float shift = 0;
  std::vector<std::string> classes = {};
  std::vector<Affine> channels = {};
  Digest digest;

  [[nodiscard]] const FieldInfo& x() const { return fields.find("x")->second; }
  /// The field, or nullptr.
  [[nodiscard]] const FieldInfo* find(std::string_view name) const;
};

/// Fields by name, as sources give them.
using FieldNumbers = std::map<std::string, BulkTensor, std::less<>>;

/// kMalformed unless there is an x, there are at most merkle::kMaxFields, all names are those of fields, and
/// all have as many samples, at least one, and neither a rank nor a dimension of 0.
[[nodiscard]] Status check_fields(const FieldNumbers& fields);

/// Joins fields, checks them and finds the ranges.
///
/// kMalformed: what check_fields() refuses; a number that is not finite (named by sample and element); an i64
/// beyond 2^53; names that cannot be those of y's classes. kUsage: scale or shift not finite, scale 0.
[[nodiscard]] Result<Dataset> make_dataset(FieldNumbers fields, float scale = 1, float shift = 0,
                                           std::vector<std::string> classes = {});
/// make_dataset() of x and y.
[[nodiscard]] Result<Dataset> make_dataset(BulkTensor x, BulkTensor y, float scale = 1, float shift = 0,
                                           std::vector<std::string> classes = {});

/// The canonical JSON that the dataset digest binds in addition to the tensors:
///
///     {"ranges":{"x":[0,255],"y":[0,9]},"scale":"0x1p-8","shift":"0x0p0"}
///
/// with an entry in `ranges` for each integer field; scale and shift in the text form of dgx-program(5); and
/// the tensor digests of `classes` and `channels` if they are there.
[[nodiscard]] std::string dataset_recipe(const Dataset& dataset);

/// The digest by which a task names its dataset: H(0x07 | RFC 6962 root over the fields as state entries |
/// SHA-256 of the recipe). Hashes all numbers.
[[nodiscard]] Result<Digest> dataset_digest(const Dataset& dataset);

class Writer;

/// A dataset bundle that is written, and has no name yet. Without commit() it leaves nothing behind.
class StagedDataset {
 public:
  StagedDataset(std::unique_ptr<Writer> writer, const Digest& digest);
  StagedDataset(StagedDataset&& other) noexcept;
  ~StagedDataset();

  [[nodiscard]] const Digest& digest() const { return digest_; }
  /// Gives the bundle its name. Errors of AtomicFile::commit, kIo.
  [[nodiscard]] Status commit();

 private:
  std::unique_ptr<Writer> writer_;
  Digest digest_;
};

/// Writes the bundle but for its name, so that of several bundles either all come to be or none. The same
/// dataset gives the same bytes. kIo.
[[nodiscard]] Result<StagedDataset> stage_dataset(AtomicFile target, const Dataset& dataset,
                                                  Effort effort = {}, Storage storage = Storage::kCompressed);
/// stage_dataset() and commit() to a target that was not created before the work; returns the digest. Errors
/// of AtomicFile::create, kIo.
[[nodiscard]] Result<Digest> write_dataset(const std::string& path, const Dataset& dataset, Clobber clobber,
                                           Effort effort = {}, Storage storage = Storage::kCompressed);

/// Reads a dataset bundle. kMalformed if anything disagrees with dgx-bundle(5); with `check` also if the
/// digest, a node or a range is wrong or a number is not finite. kMissing, kIo.
[[nodiscard]] Result<Dataset> read_dataset(const std::string& path, Check check = Check::kDigests,
                                           Effort effort = {});
/// A dataset that was read, and its digest, recomputed.
struct StoredDataset {
  Dataset data;
  Digest digest;
};
/// read_dataset() with Check::kDigests, for who compares the digest.
[[nodiscard]] Result<StoredDataset> read_stored_dataset(const std::string& path, Effort effort = {});
/// Reads all but the numbers; the digest is the one stated in the file. Same errors.
[[nodiscard]] Result<DatasetInfo> read_dataset_info(const std::string& path);

}  // namespace dgx::bundle
