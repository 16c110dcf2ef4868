#include "train/model_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "dgx/core/bytes.h"

namespace dgx::jobs {
namespace {

template <class T>
void put(std::string& out, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) out.push_back(static_cast<char>(value >> (8 * i) & 0xFF));
}

std::string_view safetensors_name(DType dtype) {
  switch (dtype) {
    case DType::kF32: return "F32";
    case DType::kI64: return "I64";
    case DType::kU8: return "U8";
  }
  return {};
}

std::string_view numpy_name(DType dtype) {
  switch (dtype) {
    case DType::kF32: return "<f4";
    case DType::kI64: return "<i8";
    case DType::kU8: return "|u1";
  }
  return {};
}

/// The CRC of zip: reflected polynomial 0xEDB88320.
std::uint32_t crc32(std::string_view first, ByteView second) {
  static const std::array<std::uint32_t, 256> table = [] {
    std::array<std::uint32_t, 256> out{};
    for (std::uint32_t n = 0; n < 256; ++n) {
      std::uint32_t c = n;
      for (int k = 0; k < 8; ++k) c = (c & 1) != 0 ? 0xEDB88320U ^ (c >> 1) : c >> 1;
      out[n] = c;
    }
    return out;
  }();
  std::uint32_t crc = 0xFFFFFFFFU;
  const auto add = [&crc](ByteView bytes) {
    for (const std::uint8_t byte : bytes) crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8);
  };
  add(as_bytes(first));
  add(second);
  return ~crc;
}

/// Magic, version, length and the dictionary, padded so that the numbers begin at a multiple of 64 bytes.
std::string npy_header(const TensorView& tensor) {
  std::string shape;
  for (const std::int64_t size : tensor.shape) shape += fmt::format("{},", size);
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}",
                                 numpy_name(tensor.dtype), shape);
  constexpr std::size_t kPrefix = 10;
  text.append((64 - (kPrefix + text.size() + 1) % 64) % 64, ' ');
  text += '\n';
  std::string out("\x93NUMPY\x01\x00", 8);
  put(out, static_cast<std::uint16_t>(text.size()));
  return out + text;
}

/// A file in a ZIP archive: the fields that local header and central directory have in the same order.
struct ZipMember {
  std::string name;
  std::uint32_t crc = 0;
  std::uint32_t size = 0;
  std::uint32_t offset = 0;

  void put_common(std::string& out) const {
    put(out, std::uint16_t{20});          // version needed
    put(out, std::uint16_t{0});           // flags
    put(out, std::uint16_t{0});           // stored
    put(out, std::uint32_t{0x00210000});  // 1980-01-01 00:00
    put(out, crc);
    put(out, size);
    put(out, size);
    put(out, static_cast<std::uint16_t>(name.size()));
    put(out, std::uint16_t{0});  // extra field
  }
};

constexpr std::uint32_t kLocalHeader = 0x04034B50;
constexpr std::uint32_t kDirectoryEntry = 0x02014B50;
constexpr std::uint32_t kDirectoryEnd = 0x06054B50;

void put_directory(std::string& out, const std::vector<ZipMember>& members) {
  const auto begin = static_cast<std::uint32_t>(out.size());
  for (const ZipMember& member : members) {
    put(out, kDirectoryEntry);
    put(out, std::uint16_t{20});  // made by
    member.put_common(out);
    put(out, std::uint16_t{0});  // comment
    put(out, std::uint16_t{0});  // disk
    put(out, std::uint16_t{0});  // internal attributes
    put(out, std::uint32_t{0});  // external attributes
    put(out, member.offset);
    out += member.name;
  }
  const auto size = static_cast<std::uint32_t>(out.size()) - begin;
  put(out, kDirectoryEnd);
  put(out, std::uint32_t{0});  // disks
  put(out, static_cast<std::uint16_t>(members.size()));
  put(out, static_cast<std::uint16_t>(members.size()));
  put(out, size);
  put(out, begin);
  put(out, std::uint16_t{0});
}

}  // namespace

std::string safetensors_bytes(std::vector<NamedTensor> tensors, const json::Object& metadata) {
  std::stable_sort(tensors.begin(), tensors.end(), [](const NamedTensor& a, const NamedTensor& b) {
    return size_of(a.tensor.dtype) > size_of(b.tensor.dtype);
  });
  json::Object header{{"__metadata__", metadata}};
  std::int64_t offset = 0;
  for (const NamedTensor& item : tensors) {
    const std::int64_t end = offset + static_cast<std::int64_t>(item.tensor.bytes.size());
    json::Array shape;
    for (const std::int64_t size : item.tensor.shape) shape.emplace_back(size);
    header.insert_or_assign(item.name, json::Object{{"dtype", safetensors_name(item.tensor.dtype)},
                                                    {"shape", std::move(shape)},
                                                    {"data_offsets", json::Array{offset, end}}});
    offset = end;
  }
  std::string text = json::Value(std::move(header)).dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  std::string out;
  out.reserve(8 + text.size() + static_cast<std::size_t>(offset));
  put(out, static_cast<std::uint64_t>(text.size()));
  out += text;
  for (const NamedTensor& item : tensors) out += as_text(item.tensor.bytes);
  return out;
}

std::string npy_bytes(const TensorView& tensor) {
  return npy_header(tensor) + std::string(as_text(tensor.bytes));
}

Result<std::string> npz_bytes(const std::vector<NamedTensor>& tensors) {
  std::uint64_t total = 0;
  for (const NamedTensor& item : tensors) total += item.tensor.bytes.size() + 4 * item.name.size() + 1024;
  if (total > std::numeric_limits<std::uint32_t>::max() ||
      tensors.size() >= std::numeric_limits<std::uint16_t>::max()) {
    return usage_error("too large for .npz", "write .safetensors instead");
  }
  std::string out;
  std::vector<ZipMember> members;
  for (const NamedTensor& item : tensors) {
    const std::string header = npy_header(item.tensor);
    const ZipMember member{item.name + ".npy", crc32(header, item.tensor.bytes),
                           static_cast<std::uint32_t>(header.size() + item.tensor.bytes.size()),
                           static_cast<std::uint32_t>(out.size())};
    put(out, kLocalHeader);
    member.put_common(out);
    out += member.name;
    out += header;
    out += as_text(item.tensor.bytes);
    members.push_back(member);
  }
  put_directory(out, members);
  return out;
}

}  // namespace dgx::jobs
