#include "dgx/bundle/model_files.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <limits>

#include "dgx/bundle/format.h"
#include "dgx/core/bytes.h"
#include "dgx/core/files.h"
#include "npy.h"

namespace dgx::bundle {
namespace {

template <class T>
void put(std::string& out, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) out.push_back(static_cast<char>(value >> (8 * i) & 0xFF));
}

std::string_view numpy_name(DType dtype) {
  switch (dtype) {
    case DType::kF32: return "<f4";
    case DType::kI64: return "<i8";
    case DType::kU8: return "|u1";
  }
  return {};
}

/// The CRC-32 of two texts that follow each other.
std::uint32_t crc_of(std::string_view first, ByteView second) {
  auto crc = crc32_z(0, reinterpret_cast<const Bytef*>(first.data()), first.size());
  // Without bytes zlib would begin anew.
  if (!second.empty()) crc = crc32_z(crc, second.data(), second.size());
  return static_cast<std::uint32_t>(crc);
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

void put_directory(std::string& out, const std::vector<ZipMember>& members, std::string_view comment) {
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
  put(out, static_cast<std::uint16_t>(comment.size()));
  out += comment;
}

/// The little-endian number of `Bytes` bytes at `at`.
template <class T>
T number_at(std::string_view bytes, std::size_t at) {
  T value{};
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

/// Reads the member that begins `rest`, and cuts it off.
Result<Entry> take_member(std::string_view& rest) {
  constexpr std::size_t kHeaderBytes = 30;
  constexpr std::string_view kExtension = ".npy";
  if (rest.size() < kHeaderBytes) return malformed("is cut off");
  const std::size_t size = number_at<std::uint32_t>(rest, 18);
  const std::size_t name_size = number_at<std::uint16_t>(rest, 26);
  if (rest.size() - kHeaderBytes < name_size || rest.size() - kHeaderBytes - name_size < size)
    return malformed("is cut off");
  std::string_view name = rest.substr(kHeaderBytes, name_size);
  const std::string_view content = rest.substr(kHeaderBytes + name_size, size);
  if (!name.ends_with(kExtension)) return malformed("has a member that is not an NPY file");
  if (!std::all_of(name.begin(), name.end(), [](char c) { return c >= 0x20 && c <= 0x7e; }))
    return malformed("has a member whose name is not printable ASCII");
  name.remove_suffix(kExtension.size());
  rest.remove_prefix(kHeaderBytes + name_size + size);
  const BulkTensor file(Tensor(TensorView{DType::kU8, {static_cast<std::int64_t>(size)}, as_bytes(content)}));
  auto array = parse_npy(file, {.bulk_bytes = std::numeric_limits<std::uint64_t>::max()});
  if (!array.ok()) return within(fmt::format("\"{}\"", name), std::move(array).error());
  return Entry{std::string(name), std::move(array).value().take()};
}

/// Reads members, and whatever follows the directory that belongs to them as a comment.
Result<ModelFile> parse_own_npz(std::string_view content) {
  ModelFile out;
  std::vector<NamedTensor> views;
  std::string_view rest = content;
  while (rest.size() >= sizeof(kLocalHeader) && number_at<std::uint32_t>(rest, 0) == kLocalHeader) {
    DGX_TRY(Entry member, take_member(rest));
    if (!out.tensors.empty() && out.tensors.back().name >= member.name)
      return malformed(
          fmt::format("\"{}\" does not come after \"{}\"", member.name, out.tensors.back().name));
    out.tensors.push_back(std::move(member));
  }
  for (const Entry& entry : out.tensors) views.push_back({entry.name, entry.tensor.view()});
  auto made = npz_bytes(views);
  if (!made.ok()) return malformed(made.error().message);
  std::string again = std::move(made).value();
  if (again.size() < content.size()) {
    const std::string_view comment = content.substr(again.size());
    auto metadata = json::parse_canonical(comment, {kMaxCommentBytes, 2});
    if (!metadata.ok()) return within("comment", std::move(metadata).error());
    if (metadata->as_object() == nullptr) return malformed("comment: is not an object");
    out.metadata = std::move(*metadata->as_object());
    DGX_TRY(again, npz_bytes(views, out.metadata));
  }
  if (again == content) return out;
  return malformed("is not as dgx-inspect export writes an archive",
                   "dgx-pack npz reads other NumPy archives");
}

}  // namespace

std::string npy_bytes(const TensorView& tensor) {
  return npy_header(tensor) + std::string(as_text(tensor.bytes));
}

Result<std::string> npz_bytes(const std::vector<NamedTensor>& tensors, const json::Object& metadata) {
  const std::string comment = metadata.empty() ? std::string() : json::Value(metadata).dump();
  assert(comment.size() <= kMaxCommentBytes);
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
    const ZipMember member{item.name + ".npy", crc_of(header, item.tensor.bytes),
                           static_cast<std::uint32_t>(header.size() + item.tensor.bytes.size()),
                           static_cast<std::uint32_t>(out.size())};
    put(out, kLocalHeader);
    member.put_common(out);
    out += member.name;
    out += header;
    out += as_text(item.tensor.bytes);
    members.push_back(member);
  }
  put_directory(out, members, comment);
  return out;
}

Result<ModelFile> read_own_npz(const std::string& path) {
  DGX_TRY(const std::string content, read_file(path, std::numeric_limits<std::uint32_t>::max()));
  auto file = parse_own_npz(content);
  if (!file.ok()) return within(path, std::move(file).error());
  return file;
}

}  // namespace dgx::bundle
