#include <fmt/format.h>

#include <cstring>

#include "dgx/bundle/format.h"
#include "dgx/bundle/sources.h"
#include "dgx/core/files.h"

namespace dgx::bundle {

Result<std::pair<Tensor, Tensor>> read_text(const std::string& path, std::int64_t context) {
  if (context < 1) return usage_error(fmt::format("context {} is below 1", context));
  DGX_TRY(const std::string content, read_file(path, kMaxTensorBytes));
  const auto window = static_cast<std::size_t>(context);
  const std::size_t samples = content.empty() ? 0 : (content.size() - 1) / window;
  if (samples == 0) {
    return usage_error(fmt::format("{}: {} bytes are fewer than one window of {} and the byte after it", path,
                                   content.size(), context));
  }
  const Shape shape{static_cast<std::int64_t>(samples), context};
  Tensor x(DType::kU8, shape);
  Tensor y(DType::kU8, shape);
  std::memcpy(x.bytes().data(), content.data(), samples * window);
  std::memcpy(y.bytes().data(), content.data() + 1, samples * window);
  return std::pair{std::move(x), std::move(y)};
}

}  // namespace dgx::bundle
