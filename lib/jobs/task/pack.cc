#include "dgx/jobs/pack.h"

#include <utility>

#include "dgx/bundle/sources.h"

namespace dgx::jobs {
namespace {

Result<bundle::DatasetInfo> pack(BulkTensor x, BulkTensor y, const PackOptions& options,
                                 const JobContext& context) {
  DGX_TRY(const bundle::Dataset data,
          bundle::make_dataset(std::move(x), std::move(y), static_cast<float>(options.scale),
                               static_cast<float>(options.shift), options.first));
  DGX_TRY([[maybe_unused]] const Digest digest,
          bundle::write_dataset(options.output, data, context.clobber, {.threads = context.threads}));
  return bundle::read_dataset_info(options.output);
}

}  // namespace

Result<bundle::DatasetInfo> pack_idx(const std::string& images, const std::string& labels,
                                     const PackOptions& options, const JobContext& context) {
  DGX_TRY(BulkTensor x, bundle::read_idx(images));
  DGX_TRY(BulkTensor y, bundle::read_idx(labels));
  return pack(std::move(x), std::move(y), options, context);
}

Result<bundle::DatasetInfo> pack_npy(const std::string& x_file, const std::string& y_file,
                                     const PackOptions& options, const JobContext& context) {
  DGX_TRY(BulkTensor x, bundle::read_npy(x_file));
  DGX_TRY(BulkTensor y, bundle::read_npy(y_file));
  return pack(std::move(x), std::move(y), options, context);
}

Result<bundle::DatasetInfo> pack_text(const std::string& file, std::int64_t window,
                                      const PackOptions& options, const JobContext& context) {
  DGX_TRY(auto fields, bundle::read_text(file, window));
  return pack(std::move(fields.first), std::move(fields.second), options, context);
}

Result<bundle::DatasetInfo> pack_hdf5(const std::string& file, const std::string& x_path,
                                      const std::string& y_path, const PackOptions& options,
                                      const JobContext& context) {
  DGX_TRY(BulkTensor x, bundle::read_hdf5(file, x_path));
  DGX_TRY(BulkTensor y, bundle::read_hdf5(file, y_path));
  return pack(std::move(x), std::move(y), options, context);
}

}  // namespace dgx::jobs
