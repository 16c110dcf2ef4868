#include "connection.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <string_view>

#include "content_range.h"
#include "dgx/core/version.h"

namespace dgx::http {
namespace {

/// Slower than this for the whole of the timeout is no progress.
constexpr long kLeastBytesPerSecond = 1024;
/// The most of an answer that nobody asked for, such as the page of a redirect.
constexpr std::size_t kMostRefuse = 65536;
constexpr std::size_t kMostHeaderBytes = 65536;
/// No file is larger, as structure.h takes it.
constexpr std::uint64_t kMostFileBytes = std::uint64_t{1} << 56;

struct CloseHandle {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && std::strchr(" \t\r\n", text.back()) != nullptr) text.remove_suffix(1);
  return text;
}

/// Words of the library, which may quote the server's certificate, without what a terminal would obey.
std::string printable(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c < 0x20 || c > 0x7e) c = '?';
  return out;
}

void begin_library() {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
}

Failure failed(ErrorCode code, std::string message, std::string hint = {}) {
  return {{code, std::move(message), std::move(hint)}, false, {}};
}
Failure passing(std::string message) { return {{ErrorCode::kIo, std::move(message), {}}, true, {}}; }

}  // namespace

/// One request and its answer, as far as it has come.
struct Connection::Impl {
  std::unique_ptr<CURL, CloseHandle> handle;
  const HttpOptions* options = nullptr;
  const std::atomic<bool>* closing = nullptr;
  std::array<char, CURL_ERROR_SIZE> reason{};

  std::uint64_t begin = 0;
  std::span<std::uint8_t> out;
  std::size_t got = 0;      ///< bytes of the range
  std::size_t refused = 0;  ///< bytes of an answer without one
  std::size_t head = 0;     ///< bytes of the headers
  bool too_much = false;
  std::string range, tag;  ///< the headers that count

  [[nodiscard]] bool stopped() const {
    return closing->load(std::memory_order_relaxed) ||
           (options->stop != nullptr && options->stop->requested());
  }
  [[nodiscard]] long status() const {
    long code = 0;
    curl_easy_getinfo(handle.get(), CURLINFO_RESPONSE_CODE, &code);
    return code;
  }
  [[nodiscard]] CURLcode set_options();
  /// Each returns how many of the bytes it took: fewer end the transfer.
  std::size_t take_header(std::string_view line);
  std::size_t take_body(const char* bytes, std::size_t count);
  [[nodiscard]] Failure failure_of(CURLcode code) const;
  [[nodiscard]] Failure failure_of_status(long code) const;
  [[nodiscard]] bool check_range(Answer& answer, Failure& failure) const;

  // The functions that libcurl calls.
  static std::size_t on_header(char* line, std::size_t unit, std::size_t count, void* impl) {
    return static_cast<Impl*>(impl)->take_header({line, unit * count});
  }
  static std::size_t on_body(char* bytes, std::size_t unit, std::size_t count, void* impl) {
    return static_cast<Impl*>(impl)->take_body(bytes, unit * count);
  }
  static int on_progress(void* impl, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    return static_cast<Impl*>(impl)->stopped() ? 1 : 0;
  }
};

std::size_t Connection::Impl::take_header(std::string_view line) {
  constexpr std::size_t kMostBytes = 512;
  head += line.size();
  if (head > kMostHeaderBytes) {
    too_much = true;
    return 0;
  }
  if (line.starts_with("HTTP/")) {  // the answer, after an interim one
    range.clear();
    tag.clear();
  }
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos || line.size() > kMostBytes) return line.size();
  std::string name(line.substr(0, colon));
  std::ranges::transform(name, name.begin(),
                         [](char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c); });
  const std::string_view value = trimmed(line.substr(colon + 1));
  if (name == "content-range") range = value;
  if (name == "etag" && value.starts_with('"')) tag = value;  // "W/…" does not name bytes
  return line.size();
}

std::size_t Connection::Impl::take_body(const char* bytes, std::size_t count) {
  const long code = status();
  if (code == 200) return 0;  // the whole file
  if (code != 206) {
    refused += count;
    return refused > kMostRefuse ? 0 : count;
  }
  if (count > out.size() - got) {
    too_much = true;
    return 0;
  }
  std::memcpy(out.data() + got, bytes, count);
  got += count;
  return count;
}

CURLcode Connection::Impl::set_options() {
  CURL* const curl = handle.get();
  CURLcode worst = CURLE_OK;
  const auto set = [&](CURLoption option, auto value) {
    const CURLcode code = curl_easy_setopt(curl, option, value);
    if (code != CURLE_OK) worst = code;
  };
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  set(CURLOPT_FOLLOWLOCATION, 0L);
  set(CURLOPT_PATH_AS_IS, 1L);
  set(CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED));
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_TCP_KEEPALIVE, 1L);
  set(CURLOPT_BUFFERSIZE, 256L * 1024);
  set(CURLOPT_CONNECTTIMEOUT, static_cast<long>(options->timeout_seconds));
  set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(options->timeout_seconds));
  set(CURLOPT_LOW_SPEED_LIMIT, kLeastBytesPerSecond);
  set(CURLOPT_SSL_VERIFYPEER, 1L);
  set(CURLOPT_SSL_VERIFYHOST, 2L);
  if (!options->certificates.empty()) set(CURLOPT_CAINFO, options->certificates.c_str());
  set(CURLOPT_USERAGENT, fmt::format("dgx/{}", version()).c_str());
  set(CURLOPT_ERRORBUFFER, reason.data());
  set(CURLOPT_NOPROGRESS, 0L);
  set(CURLOPT_XFERINFOFUNCTION, on_progress);
  set(CURLOPT_XFERINFODATA, this);
  set(CURLOPT_HEADERFUNCTION, on_header);
  set(CURLOPT_HEADERDATA, this);
  set(CURLOPT_WRITEFUNCTION, on_body);
  set(CURLOPT_WRITEDATA, this);
  return worst;
}

Failure Connection::Impl::failure_of_status(long code) const {
  switch (code) {
    case 200:
      return failed(ErrorCode::kIo, "the server gives no parts of files, only whole ones",
                    "fetch the file, and name it; or serve it by a server that knows ranges");
    case 301:
    case 302:
    case 303:
    case 307:
    case 308: {
      const char* to = nullptr;
      curl_easy_getinfo(handle.get(), CURLINFO_REDIRECT_URL, &to);
      Failure out =
          failed(ErrorCode::kIo, fmt::format("the server answers with status {} and no place", code));
      if (to != nullptr) out.moved_to = to;
      return out;
    }
    case 401:
    case 403: return failed(ErrorCode::kIo, fmt::format("the server does not give it out (status {})", code));
    case 404:
    case 410: return failed(ErrorCode::kMissing, "does not exist on the server");
    case 416:
      return failed(ErrorCode::kBadData, fmt::format("the server has nothing from byte {} on", begin),
                    "the file is empty, or changed while it was read");
    case 429:
    case 500:
    case 502:
    case 503:
    case 504: return passing(fmt::format("the server answers with status {}", code));
    default: return failed(ErrorCode::kIo, fmt::format("the server answers with status {}", code));
  }
}

Failure Connection::Impl::failure_of(CURLcode code) const {
  if (stopped()) return failed(ErrorCode::kInterrupted, "stopped");
  if (too_much) return failed(ErrorCode::kIo, "the server sends more than it was asked for");
  if (code == CURLE_WRITE_ERROR) return failure_of_status(status());
  const std::string words = printable(reason[0] != '\0' ? reason.data() : curl_easy_strerror(code));
  switch (code) {
    case CURLE_OPERATION_TIMEDOUT:
      return failed(ErrorCode::kIo,
                    fmt::format("the server stalls: {} of {} bytes came, and none for {} seconds", got,
                                out.size(), options->timeout_seconds),
                    "DGX_HTTP_TIMEOUT is the number of seconds");
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_GOT_NOTHING:
      return passing(
          fmt::format("the server ended the answer after {} of {} bytes: {}", got, out.size(), words));
    case CURLE_COULDNT_CONNECT:
    case CURLE_COULDNT_RESOLVE_HOST: return passing(words);
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
      return failed(ErrorCode::kIo, words, "DGX_CERTIFICATES names a file of other authorities");
    default: return failed(ErrorCode::kIo, words);
  }
}

/// Compares the range that came with the one that was asked for.
bool Connection::Impl::check_range(Answer& answer, Failure& failure) const {
  const auto stated = parse_content_range(range);
  const bool begins = stated && stated->first == begin && stated->size <= kMostFileBytes;
  if (!begins || stated->last != std::min(begin + out.size(), stated->size) - 1) {
    failure =
        failed(ErrorCode::kIo, fmt::format("the server gives another part of the file than bytes {} to {}",
                                           begin, begin + out.size() - 1));
    return false;
  }
  answer = {{stated->size, tag}, stated->last - stated->first + 1};
  if (got == answer.size_bytes) return true;
  failure = passing(fmt::format("the server ended the answer after {} of {} bytes", got, answer.size_bytes));
  return false;
}

Connection::Connection(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Connection::Connection(Connection&&) noexcept = default;
Connection::~Connection() = default;

Result<Connection> Connection::create(const HttpOptions& options, const std::atomic<bool>& closing) {
  begin_library();
  auto impl = std::make_unique<Impl>();
  impl->handle.reset(curl_easy_init());
  impl->options = &options;
  impl->closing = &closing;
  if (!impl->handle) return internal_error("libcurl cannot begin");
  if (const CURLcode code = impl->set_options(); code != CURLE_OK)
    return internal_error(fmt::format("libcurl lacks something: {}", curl_easy_strerror(code)));
  return Connection(std::move(impl));
}

bool Connection::get(const std::string& url, std::uint64_t begin, std::span<std::uint8_t> out, Answer& answer,
                     Failure& failure) {
  Impl& impl = *impl_;
  CURL* const curl = impl.handle.get();
  impl.begin = begin;
  impl.out = out;
  impl.got = impl.refused = impl.head = 0;
  impl.too_much = false;
  impl.reason[0] = '\0';
  const std::string range = fmt::format("{}-{}", begin, begin + out.size() - 1);
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_RANGE, range.c_str());
  // A proxy sees and can change what goes through it by plain http, and this machine needs none.
  if (!url.starts_with("https:")) curl_easy_setopt(curl, CURLOPT_PROXY, "");
  const CURLcode code = curl_easy_perform(curl);
  if (code == CURLE_OK && impl.status() == 206) return impl.check_range(answer, failure);
  failure = code == CURLE_OK ? impl.failure_of_status(impl.status()) : impl.failure_of(code);
  return false;
}

}  // namespace dgx::http
