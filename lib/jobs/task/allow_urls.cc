#include "task/allow_urls.h"

#include <dlfcn.h>

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "dgx/core/beside.h"
#include "dgx/core/remote.h"
#include "dgx/core/version.h"

namespace dgx::jobs {
namespace {

Result<OpenHttpFunction> open_http_module() {
  const std::string path = beside_program("DGX_HTTP_MODULE", "lib/dgx/libdgx_http.so");
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);  // stays open as long as the process lives
  if (handle == nullptr)
    return internal_error(
        std::string("cannot open the module that reads URLs: ") + ::dlerror(),
        "it is built where libcurl is found, and needs it (dgx(7), FILES); or fetch the file");
  const auto open = reinterpret_cast<OpenHttpFunction>(::dlsym(handle, kOpenHttpSymbol));
  if (open == nullptr)
    return internal_error(path + ": no " + kOpenHttpSymbol, "it belongs to another version of dgx");
  return open;
}

Result<HttpOptions> http_options(bool insecure, const JobContext& context) {
  constexpr int kMostSeconds = 3600;
  HttpOptions out;
  out.insecure = insecure;
  out.stop = &context.stop;
  if (const char* const file = std::getenv("DGX_CERTIFICATES")) out.certificates = file;
  const char* const timeout = std::getenv("DGX_HTTP_TIMEOUT");
  const std::string_view text = timeout != nullptr ? timeout : "";
  if (text.empty()) return out;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), out.timeout_seconds);
  const bool is_number = error == std::errc() && stop == text.data() + text.size();
  if (is_number && out.timeout_seconds >= 1 && out.timeout_seconds <= kMostSeconds) return out;
  return usage_error("DGX_HTTP_TIMEOUT is not a number of seconds, 1 to 3600");
}

/// Checks what can be checked without a connection, before the URL is in any message.
Status check_url(const std::string& url, bool insecure) {
  DGX_TRY(const Url parts, parse_url(url));
  if (parts.secure || parts.loopback || insecure) return {};
  return usage_error(url + ": plain http is taken only from this machine itself",
                     "use https; --insecure takes it from any");
}

}  // namespace

Status allow_urls(std::initializer_list<std::string> named, bool insecure, const JobContext& context) {
  bool any = false;
  for (const std::string& path : named) {
    if (!is_url(path)) continue;
    any = true;
    DGX_CHECK(check_url(path, insecure));
    DGX_TRY(const HttpOptions options, http_options(insecure, context));
    DGX_TRY(const OpenHttpFunction open, open_http_module());
    allow_remote(path, [=](const std::string& url) {
      Result<std::unique_ptr<RemoteFile>> out = std::unique_ptr<RemoteFile>();
      if (!open(version(), options, url, &out))
        out = internal_error("libdgx_http.so belongs to another version of dgx",
                             "build both together, or check DGX_HTTP_MODULE");
      return out;
    });
  }
  if (insecure && !any) return usage_error("--insecure has no effect without a URL", "leave out --insecure");
  return {};
}

}  // namespace dgx::jobs
