#include "http_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>

namespace dgx::http {
namespace {

/// A group of a dataset has 16 KiB, which is believed as a whole, and lies anywhere: small blocks fetch
/// little beside it.
constexpr std::uint64_t kBlockBytes = 4096;
constexpr std::size_t kMostBlocks = 8192;
constexpr std::uint64_t kFirstBlocks = 16;
constexpr std::uint64_t kMostAhead = 256;
/// A read of as many bytes goes past the blocks.
constexpr std::size_t kLargeBytes = 64 * kBlockBytes;
constexpr std::size_t kFetchers = 8;
constexpr std::size_t kMostExpected = 4096;
constexpr int kTries = 3;
constexpr int kMostRedirects = 5;

}  // namespace

Result<std::unique_ptr<RemoteFile>> HttpFile::open(const std::string& url, const HttpOptions& options) {
  DGX_TRY(Url parts, parse_url(url));
  if (!parts.secure && !parts.loopback && !options.insecure)
    return usage_error("plain http is taken only from this machine itself",
                       "use https; --insecure takes it from any");
  std::unique_ptr<HttpFile> file(new HttpFile(std::move(parts), options));
  DGX_CHECK(file->begin());
  return std::unique_ptr<RemoteFile>(std::move(file));
}

HttpFile::~HttpFile() {
  closing_ = true;
  {
    const std::lock_guard lock(blocks_mutex_);
    changed_.notify_all();
  }
  for (std::thread& fetcher : fetchers_) fetcher.join();
}

Status HttpFile::begin() {
  Bytes first(kFirstBlocks * kBlockBytes);
  DGX_TRY(const Answer answer, ask(0, first, 1));  // a server that is not there is told at once
  version_ = answer.version;
  first.resize(answer.size_bytes);
  const std::lock_guard lock(blocks_mutex_);
  next_ = std::min(kFirstBlocks, block_count());
  keep(0, first);
  return {};
}

bool HttpFile::try_once(std::uint64_t begin, std::span<std::uint8_t> out, Answer& answer, Failure& failure) {
  std::string url;
  std::vector<Connection> mine;
  {
    const std::lock_guard lock(connections_mutex_);
    url = url_;
    if (!idle_.empty()) {
      mine.push_back(std::move(idle_.back()));
      idle_.pop_back();
    }
  }
  if (mine.empty()) {
    auto made = Connection::create(options_, closing_);
    if (!made.ok()) return failure = {std::move(made).error(), false, {}}, false;
    mine.push_back(std::move(made).value());
  }
  const bool came = mine[0].get(url, begin, out, answer, failure);
  const std::lock_guard lock(connections_mutex_);
  idle_.push_back(std::move(mine[0]));
  return came;
}

/// Takes a place that the server named, if it is on the same server and reached in the same way.
Status HttpFile::follow(const std::string& to) {
  const auto parts = parse_url(to);
  if (!parts.ok()) return Error{ErrorCode::kIo, "the server sends elsewhere: " + parts.error().message, {}};
  if (parts->origin != origin_)
    return Error{ErrorCode::kIo, fmt::format("the server sends to {}, which nobody named", parts->origin),
                 "name that URL, if you trust it"};
  const std::lock_guard lock(connections_mutex_);
  url_ = parts->origin + parts->path;
  return {};
}

Result<Answer> HttpFile::ask(std::uint64_t begin, std::span<std::uint8_t> out, int tries) {
  Answer answer;
  Failure failure;
  int redirects = 0;
  for (int tried = 0; !try_once(begin, out, answer, failure);) {
    if (!failure.moved_to.empty()) {
      if (++redirects > kMostRedirects)
        return Error{ErrorCode::kIo, "the server sends around in circles", {}};
      DGX_CHECK(follow(failure.moved_to));
      failure.moved_to.clear();
      continue;
    }
    if (!failure.passing || ++tried >= tries) return failure.error;
    std::this_thread::sleep_for(std::chrono::milliseconds(200 * tried));
  }
  return answer;
}

Status HttpFile::compare(const Version& now) const {
  if (now == version_) return {};
  const std::string how =
      now.size_bytes == version_.size_bytes
          ? std::string("its entity tag is another")
          : fmt::format("it had {} bytes, and has {}", version_.size_bytes, now.size_bytes);
  return Error{ErrorCode::kBadData, "changed on the server while it was read: " + how, {}};
}

Status HttpFile::fetch(std::uint64_t begin, std::span<std::uint8_t> out) {
  DGX_TRY(const Answer answer, ask(begin, out, kTries));
  DGX_CHECK(compare(answer.version));
  if (answer.size_bytes == out.size()) return {};
  return Error{ErrorCode::kIo, "the server gives less than it was asked for", {}};
}

HttpFile::Index HttpFile::block_count() const {
  return (version_.size_bytes + kBlockBytes - 1) / kBlockBytes;
}

std::uint64_t HttpFile::end_of(Index index) const {
  return std::min((index + 1) * kBlockBytes, version_.size_bytes);
}

/// Keeps blocks that lie one after another from block `index` on, which becomes the last used.
void HttpFile::keep(Index index, ByteView bytes) {
  for (Index i = index + (bytes.size() + kBlockBytes - 1) / kBlockBytes; i-- > index;) {
    const ByteView rest = bytes.subspan((i - index) * kBlockBytes);
    uses_.push_front(i);
    blocks_.insert_or_assign(i, Kept{std::make_shared<const Bytes>(rest.begin(), rest.end()), uses_.begin()});
    bytes = bytes.first((i - index) * kBlockBytes);
  }
  for (; blocks_.size() > kMostBlocks; uses_.pop_back()) blocks_.erase(uses_.back());
}

/// The end of the blocks that are to be fetched with block `index` by one request: those that are wanted and
/// neither there nor coming, or more if they have been read in order so far.
HttpFile::Index HttpFile::run_from(Index index, Index wanted) {
  ahead_ = index == next_ ? std::min(2 * ahead_, kMostAhead) : 1;
  const Index most = std::min(index + std::max(wanted, ahead_), block_count());
  Index end = index + 1;
  while (end < most && !blocks_.contains(end) && !coming_.contains(end)) ++end;
  next_ = end;
  return end;
}

Result<HttpFile::Block> HttpFile::block(Index index, Index wanted) {
  std::unique_lock lock(blocks_mutex_);
  changed_.wait(lock, [&] { return !coming_.contains(index); });
  if (const auto found = blocks_.find(index); found != blocks_.end()) {
    uses_.splice(uses_.begin(), uses_, found->second.use);
    return found->second.block;
  }
  const Index end = run_from(index, wanted);
  for (Index i = index; i < end; ++i) coming_.insert(i);
  lock.unlock();
  Bytes bytes(end_of(end - 1) - index * kBlockBytes);
  Status came = fetch(index * kBlockBytes, bytes);
  lock.lock();
  for (Index i = index; i < end; ++i) coming_.erase(i);
  changed_.notify_all();
  if (!came.ok()) return std::move(came).error();
  keep(index, bytes);
  return blocks_.at(index).block;
}

Status HttpFile::read(std::uint64_t begin, std::span<std::uint8_t> out) {
  if (out.size() >= kLargeBytes) return fetch(begin, out);
  while (!out.empty()) {
    const Index index = begin / kBlockBytes;
    DGX_TRY(const Block bytes, block(index, (begin + out.size() - 1) / kBlockBytes - index + 1));
    const std::uint64_t offset = begin - index * kBlockBytes;
    const std::size_t count = std::min<std::size_t>(bytes->size() - offset, out.size());
    std::memcpy(out.data(), bytes->data() + offset, count);
    begin += count;
    out = out.subspan(count);
  }
  return {};
}

void HttpFile::expect(std::uint64_t begin, std::uint64_t size) {
  const std::lock_guard lock(blocks_mutex_);
  for (Index i = begin / kBlockBytes; i * kBlockBytes < begin + size; ++i) {
    const bool is_new = !blocks_.contains(i) && !coming_.contains(i);
    const bool is_last = !expected_.empty() && expected_.back() == i;
    if (is_new && !is_last && expected_.size() < kMostExpected) expected_.push_back(i);
  }
  if (expected_.empty()) return;
  while (fetchers_.size() < kFetchers) fetchers_.emplace_back([this] { fetch_expected(); });
  changed_.notify_all();
}

/// Fetches what is expected until the file is closed. After an error nothing more is expected: whoever reads
/// the block will be told.
void HttpFile::fetch_expected() {
  std::unique_lock lock(blocks_mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return closing_ || !expected_.empty(); });
    if (closing_) return;
    const Index index = expected_.front();
    Index count = 0;
    for (; !expected_.empty() && expected_.front() == index + count; ++count) expected_.pop_front();
    if (blocks_.contains(index) || coming_.contains(index)) continue;
    lock.unlock();
    const bool came = block(index, count).ok();
    lock.lock();
    if (!came) expected_.clear();
  }
}

}  // namespace dgx::http
