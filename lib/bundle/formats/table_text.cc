#include "table_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace dgx::bundle {

namespace {

/// A line that is still not over after this many bytes is refused for its length or for a quote.
constexpr std::size_t kMostText = kMaxLineBytes + kMaxFieldBytes;

}  // namespace

Result<bool> TableText::next() {
  while (true) {
    while (at_ < text_.size() && at_line_end()) skip_line_end();
    if (at_ == text_.size() && is_whole()) return false;
    const std::size_t begin = at_;
    const std::uint64_t begin_line = next_line_;
    Status taken = take_line();
    const bool ends_here = taken.ok() && at_ < text_.size();
    if (ends_here || is_whole() || text_.size() - begin > kMostText) {
      if (!taken.ok()) return std::move(taken).error();
      return true;
    }
    at_ = begin;
    next_line_ = begin_line;
    DGX_CHECK(read_on());
  }
}

/// Drops what has been taken, and reads at least as much again as is left.
Status TableText::read_on() {
  text_.erase(0, std::exchange(at_, 0));
  const std::size_t rest = text_.size();
  text_.resize(rest +
               std::min<std::uint64_t>(std::max(piece_bytes_, rest), file_.bytes.size() - read_bytes_));
  const std::size_t size = text_.size() - rest;
  DGX_CHECK(copy_bytes(file_, read_bytes_, {reinterpret_cast<std::uint8_t*>(text_.data()) + rest, size}));
  const std::string_view mark = "\xef\xbb\xbf";
  if (read_bytes_ == rest && text_.starts_with(mark)) at_ = mark.size();
  read_bytes_ += size;
  return {};
}

Status TableText::take_line() {
  line_ = next_line_;
  const std::size_t begin = at_;
  for (std::size_t count = 1;; ++count) {
    if (count > kMaxTableColumns) return wrong(fmt::format("more than {} columns", kMaxTableColumns));
    if (fields_.size() < count) fields_.emplace_back();
    DGX_CHECK(take_field(fields_[count - 1]));
    if (at_ - begin > kMaxLineBytes) return wrong(fmt::format("is longer than {} bytes", kMaxLineBytes));
    if (at_ < text_.size() && !at_line_end()) {
      ++at_;  // the delimiter
      continue;
    }
    fields_.resize(count);
    if (at_ < text_.size()) skip_line_end();
    return {};
  }
}

/// Takes a field, up to the delimiter or line end after it.
Status TableText::take_field(std::string& out) {
  out.clear();
  if (at_ < text_.size() && text_[at_] == '"') return take_quoted(out);
  const std::size_t begin = at_;
  while (at_ < text_.size() && text_[at_] != delimiter_ && !at_line_end()) ++at_;
  if (at_ - begin > kMaxFieldBytes)
    return wrong(fmt::format("a field of more than {} bytes", kMaxFieldBytes));
  out.assign(text_, begin, at_ - begin);
  return {};
}

Status TableText::take_quoted(std::string& out) {
  for (++at_;; ++at_) {
    const std::size_t quote = text_.find('"', at_);
    if (quote == std::string::npos) return wrong("a quote is not closed");
    const std::string_view part = std::string_view(text_).substr(at_, quote - at_);
    if (out.size() + part.size() > kMaxFieldBytes)
      return wrong(fmt::format("a field of more than {} bytes", kMaxFieldBytes));
    next_line_ += static_cast<std::uint64_t>(std::count(part.begin(), part.end(), '\n'));
    out += part;
    at_ = quote + 1;
    if (at_ == text_.size() || text_[at_] != '"') break;
    out += '"';
  }
  if (at_ < text_.size() && text_[at_] != delimiter_ && !at_line_end())
    return wrong("text follows the quote that ends a field");
  return {};
}

bool TableText::at_line_end() const {
  const bool is_last = at_ + 1 == text_.size() && is_whole();
  return text_[at_] == '\n' || (text_[at_] == '\r' && (is_last || text_[at_ + 1] == '\n'));
}

void TableText::skip_line_end() {
  at_ = std::min(at_ + (text_[at_] == '\r' ? 2 : 1), text_.size());
  ++next_line_;
}

Error TableText::wrong(std::string_view what) const {
  return malformed(fmt::format("line {}: {}", line_, what));
}

}  // namespace dgx::bundle
