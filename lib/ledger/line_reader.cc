#include "line_reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "dgx/manifest/envelope.h"

namespace dgx::ledger {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{1} << 20U;
constexpr std::size_t kBatchBytes = 4 * kBlockBytes;

}  // namespace

Result<LineReader> LineReader::open(const std::string& path) {
  DGX_TRY(FileReader file, FileReader::open(path));
  DGX_TRY(const std::uint64_t size, file.size());
  if (size > kMaxLedgerBytes)
    return malformed(fmt::format("{}: {} bytes, at most {} allowed", path, size, kMaxLedgerBytes));
  return LineReader(std::move(file), size);
}

/// Reads until `most` lines are in memory, or enough bytes, or all.
Status LineReader::fill(std::size_t most) {
  std::size_t scanned = buffer_.size();
  while (ends_.size() < most && (ends_.empty() || buffer_.size() < kBatchBytes)) {
    const std::uint64_t at = offset_ + buffer_.size();
    const std::size_t size = std::min<std::uint64_t>(kBlockBytes, size_ - std::min(at, size_));
    DGX_CHECK(file_.append_to(buffer_, at, size));
    if (buffer_.size() == scanned) return {};  // the end, or a file that was cut off meanwhile
    for (std::size_t end = buffer_.find('\n', scanned); end != std::string::npos;
         end = buffer_.find('\n', end + 1))
      ends_.push_back(end + 1);
    scanned = buffer_.size();
    if (ends_.empty() && scanned > manifest::kMaxEnvelopeBytes + 1 + kBlockBytes)
      return malformed("is longer than an envelope may be");
  }
  return {};
}

Result<const std::vector<std::string_view>*> LineReader::peek(std::size_t most) {
  DGX_CHECK(fill(most));
  lines_.clear();
  std::size_t begin = 0;
  for (std::size_t i = 0; i < std::min(most, ends_.size()); ++i) {
    lines_.push_back(std::string_view(buffer_).substr(begin, ends_[i] - 1 - begin));
    begin = ends_[i];
  }
  return &lines_;
}

void LineReader::hash(std::size_t count) {
  if (count > 0) sha256_.update(as_bytes(std::string_view(buffer_).substr(0, ends_[count - 1])));
}

void LineReader::drop(std::size_t count) {
  if (count == 0) return;
  const std::size_t bytes = ends_[count - 1];
  buffer_.erase(0, bytes);
  ends_.erase(ends_.begin(), ends_.begin() + static_cast<std::ptrdiff_t>(count));
  for (std::size_t& end : ends_) end -= bytes;
  offset_ += bytes;
  lines_.clear();
}

Result<bool> LineReader::is_still() const {
  DGX_TRY(const std::uint64_t now, file_.size());
  return now == size_;
}

Result<LineReader::Rest> LineReader::rest() const {
  Rest out;
  std::string block;
  char last = '\n';
  for (std::uint64_t at = offset_; at < size_; at += block.size()) {
    block.clear();
    DGX_CHECK(file_.append_to(block, at, std::min<std::uint64_t>(kBlockBytes, size_ - at)));
    if (block.empty()) break;
    out.lines += static_cast<std::size_t>(std::count(block.begin(), block.end(), '\n'));
    last = block.back();
  }
  out.torn = last != '\n';
  return out;
}

}  // namespace dgx::ledger
