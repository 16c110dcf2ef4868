#include "dgx/core/remote.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <mutex>
#include <optional>

namespace dgx {
namespace {

constexpr std::size_t kMostUrlBytes = 2048;
constexpr std::string_view kSecure = "https://";
constexpr std::string_view kPlain = "http://";

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

bool is_alphanumeric(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool is_host(std::string_view host) {
  if (host.starts_with('[') && host.ends_with(']')) {
    const std::string text(host.substr(1, host.size() - 2));
    in6_addr address{};
    // inet_pton() ends at a byte of 0, behind which anything could stand.
    return text.find('\0') == std::string::npos && ::inet_pton(AF_INET6, text.c_str(), &address) == 1;
  }
  return !host.empty() && host.front() != '.' && host.front() != '-' &&
         std::ranges::all_of(host, [](char c) { return is_alphanumeric(c) || c == '.' || c == '-'; });
}

/// Not what a resolver may think of it: 127.1 and 0x7f000001 are names like any other.
bool is_loopback(const std::string& host) {
  in_addr address{};
  if (::inet_pton(AF_INET, host.c_str(), &address) == 1) return ntohl(address.s_addr) >> 24 == 127;
  return host == "localhost" || host == "[::1]";
}

/// True if the parts of a path are names: a server, or what stands before it, may read "..", "." and "//" as
/// another path.
bool is_plain_path(std::string_view path) {
  std::string text = lower(path);
  for (std::size_t at = text.find("%2e"); at != std::string::npos; at = text.find("%2e", at))
    text.replace(at, 3, ".");
  text.erase(0, 1);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('/', begin), text.size());
    const std::string_view part = std::string_view(text).substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") return false;
    begin = end + 1;
  }
  return text.find("%2f") == std::string::npos && text.find("%5c") == std::string::npos &&
         text.find("%00") == std::string::npos;
}

/// Takes the port off an authority. nullopt if it is none, or not a number.
std::optional<std::string> take_port(std::string& authority, bool secure) {
  const std::size_t colon = authority.find(':', authority.starts_with('[') ? authority.find(']') : 0);
  if (colon == std::string::npos) return "";
  const std::string port = authority.substr(colon + 1);
  authority.resize(colon);
  unsigned number = 0;
  const auto [stop, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (error != std::errc() || stop != port.data() + port.size() || number < 1 || number > 65535)
    return std::nullopt;
  return number == (secure ? 443U : 80U) ? "" : ":" + std::to_string(number);
}

/// The URLs that were allowed, and who opens them.
class Allowed {
 public:
  void add(const std::string& url, OpenRemote open) {
    const std::lock_guard lock(mutex_);
    openers_.insert_or_assign(url, std::move(open));
  }
  [[nodiscard]] OpenRemote find(const std::string& url) const {
    const std::lock_guard lock(mutex_);
    const auto same = openers_.find(url);
    if (same != openers_.end()) return same->second;
    // The names of a run's files, which follow from numbers and digests, have no other letters.
    const std::size_t slash = url.rfind('/') + 1;
    const bool is_name =
        url[slash] != '.' && std::all_of(url.begin() + static_cast<std::ptrdiff_t>(slash), url.end(),
                                         [](char c) { return is_alphanumeric(c) || c == '-' || c == '.'; });
    const auto folder = is_name ? openers_.find(url.substr(0, slash)) : openers_.end();
    return folder != openers_.end() ? folder->second : OpenRemote();
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, OpenRemote, std::less<>> openers_;
};

Allowed& allowed() {
  static Allowed all;
  return all;
}

}  // namespace

bool is_url(std::string_view path) {
  return lower(path.substr(0, kSecure.size())) == kSecure || lower(path.substr(0, kPlain.size())) == kPlain;
}

Result<Url> parse_url(std::string_view text) {
  if (!is_url(text)) return usage_error("is not a URL of http or https");
  if (text.size() > kMostUrlBytes) return usage_error("is a URL that is too long");
  Url out;
  out.secure = lower(text.substr(0, kSecure.size())) == kSecure;
  const std::string_view scheme = out.secure ? kSecure : kPlain;
  text.remove_prefix(scheme.size());
  const std::size_t slash = std::min(text.find('/'), text.size());
  std::string authority = lower(text.substr(0, slash));
  out.path = text.substr(slash);
  if (text.find('@') < slash)
    return usage_error("a URL has a user or a password, which everybody could read in lists of processes");
  if (text.find_first_of("?#") != std::string_view::npos)
    return usage_error("a URL has a query or a fragment", "fetch the file, and name it");
  const auto port = take_port(authority, out.secure);
  if (!port || !is_host(authority)) return usage_error("a URL has no host or port that can be read");
  const bool printable =
      std::ranges::all_of(out.path, [](char c) { return c > 0x20 && c < 0x7f && c != '\\' && c != '"'; });
  if (out.path.empty() || !printable || !is_plain_path(out.path))
    return usage_error("a URL has no path of plain names with a \"/\" between each two",
                       "other characters are written as %20; \"..\" and \".\" are not taken");
  out.loopback = is_loopback(authority);
  out.origin = std::string(scheme) + authority + *port;
  return out;
}

void allow_remote(const std::string& url, OpenRemote open) { allowed().add(url, std::move(open)); }

Result<std::unique_ptr<RemoteFile>> open_remote(const std::string& url) {
  if (const OpenRemote open = allowed().find(url)) return open(url);
  return usage_error("is a URL where a file is expected",
                     "only the options that say so take URLs, and nothing that a file names");
}

}  // namespace dgx
