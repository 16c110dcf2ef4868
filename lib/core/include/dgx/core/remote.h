#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "dgx/core/result.h"
#include "dgx/core/stop.h"

namespace dgx {

/// Files on servers. Which of them a process opens is for its user alone to say: a URL is opened only if it
/// was named by allow_remote(), whatever path a statement, a list or a folder may hold. All functions may be
/// called from any thread.

/// A file on a server, read by ranges. Its bytes may be anything, and others each time: whoever reads them
/// checks them.
class RemoteFile {
 public:
  virtual ~RemoteFile() = default;
  /// The length that the server stated when the file was opened.
  [[nodiscard]] virtual std::uint64_t size_bytes() const = 0;
  /// Fills `out` from byte `begin` on; all of it is within the length. May be called from several threads.
  /// kBadData if the server has another file there by now, kIo, kInterrupted; messages lack the URL.
  [[nodiscard]] virtual Status read(std::uint64_t begin, std::span<std::uint8_t> out) = 0;
  /// Begins to fetch a range, which is within the length, in the background.
  virtual void expect(std::uint64_t begin, std::uint64_t size) = 0;
};

/// The most memory that an open one takes, beside what is asked of it: blocks that are kept, connections.
inline constexpr std::int64_t kRemoteFileBytes = std::int64_t{48} << 20;

/// True if `path` names a file on a server: it begins with "http://" or "https://", in letters of any case.
[[nodiscard]] bool is_url(std::string_view path);

/// The parts of a URL.
struct Url {
  std::string origin;  ///< "https://host:8443", in lower case, without the port that the scheme implies
  std::string path;    ///< from the first "/" on, as it was given
  bool secure = false;
  bool loopback = false;  ///< the host is "localhost" or an address of this machine itself
};
/// Parses a URL of the one form that is read: scheme, host, optionally a port, and a path of printable ASCII
/// without "..", "." or empty parts (but for an empty last one), query or fragment. A user, a password and a
/// query are refused since they would be in messages and in lists of processes; so no error quotes the URL.
/// kUsage.
[[nodiscard]] Result<Url> parse_url(std::string_view text);

using OpenRemote = std::function<Result<std::unique_ptr<RemoteFile>>(const std::string& url)>;

/// Lets open_remote() open a URL by `open`: this one or, if it ends in "/", the files of that folder. The
/// last call for a URL counts.
void allow_remote(const std::string& url, OpenRemote open);
/// Opens a file on a server. kUsage for a URL that nobody has allowed; errors of the opener.
[[nodiscard]] Result<std::unique_ptr<RemoteFile>> open_remote(const std::string& url);

/// The choices of who reads by http.
struct HttpOptions {
  bool insecure = false;           ///< plain http from any host, not from this machine alone
  int timeout_seconds = 30;        ///< to connect, and without progress
  std::string certificates;        ///< a file of authorities, in PEM; empty: the system's
  const StopFlag* stop = nullptr;  ///< ends every wait; outlives the files
};
/// The function that libdgx_http.so exports: opens `url` into `out`. Returns false, and does nothing, if the
/// module is not of version `version` of dgx. kMissing, kIo, kInterrupted; kUsage for a URL that
/// parse_url() refuses, and for plain http from another machine, unless that is wanted.
using OpenHttpFunction = bool (*)(std::string_view version, const HttpOptions& options,
                                  const std::string& url, Result<std::unique_ptr<RemoteFile>>* out);
inline constexpr const char* kOpenHttpSymbol = "dgx_open_http";

}  // namespace dgx
