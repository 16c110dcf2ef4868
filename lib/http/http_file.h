#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "connection.h"
#include "dgx/core/bytes.h"
#include "dgx/core/remote.h"

namespace dgx::http {

/// A file on a server of http or https, of which ranges are fetched when they are needed.
///
/// Small reads go through blocks of 4 KiB, of which the last 32 MiB are kept: what a bundle says of itself
/// lies in a few of them. Blocks that are read one after another are fetched ahead, twice as many each time,
/// up to a mebibyte. Rows that are expected are fetched by eight threads, each with a connection of its own,
/// since a single one would wait for the way to the server and back each time. A large read is one request,
/// straight into the reader's memory.
///
/// Every answer has to state the length and, if there is one, the entity tag that the first one stated. It is
/// the server that says so, and nobody believes it: readers compare digests. But a file that is replaced is
/// told for what it is.
class HttpFile final : public RemoteFile {
 public:
  /// Asks for the file's first block. Errors of OpenHttpFunction.
  [[nodiscard]] static Result<std::unique_ptr<RemoteFile>> open(const std::string& url,
                                                                const HttpOptions& options);
  ~HttpFile() override;

  [[nodiscard]] std::uint64_t size_bytes() const override { return version_.size_bytes; }
  [[nodiscard]] Status read(std::uint64_t begin, std::span<std::uint8_t> out) override;
  void expect(std::uint64_t begin, std::uint64_t size) override;

 private:
  using Block = std::shared_ptr<const Bytes>;
  using Index = std::uint64_t;  ///< of a block
  struct Kept {
    Block block;
    std::list<Index>::iterator use;
  };

  HttpFile(Url url, HttpOptions options)
      : url_(url.origin + url.path), origin_(std::move(url.origin)), options_(std::move(options)) {}
  [[nodiscard]] Status begin();
  /// Asks for one range, after redirects within the host; more than once if `tries` says so.
  [[nodiscard]] Result<Answer> ask(std::uint64_t begin, std::span<std::uint8_t> out, int tries);
  [[nodiscard]] bool try_once(std::uint64_t begin, std::span<std::uint8_t> out, Answer& answer,
                              Failure& failure);
  [[nodiscard]] Status follow(const std::string& to);
  [[nodiscard]] Status fetch(std::uint64_t begin, std::span<std::uint8_t> out);
  [[nodiscard]] Status compare(const Version& now) const;
  /// A block, of which this read still wants `wanted` in a row.
  [[nodiscard]] Result<Block> block(Index index, Index wanted);
  [[nodiscard]] Index run_from(Index index, Index wanted);
  [[nodiscard]] Index block_count() const;
  [[nodiscard]] std::uint64_t end_of(Index index) const;
  void keep(Index index, ByteView bytes);
  void fetch_expected();

  std::string url_;  ///< where the file is by now
  std::string origin_;
  HttpOptions options_;
  Version version_;
  std::atomic<bool> closing_ = false;

  std::mutex connections_mutex_;  ///< also of url_
  std::vector<Connection> idle_;

  std::mutex blocks_mutex_;
  std::condition_variable changed_;  ///< a block came, or did not; one is expected; the file is closed
  std::map<Index, Kept> blocks_;
  std::list<Index> uses_;  ///< of blocks_, the last used first
  std::set<Index> coming_;
  Index next_ = 0;   ///< the block after the last that was fetched, and
  Index ahead_ = 1;  ///< how many are fetched at once if that is the next
  std::deque<Index> expected_;
  std::vector<std::thread> fetchers_;
};

}  // namespace dgx::http
