#include <fmt/format.h>

#include "dgx/bundle/format.h"
#include "dgx/bundle/sources.h"
#include "dgx/core/bulk.h"
#include "inflate.h"
#include "widen.h"

// The format: two zero bytes, a type byte, the rank, a big-endian u32 per dimension, big-endian numbers.
namespace dgx::bundle {
namespace {

constexpr std::size_t kMaxHeaderBytes = 4 + 4 * kMaxRank;

struct IdxHeader {
  NumberType type;
  Shape shape;
  std::size_t header_bytes = 0;
  std::uint64_t data_bytes = 0;
};

Result<NumberType> type_of(std::uint8_t code) {
  switch (code) {
    case 0x08: return NumberType{NumberType::Kind::kUnsigned, 1, NumberType::Order::kBig};
    case 0x09: return NumberType{NumberType::Kind::kSigned, 1, NumberType::Order::kBig};
    case 0x0b: return NumberType{NumberType::Kind::kSigned, 2, NumberType::Order::kBig};
    case 0x0c: return NumberType{NumberType::Kind::kSigned, 4, NumberType::Order::kBig};
    case 0x0d: return NumberType{NumberType::Kind::kFloat, 4, NumberType::Order::kBig};
    case 0x0e: return NumberType{NumberType::Kind::kFloat, 8, NumberType::Order::kBig};
    default: return malformed(fmt::format("byte 2: unknown element type {:#04x}", code));
  }
}

std::uint32_t big_u32(std::string_view text, std::size_t offset) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<std::uint8_t>(text[offset + i]);
  return value;
}

Result<IdxHeader> parse_header(std::string_view head) {
  if (head.size() < 4 || head[0] != 0 || head[1] != 0) return malformed("byte 0: is not an IDX file");
  IdxHeader header;
  DGX_TRY(header.type, type_of(static_cast<std::uint8_t>(head[2])));
  const auto rank = static_cast<std::uint8_t>(head[3]);
  if (rank < 1 || rank > kMaxRank)
    return malformed(fmt::format("byte 3: rank {} is not 1 to {}", rank, kMaxRank));
  header.header_bytes = 4 + 4 * std::size_t{rank};
  if (head.size() < header.header_bytes)
    return malformed(fmt::format("byte {}: the header is cut off", head.size()));
  for (std::size_t i = 0; i < rank; ++i) header.shape.push_back(big_u32(head, 4 + 4 * i));
  DGX_TRY(const std::int64_t count, element_count(header.shape));
  header.data_bytes = static_cast<std::uint64_t>(count) * header.type.bytes;
  if (header.data_bytes > kMaxTensorBytes) {
    return malformed(
        fmt::format("shape {} needs more than {} bytes", to_string(header.shape), kMaxTensorBytes));
  }
  return header;
}

Result<BulkTensor> parse(BulkTensor file, const Reading& reading) {
  DGX_TRY(std::string head, copy_head(file.view(), kMaxHeaderBytes));
  const bool packed = is_gzip(head);
  if (packed) {
    DGX_TRY(head, inflate_head(file.view(), kMaxHeaderBytes));
  }
  DGX_TRY(const IdxHeader header, parse_header(head));
  if (packed) {
    DGX_TRY(file, inflate_exactly(file.view(), header.header_bytes + header.data_bytes, reading.bulk_bytes));
  }
  const std::uint64_t found = file.bytes().size() - header.header_bytes;
  if (found != header.data_bytes) {
    return malformed(fmt::format("byte {}: {} bytes of numbers, shape {} needs {}", header.header_bytes,
                                 found, to_string(header.shape), header.data_bytes));
  }
  return widen(header.type, header.shape, file.view(), header.header_bytes, reading);
}

}  // namespace

Result<BulkTensor> read_idx(const std::string& path, const Reading& reading) {
  DGX_TRY(BulkTensor file, BulkTensor::open(path, kMaxTensorBytes, reading.bulk_bytes));
  auto tensor = parse(std::move(file), reading);
  if (!tensor.ok()) return within(path, std::move(tensor).error());
  return tensor;
}

}  // namespace dgx::bundle
