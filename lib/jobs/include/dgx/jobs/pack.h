#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "dgx/bundle/dataset.h"
#include "dgx/core/job_context.h"
#include "dgx/core/result.h"

namespace dgx::jobs {

/// The options that all forms of dgx-pack(1) share.
struct PackOptions {
  std::string output;  ///< DATA.h5
  double scale = 1;    ///< rounded once to binary32
  double shift = 0;
  std::optional<std::int64_t> first;  ///< only the first N samples
};

// Each packs one format (dgx-pack(1)) into a dataset. Errors of the reader of the format, of
// bundle::make_dataset(), and of writing.

/// Packs two IDX files, as MNIST has them.
[[nodiscard]] Result<bundle::DatasetInfo> pack_idx(const std::string& images, const std::string& labels,
                                                   const PackOptions& options, const JobContext& context);
/// Packs two .npy files.
[[nodiscard]] Result<bundle::DatasetInfo> pack_npy(const std::string& x, const std::string& y,
                                                   const PackOptions& options, const JobContext& context);
/// Packs a text: a sample's x is a window of `window` bytes, its y the byte after each of them.
[[nodiscard]] Result<bundle::DatasetInfo> pack_text(const std::string& file, std::int64_t window,
                                                    const PackOptions& options, const JobContext& context);
/// Packs two datasets of one HDF5 file.
[[nodiscard]] Result<bundle::DatasetInfo> pack_hdf5(const std::string& file, const std::string& x_path,
                                                    const std::string& y_path, const PackOptions& options,
                                                    const JobContext& context);

}  // namespace dgx::jobs
