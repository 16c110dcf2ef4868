#include <fmt/format.h>

#include "dgx/bundle/format.h"
#include "dgx/bundle/sources.h"

namespace dgx::bundle {

Result<std::pair<BulkTensor, BulkTensor>> read_text(const std::string& path, std::int64_t context,
                                                    std::uint64_t bulk_bytes) {
  if (context < 1) return usage_error(fmt::format("context {} is below 1", context));
  DGX_TRY(const BulkTensor file, BulkTensor::open(path, kMaxTensorBytes, bulk_bytes));
  const std::size_t size = file.bytes().size();
  const auto window = static_cast<std::size_t>(context);
  const std::size_t samples = size == 0 ? 0 : (size - 1) / window;
  if (samples == 0) {
    return usage_error(fmt::format("{}: {} bytes are fewer than one window of {} and the byte after it", path,
                                   size, context));
  }
  const Shape shape{static_cast<std::int64_t>(samples), context};
  DGX_TRY(BulkTensor x, BulkTensor::create(DType::kU8, shape, bulk_bytes));
  DGX_TRY(BulkTensor y, BulkTensor::create(DType::kU8, shape, bulk_bytes));
  Status copied = for_each_piece(samples * window, [&](std::size_t begin, std::size_t count) -> Status {
    DGX_CHECK(copy_bytes(file.view(), begin, x.bytes().subspan(begin, count)));
    DGX_CHECK(copy_bytes(file.view(), begin + 1, y.bytes().subspan(begin, count)));
    release(x.view(), begin, count);
    release(y.view(), begin, count);
    return {};
  });
  if (!copied.ok()) return within(path, std::move(copied).error());
  return std::pair{std::move(x), std::move(y)};
}

}  // namespace dgx::bundle
