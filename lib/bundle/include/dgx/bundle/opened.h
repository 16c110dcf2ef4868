#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dgx/bundle/dataset.h"
#include "dgx/core/bytes.h"
#include "dgx/core/result.h"
#include "dgx/core/rows.h"
#include "dgx/core/stop.h"
#include "dgx/merkle/digests.h"
#include "dgx/merkle/openings.h"

namespace dgx::bundle {

/// Sizes and threads of an opened dataset, and its cache. The sizes are those of dgx-bundle(5), "OPENED
/// DATASETS"; only tests choose others.
struct OpenEffort {
  int threads = 0;  ///< to unpack compressed fields; 0: as many as the process may use
  std::uint64_t max_bytes = kMaxTensorBytes;  ///< of all compressed fields together
  const StopFlag* stop = nullptr;             ///< ends the wait for another process that unpacks
  std::uint64_t keep_below = kBulkBytes;  ///< a field of fewer bytes keeps the groups that it has believed
  std::uint64_t cache_from = 1U << 20U;   ///< a compressed field of as many bytes goes into the cache
  std::uint64_t bulk_bytes = kBulkBytes;  ///< without a cache, one of as many goes into a nameless file
  std::optional<std::string> cache = {};  ///< the cache's folder, or a store; none: as DGX_CACHE says
};

class OpenedField;

/// A dataset whose digest is known, and whose numbers are read row by row, and believed, as they are needed:
/// dgx-bundle(5), "OPENED DATASETS". Opening it costs the structure and two hashes for each 16 KiB of
/// numbers, and for compressed fields their unpacking, once on a machine. Bytes that no row needs are never
/// read, and are never an error.
///
/// Rows may be read from several threads. A copy refers to the same fields.
class OpenedDataset {
 public:
  /// `accept` is asked about the metadata before anything is unpacked, and its error is returned. kMissing,
  /// kIo; kMalformed if anything but the numbers disagrees with dgx-bundle(5), and for more numbers than a
  /// process may unpack; kInterrupted.
  [[nodiscard]] static Result<OpenedDataset> open(
      const std::string& path, const OpenEffort& effort = {},
      const std::function<Status(const DatasetInfo&)>& accept = {});

  /// The metadata. Its digest is the one that the nodes give, and the one that the file states.
  [[nodiscard]] const DatasetInfo& info() const { return info_; }
  /// The tensor digests of the fields, ascending by name.
  [[nodiscard]] const std::vector<merkle::NamedDigest>& tensors() const { return tensors_; }
  /// The recipe, which the dataset's digest binds besides the fields: dataset_recipe().
  [[nodiscard]] std::string recipe() const;
  /// The rows by field. Of a row, digest and numbers are checked: kBadData, naming file, field and row.
  [[nodiscard]] FieldRows rows() const;
  /// Opens a leaf of a field for a referee. kUsage if there is no such field or leaf; errors of a row.
  [[nodiscard]] Result<merkle::TensorOpening> open_leaf(std::string_view field, std::uint64_t leaf) const;
  /// The reasons, in words, why the cache was not used when the dataset was opened.
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }
  /// Says, for each field of which the cache had something wrong so far, that it had.
  [[nodiscard]] std::vector<std::string> wrong_in_cache() const;

 private:
  DatasetInfo info_;
  std::vector<merkle::NamedDigest> tensors_;
  std::map<std::string, std::shared_ptr<const OpenedField>, std::less<>> fields_;
  std::vector<std::string> warnings_;
};

}  // namespace dgx::bundle
