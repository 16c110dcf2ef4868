#include "inflate.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>

#include "dgx/core/bulk.h"

namespace dgx::bundle {
namespace {

/// One gzip member, read in pieces.
class Inflater {
 public:
  explicit Inflater(const BulkView& content) : content_(content) {
    constexpr int kGzipOnly = 15 + 16;
    ready_ = inflateInit2(&stream_, kGzipOnly) == Z_OK;
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { inflateEnd(&stream_); }

  [[nodiscard]] bool ended() const { return ended_; }
  [[nodiscard]] std::size_t unread() const { return content_.bytes.size() - at_ + stream_.avail_in; }

  /// Fills `out` as far as the member goes; returns the number of bytes.
  Result<std::size_t> fill(char* out, std::size_t size) {
    if (!ready_) return internal_error("zlib cannot start");
    std::size_t filled = 0;
    while (!ended_ && filled < size) {
      if (stream_.avail_in == 0) DGX_CHECK(read_piece());
      const std::size_t room = std::min<std::size_t>(size - filled, kPiece);
      stream_.next_out = reinterpret_cast<Bytef*>(out + filled);
      stream_.avail_out = static_cast<uInt>(room);
      const int status = inflate(&stream_, Z_NO_FLUSH);
      filled += room - stream_.avail_out;
      ended_ = status == Z_STREAM_END;
      if (status == Z_OK || ended_) continue;
      if (status == Z_BUF_ERROR) return malformed("gzip: the stream is cut off");
      return malformed(fmt::format("gzip: {}", stream_.msg == nullptr ? "broken" : stream_.msg));
    }
    return filled;
  }

 private:
  static constexpr std::size_t kPiece = std::size_t{1} << 20;

  Status read_piece() {
    piece_.resize(std::min<std::size_t>(content_.bytes.size() - at_, kPiece));
    DGX_CHECK(copy_bytes(content_, at_, piece_));
    at_ += piece_.size();
    stream_.next_in = piece_.data();
    stream_.avail_in = static_cast<uInt>(piece_.size());
    return {};
  }

  const BulkView& content_;
  std::size_t at_ = 0;  // what is before has been read into piece_
  Bytes piece_;
  z_stream stream_{};
  bool ready_ = false;
  bool ended_ = false;
};

}  // namespace

bool is_gzip(std::string_view head) { return head.substr(0, 2) == "\x1f\x8b"; }

Result<std::string> inflate_head(const BulkView& content, std::size_t count) {
  Inflater inflater(content);
  std::string head(count, '\0');
  DGX_TRY(const std::size_t got, inflater.fill(head.data(), count));
  head.resize(got);
  return head;
}

Result<BulkTensor> inflate_exactly(const BulkView& content, std::uint64_t size, std::uint64_t bulk_bytes) {
  // Deflate expands at most 1,032 times (RFC 1951: 258 bytes from two bits).
  constexpr std::uint64_t kMaxExpansion = 1032;
  if (size / kMaxExpansion > content.bytes.size()) {
    return malformed(
        fmt::format("gzip: {} bytes cannot hold the {} that are declared", content.bytes.size(), size));
  }
  Inflater inflater(content);
  DGX_TRY(BulkTensor out, BulkTensor::create(DType::kU8, {static_cast<std::int64_t>(size)}, bulk_bytes));
  auto* const text = reinterpret_cast<char*>(out.bytes().data());
  DGX_CHECK(for_each_piece(size, [&](std::uint64_t begin, std::uint64_t wanted) -> Status {
    DGX_TRY(const std::size_t got, inflater.fill(text + begin, wanted));
    if (got < wanted) return malformed(fmt::format("gzip: holds {} of {} bytes", begin + got, size));
    release(out.view(), begin, wanted);
    return {};
  }));
  char more = 0;
  DGX_TRY(const std::size_t beyond, inflater.fill(&more, 1));
  if (beyond > 0) return malformed(fmt::format("gzip: holds more than the {} bytes that are declared", size));
  if (inflater.unread() != 0)
    return malformed(fmt::format("gzip: {} bytes follow its end", inflater.unread()));
  return out;
}

}  // namespace dgx::bundle
