#include "table_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace dgx::bundle {

TableText::TableText(const BulkTensor& file, char delimiter)
    : text_(as_text(file.bytes())), pages_(file.view()), delimiter_(delimiter) {
  if (text_.starts_with("\xef\xbb\xbf")) at_ = 3;
}

Result<bool> TableText::next() {
  pages_.passed(at_);
  while (at_ < text_.size() && at_line_end()) skip_line_end();
  if (at_ == text_.size()) return false;
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
    return true;
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
  out.assign(text_.substr(begin, at_ - begin));
  return {};
}

Status TableText::take_quoted(std::string& out) {
  for (++at_;; ++at_) {
    const std::size_t quote = text_.find('"', at_);
    if (quote == std::string_view::npos) return wrong("a quote is not closed");
    const std::string_view part = text_.substr(at_, quote - at_);
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
  const bool is_last = at_ + 1 == text_.size();
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
