#include "inspect/page.h"

#include <fmt/format.h>

#include <cassert>

#include "dgx/core/text.h"

namespace dgx::jobs {

std::string Page::escaped(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

void Page::start(std::string_view tag, Attributes attributes) {
  out_ += '<';
  out_ += tag;
  for (const auto& [name, value] : attributes) out_ += fmt::format(" {}=\"{}\"", name, escaped(value));
  out_ += '>';
}

void Page::open(std::string_view tag, Attributes attributes) {
  start(tag, attributes);
  open_.emplace_back(tag);
}

void Page::close() {
  assert(!open_.empty());
  out_ += fmt::format("</{}>\n", open_.back());
  open_.pop_back();
}

void Page::empty(std::string_view tag, Attributes attributes) {
  start(tag, attributes);
  out_ += '\n';
}

void Page::element(std::string_view tag, std::string_view words, Attributes attributes) {
  open(tag, attributes);
  text(words);
  close();
}

void Page::style(std::string_view css) {
  assert(css.find('<') == std::string_view::npos);
  out_ += fmt::format("<style>\n{}</style>\n", css);
}

std::string Page::finish() && {
  assert(open_.empty());
  return std::move(out_);
}

}  // namespace dgx::jobs
