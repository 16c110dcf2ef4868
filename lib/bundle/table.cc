#include "table.h"

#include <algorithm>
#include <array>

#include "cursor.h"
#include "dgx/bundle/format.h"

namespace dgx::bundle {
namespace {

constexpr std::string_view kSignature = "dgx-h5 1";
constexpr std::size_t kMaxTextBytes = 4096;
constexpr std::array kCodes{ErrorCode::kUsage, ErrorCode::kMalformed, ErrorCode::kMissing,
                            ErrorCode::kInternal, ErrorCode::kIo};

class Encoder {
 public:
  void number(std::uint64_t value, std::size_t width) {
    for (std::size_t i = 0; i < width; ++i) out_.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
  }
  void text(std::string_view text) {
    const ByteView bytes = as_bytes(text.substr(0, kMaxTextBytes));
    number(bytes.size(), 2);
    out_.insert(out_.end(), bytes.begin(), bytes.end());
  }
  void bytes(ByteView bytes) {
    number(bytes.size(), 4);
    out_.insert(out_.end(), bytes.begin(), bytes.end());
  }
  [[nodiscard]] Bytes take() { return std::move(out_); }

 private:
  Bytes out_{kSignature.begin(), kSignature.end()};
};

void put_table(Encoder& out, const Table& table) {
  out.number(static_cast<std::uint8_t>(table.type.kind), 1);
  out.number(table.type.bytes, 1);
  out.number(static_cast<std::uint8_t>(table.type.order), 1);
  out.number(table.shape.size(), 1);
  for (const std::int64_t size : table.shape) out.number(static_cast<std::uint64_t>(size), 8);
  out.number(static_cast<std::uint8_t>(table.layout), 1);
  out.bytes(table.compact);
  out.number(table.contiguous.begin, 8);
  out.number(table.contiguous.size, 8);
  out.number(table.chunk.size(), 1);
  for (const std::uint64_t size : table.chunk) out.number(size, 8);
  out.number(table.filters.size(), 1);
  for (const unsigned filter : table.filters) out.number(filter, 2);
  out.number(table.chunks.size(), 4);
  for (const TableChunk& chunk : table.chunks) {
    out.number(chunk.at.begin, 8);
    out.number(chunk.at.size, 8);
    out.number(chunk.skipped, 4);
  }
}

/// The text with '?' for unprintable bytes: an attacker in dgx-h5 may have written it, so it must not reach a
/// terminal as it is.
std::string printable(ByteView bytes) {
  std::string text(as_text(bytes));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < 0x20 || c > 0x7e; }, '?');
  return text;
}

Error not_a_message() { return internal_error("dgx-h5: its answer cannot be understood"); }

Error take_error(Cursor& in) {
  const unsigned code = in.u8();
  const std::string message = printable(in.bytes(in.u16()));
  const std::string hint = printable(in.bytes(in.u16()));
  const bool known =
      std::ranges::any_of(kCodes, [&](ErrorCode c) { return static_cast<unsigned>(c) == code; });
  if (!in.done() || !known || message.size() > kMaxTextBytes || hint.size() > kMaxTextBytes)
    return not_a_message();
  return {static_cast<ErrorCode>(code), message, hint};
}

bool take_type(Cursor& in, NumberType& type) {
  const unsigned kind = in.u8();
  type.bytes = in.u8();
  const unsigned order = in.u8();
  type.kind = static_cast<NumberType::Kind>(kind);
  type.order = static_cast<NumberType::Order>(order);
  const bool is_float = type.kind == NumberType::Kind::kFloat;
  const bool sized = type.bytes == 2 || type.bytes == 4 || type.bytes == 8 || (type.bytes == 1 && !is_float);
  return in.ok() && kind <= 2 && order <= 1 && sized;
}

/// True if the chunks form a grid over the shape: exactly as many as needed, all within the limits.
bool chunks_fit(const Table& table) {
  if (table.layout != Table::Layout::kChunked)
    return table.chunk.empty() && table.filters.empty() && table.chunks.empty();
  if (table.chunk.empty() || table.chunk.size() != table.shape.size()) return false;
  std::uint64_t numbers = 1;
  std::uint64_t count = 1;
  for (std::size_t i = 0; i < table.chunk.size(); ++i) {
    const std::uint64_t chunk = table.chunk[i];
    if (chunk == 0 || chunk > kMaxChunkBytes || (numbers *= chunk) > kMaxChunkBytes) return false;
    const auto extent = static_cast<std::uint64_t>(table.shape[i]);
    const std::uint64_t along = extent / chunk + (extent % chunk == 0 ? 0 : 1);
    if (along > kMaxTableChunks || (count *= along) > kMaxTableChunks) return false;
  }
  return count == table.chunks.size();
}

bool take_places(Cursor& in, Table& table) {
  const unsigned layout = in.u8();
  table.layout = static_cast<Table::Layout>(layout);
  const ByteView compact = in.bytes(in.u32());
  table.compact.assign(compact.begin(), compact.end());
  table.contiguous = {in.u64(), in.u64()};
  const std::size_t rank = in.u8();
  if (!in.ok() || layout > 2 || rank > kMaxRank || compact.size() > kMaxCompactBytes) return false;
  for (std::size_t i = 0; i < rank; ++i) table.chunk.push_back(in.u64());
  const std::size_t filters = in.u8();
  if (!in.ok() || filters > kMaxFilters) return false;
  for (std::size_t i = 0; i < filters; ++i) table.filters.push_back(in.u16());
  const std::uint64_t chunks = in.u32();
  if (!in.ok() || chunks > kMaxTableChunks || in.left() != chunks * 20) return false;
  for (std::uint64_t i = 0; i < chunks; ++i) {
    const Extent at{in.u64(), in.u64()};
    table.chunks.push_back({at, in.u32()});
  }
  return in.done();
}

Result<Table> take_table(Cursor& in) {
  Table table;
  if (!take_type(in, table.type)) return not_a_message();
  const std::size_t rank = in.u8();
  if (rank > kMaxRank) return not_a_message();
  for (std::size_t i = 0; i < rank; ++i) table.shape.push_back(static_cast<std::int64_t>(in.u64()));
  const auto count = element_count(table.shape);
  if (!in.ok() || !count.ok()) return not_a_message();
  if (!take_places(in, table) || !chunks_fit(table)) return not_a_message();
  // At most 2^53 numbers of 8 bytes each.
  const std::uint64_t bytes = static_cast<std::uint64_t>(*count) * table.type.bytes;
  const bool whole =
      table.layout == Table::Layout::kChunked ||
      bytes == (table.layout == Table::Layout::kCompact ? table.compact.size() : table.contiguous.size);
  if (!whole) return not_a_message();
  return table;
}

}  // namespace

Bytes encode_message(const Result<Table>& table) {
  Encoder out;
  out.number(table.ok() ? 1 : 0, 1);
  if (table.ok()) {
    put_table(out, *table);
  } else {
    out.number(static_cast<std::uint64_t>(table.error().code), 1);
    out.text(table.error().message);
    out.text(table.error().hint);
  }
  return out.take();
}

Result<Table> decode_message(ByteView message) {
  Cursor in(message);
  if (as_text(in.bytes(kSignature.size())) != kSignature) return not_a_message();
  const unsigned is_table = in.u8();
  if (!in.ok() || is_table > 1) return not_a_message();
  if (is_table == 0) return take_error(in);
  return take_table(in);
}

}  // namespace dgx::bundle
