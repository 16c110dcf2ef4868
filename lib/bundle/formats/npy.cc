#include "npy.h"

#include <fmt/format.h>

#include <string_view>

#include "dgx/bundle/format.h"
#include "dgx/bundle/sources.h"
#include "dgx/core/bulk.h"
#include "dgx/core/checked.h"
#include "widen.h"

// numpy.lib.format: magic, version, header length, a Python dictionary literal in ASCII, numbers.
namespace dgx::bundle {
namespace {

struct NpyHeader {
  std::string descr;
  bool fortran_order = false;
  Shape shape;
};

/// Reads the dictionary that NumPy writes: the three keys in any order, each exactly once.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, std::size_t offset) : text_(text), offset_(offset) {}

  Result<NpyHeader> parse() {
    NpyHeader header;
    bool has_descr = false;
    bool has_order = false;
    bool has_shape = false;
    if (!eat('{')) return wrong("expected {");
    while (!eat('}')) {
      DGX_TRY(const std::string key, quoted());
      if (!eat(':')) return wrong("expected :");
      if (key == "descr" && !std::exchange(has_descr, true)) {
        DGX_TRY(header.descr, quoted());
      } else if (key == "fortran_order" && !std::exchange(has_order, true)) {
        DGX_TRY(header.fortran_order, boolean());
      } else if (key == "shape" && !std::exchange(has_shape, true)) {
        DGX_TRY(header.shape, tuple());
      } else {
        return wrong(fmt::format("unknown or repeated key \"{}\"", key));
      }
      if (!eat(',') && peek() != '}') return wrong("expected , or }");
    }
    if (!has_descr || !has_order || !has_shape) return wrong("descr, fortran_order or shape is missing");
    skip_space();
    if (at_ != text_.size()) return wrong("unexpected text after }");
    return header;
  }

 private:
  Error wrong(std::string what) const {
    return malformed(fmt::format("header byte {}: {}", offset_ + at_, what));
  }
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  char peek() {
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool eat(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  Result<std::string> quoted() {
    if (!eat('\'')) return wrong("expected a quoted word");
    const std::size_t end = text_.find('\'', at_);
    if (end == std::string_view::npos) return wrong("a quote is not closed");
    std::string word(text_.substr(at_, end - at_));
    at_ = end + 1;
    return word;
  }
  Result<bool> boolean() {
    skip_space();
    for (const auto& [word, value] : {std::pair{"True", true}, std::pair{"False", false}}) {
      if (!text_.substr(at_).starts_with(word)) continue;
      at_ += std::string_view(word).size();
      return value;
    }
    return wrong("expected True or False");
  }
  Result<Shape> tuple() {
    Shape shape;
    if (!eat('(')) return wrong("expected (");
    while (!eat(')')) {
      if (shape.size() == kMaxRank) return wrong(fmt::format("more than {} dimensions", kMaxRank));
      DGX_TRY(const std::int64_t size, number());
      shape.push_back(size);
      if (!eat(',') && peek() != ')') return wrong("expected , or )");
    }
    return shape;
  }
  Result<std::int64_t> number() {
    constexpr std::int64_t kMost = std::int64_t{1} << 53;
    if (peek() < '0' || peek() > '9') return wrong("expected a number");
    std::int64_t value = 0;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
      value = value * 10 + (text_[at_] - '0');
      if (value > kMost) return wrong("dimension is above 2^53");
      ++at_;
    }
    return value;
  }

  std::string_view text_;
  std::size_t offset_;
  std::size_t at_ = 0;
};

Result<NumberType> type_from(const std::string& descr) {
  const auto unsupported = [&] {
    return malformed(fmt::format("element type \"{}\" is not a plain number", descr));
  };
  if (descr.size() != 3) return unsupported();
  NumberType type;
  type.bytes = static_cast<std::size_t>(descr[2] - '0');
  if (type.bytes != 1 && type.bytes != 2 && type.bytes != 4 && type.bytes != 8) return unsupported();
  if (descr[0] == '>')
    return malformed(fmt::format("element type \"{}\" is big-endian", descr),
                     "convert with a.astype(a.dtype.newbyteorder('<'))");
  if (descr[0] != (type.bytes == 1 ? '|' : '<')) return unsupported();
  const std::size_t kind = std::string_view("uifb").find(descr[1]);  // in the order of NumberType::Kind
  if (kind == std::string_view::npos || (descr[1] == 'f' && type.bytes == 1) ||
      (descr[1] == 'b' && type.bytes != 1))
    return unsupported();
  type.kind = static_cast<NumberType::Kind>(kind);
  return type;
}

std::size_t little(std::string_view text, std::size_t offset, std::size_t count) {
  std::size_t value = 0;
  for (std::size_t i = count; i-- > 0;) value = value << 8 | static_cast<std::uint8_t>(text[offset + i]);
  return value;
}

constexpr std::size_t kMaxHeader = 65536;

/// The beginning and end of the dictionary in `content`, the file's first bytes: 12 + kMaxHeader, or all.
Result<std::pair<std::size_t, std::size_t>> header_range(std::string_view content) {
  if (content.starts_with("PK\x03\x04"))
    return malformed("is a ZIP archive, not an NPY file", "dgx-pack npz takes what numpy.savez writes");
  if (!content.starts_with("\x93NUMPY") || content.size() < 10)
    return malformed("byte 0: is not an NPY file");
  const int version = content[6];
  if ((version != 1 && version != 2) || content[7] != 0) {
    return malformed(fmt::format("byte 6: version {}.{} is not 1.0 or 2.0", version, int{content[7]}));
  }
  const std::size_t width = version == 1 ? 2 : 4;
  const std::size_t begin = 8 + width;
  if (content.size() < begin) return malformed("byte 8: the header is cut off");
  const std::size_t length = little(content, 8, width);
  if (length > kMaxHeader || length > content.size() - begin) {
    return malformed(fmt::format("byte 8: a header of {} bytes is too long, or cut off", length));
  }
  return std::pair{begin, begin + length};
}

}  // namespace

Result<BulkTensor> parse_npy(const BulkTensor& file, const Reading& reading) {
  const std::size_t size = file.bytes().size();
  DGX_TRY(const std::string head, copy_head(file.view(), 12 + kMaxHeader));
  DGX_TRY(const auto range, header_range(head));
  const auto [begin, end] = range;
  DGX_TRY(const NpyHeader header,
          HeaderParser(std::string_view(head).substr(begin, end - begin), begin).parse());
  DGX_TRY(const NumberType type, type_from(header.descr));
  if (header.fortran_order) return malformed("is in Fortran order", "convert with numpy.ascontiguousarray");
  DGX_TRY(const std::int64_t count, element_count(header.shape));
  const auto needed = checked_mul(static_cast<std::uint64_t>(count), std::uint64_t{type.bytes});
  if (!needed || *needed != size - end) {
    return malformed(fmt::format("byte {}: {} bytes of numbers, {}{} needs {}", end, size - end,
                                 name_of(type), to_string(header.shape), needed.value_or(0)));
  }
  return widen(type, header.shape, file.view(), end, reading);
}

Result<BulkTensor> read_npy(const std::string& path, const Reading& reading) {
  DGX_TRY(const BulkTensor file, BulkTensor::open(path, kMaxTensorBytes, reading.bulk_bytes));
  auto tensor = parse_npy(file, reading);
  if (!tensor.ok()) return within(path, std::move(tensor).error());
  return tensor;
}

}  // namespace dgx::bundle
