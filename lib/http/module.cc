#include "dgx/core/version.h"
#include "http_file.h"

namespace dgx::http {

extern "C" __attribute__((visibility("default"))) bool dgx_open_http(
    std::string_view version, const HttpOptions& options, const std::string& url,
    Result<std::unique_ptr<RemoteFile>>* out);

bool dgx_open_http(std::string_view version, const HttpOptions& options, const std::string& url,
                   Result<std::unique_ptr<RemoteFile>>* out) {
  if (version != dgx::version()) return false;
  *out = HttpFile::open(url, options);
  return true;
}

}  // namespace dgx::http
