// Files on servers: the URLs that users name, and the parts of files that answers state.

#include "content_range.h"
#include "dgx/core/remote.h"
#include "target.h"

using namespace dgx;

std::vector<std::string> fuzz::seeds() {
  return {"https://data.example:8443/a/b.h5",
          "http://[::1]:8000/run/",
          std::string("http://[::1\0\\]:8000/run/", 24),
          "HTTP://127.0.0.1/%20x",
          "http://me@h/x",
          "bytes 0-65535/1000000",
          "bytes 5-5/6",
          "bytes */7"};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(fuzz::text_of(data, size));
  if (const auto url = parse_url(text); url.ok()) {
    const auto again = parse_url(url->origin + url->path);
    fuzz::require(again.ok() && again->origin == url->origin && again->path == url->path,
                  "origin and path are the URL");
    fuzz::require(again->secure == url->secure && again->loopback == url->loopback,
                  "and lead to the same place");
    fuzz::require(text.find_first_of("?#\\") == std::string::npos, "no query, no fragment");
    fuzz::require(url->origin.find('@') == std::string::npos, "no user");
    fuzz::require((url->path + "/").find("/../") == std::string::npos, "no way up");
  }
  if (const auto range = http::parse_content_range(text)) {
    fuzz::require(range->first <= range->last && range->last < range->size, "a part lies in its file");
  }
  return 0;
}
