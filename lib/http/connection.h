#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "dgx/core/remote.h"
#include "dgx/core/result.h"

namespace dgx::http {

/// The server's account of a file.
struct Version {
  std::uint64_t size_bytes = 0;
  std::string tag;  ///< its strong entity tag; empty if it gives none
  bool operator==(const Version&) const = default;
};

/// A range of a file that came.
struct Answer {
  Version version;
  std::uint64_t size_bytes = 0;  ///< of the range: less than was asked for where the file ends
};

/// An answer that is of no use.
struct Failure {
  Error error;
  bool passing = false;  ///< another try may have more luck
  std::string moved_to;  ///< not empty: the server says that the file is there
};

/// A connection to a server, which asks for one range after another, and is kept alive between them. Of one
/// thread at a time.
///
/// It follows no redirect by itself, sends no cookie and no password, unpacks nothing, and takes no more
/// bytes than it asked for: the server may be anybody's.
class Connection {
 public:
  /// `options` and `closing`, which ends what is under way, outlive it. kInternal.
  [[nodiscard]] static Result<Connection> create(const HttpOptions& options,
                                                 const std::atomic<bool>& closing);
  Connection(Connection&&) noexcept;
  ~Connection();

  /// Asks for out.size() bytes, at least one, of the file at `url`, from `begin` on; the beginning of `out`
  /// gets them. `failure` says what is wrong if that is not possible.
  [[nodiscard]] bool get(const std::string& url, std::uint64_t begin, std::span<std::uint8_t> out,
                         Answer& answer, Failure& failure);

 private:
  struct Impl;
  explicit Connection(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dgx::http
