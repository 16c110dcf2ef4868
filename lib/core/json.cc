#include "dgx/core/json.h"

#include <fmt/format.h>

namespace dgx::json {
namespace {

/// Appends a string as in RFC 8785 section 3.2.2.2: the two-character escapes, \u00xx for other controls,
/// everything else as it is.
void append_string(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\b': out += "\\b"; break;
      case '\f': out += "\\f"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        } else {
          out += c;
        }
    }
  }
  out += '"';
}

/// Writes both forms; the canonical one has no line breaks or spaces.
class Writer {
 public:
  enum class Layout { kCanonical, kIndented };
  explicit Writer(Layout layout) : indented_(layout == Layout::kIndented) {}

  void value(const Value& value) {
    if (const auto* b = value.as_bool()) {
      out_ += *b ? "true" : "false";
    } else if (const auto* i = value.as_int()) {
      out_ += std::to_string(*i);
    } else if (const auto* s = value.as_string()) {
      append_string(out_, *s);
    } else if (const auto* a = value.as_array()) {
      array(*a);
    } else {
      object(*value.as_object());
    }
  }
  [[nodiscard]] std::string take() && { return std::move(out_); }

 private:
  void array(const Array& items) {
    open('[');
    bool first = true;
    for (const Value& item : items) {
      separate(std::exchange(first, false));
      value(item);
    }
    close(']', items.empty());
  }
  void object(const Object& members) {
    open('{');
    bool first = true;
    for (const auto& [key, member] : members) {
      separate(std::exchange(first, false));
      append_string(out_, key);
      out_ += indented_ ? ": " : ":";
      value(member);
    }
    close('}', members.empty());
  }
  void open(char bracket) {
    out_ += bracket;
    ++depth_;
  }
  void close(char bracket, bool empty) {
    --depth_;
    if (!empty) break_line();
    out_ += bracket;
  }
  void separate(bool first) {
    if (!first) out_ += ',';
    break_line();
  }
  void break_line() {
    if (!indented_) return;
    out_ += '\n';
    out_.append(2 * depth_, ' ');
  }

  std::string out_;
  std::size_t depth_ = 0;
  bool indented_;
};

}  // namespace

std::string_view Value::type_name() const {
  if (as_bool() != nullptr) return "bool";
  if (as_int() != nullptr) return "integer";
  if (as_string() != nullptr) return "string";
  return as_array() != nullptr ? "array" : "object";
}

std::string Value::dump() const {
  Writer writer(Writer::Layout::kCanonical);
  writer.value(*this);
  return std::move(writer).take();
}

std::string Value::pretty() const {
  Writer writer(Writer::Layout::kIndented);
  writer.value(*this);
  return std::move(writer).take();
}

}  // namespace dgx::json
