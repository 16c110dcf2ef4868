#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "dgx/bundle/format.h"
#include "dgx/bundle/model_files.h"
#include "dgx/bundle/sources.h"
#include "dgx/core/bytes.h"
#include "dgx/core/files.h"
#include "dgx/core/json.h"
#include "safetensors.h"
#include "widen.h"

// https://github.com/huggingface/safetensors, "Format": u64 little-endian length of the header, a JSON
// object, numbers.
namespace dgx::bundle {
namespace {

constexpr std::size_t kPrefixBytes = 8;
constexpr std::size_t kMaxHeaderBytes = std::size_t{16} << 20;
constexpr int kHeaderDepth = 4;
constexpr std::int64_t kMostOffset = std::int64_t{1} << 53;
constexpr std::size_t kMaxListed = 200;  ///< characters of names in a hint
constexpr std::string_view kMetadata = "__metadata__";

struct Item {
  std::string name;
  std::string type;  ///< its word in the header, perhaps one that only other programs know
  Shape shape;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

struct TypeRow {
  std::string_view word;
  NumberType type;
};
using Kind = NumberType::Kind;
constexpr std::array kTypes{TypeRow{"F64", {Kind::kFloat, 8}},    TypeRow{"F32", {Kind::kFloat, 4}},
                            TypeRow{"F16", {Kind::kFloat, 2}},    TypeRow{"BF16", {Kind::kBrain, 2}},
                            TypeRow{"I64", {Kind::kSigned, 8}},   TypeRow{"I32", {Kind::kSigned, 4}},
                            TypeRow{"I16", {Kind::kSigned, 2}},   TypeRow{"I8", {Kind::kSigned, 1}},
                            TypeRow{"U64", {Kind::kUnsigned, 8}}, TypeRow{"U32", {Kind::kUnsigned, 4}},
                            TypeRow{"U16", {Kind::kUnsigned, 2}}, TypeRow{"U8", {Kind::kUnsigned, 1}},
                            TypeRow{"BOOL", {Kind::kBool, 1}}};

Result<NumberType> type_of(const std::string& word) {
  for (const TypeRow& row : kTypes) {
    if (row.word == word) return row.type;
  }
  return malformed(fmt::format("dtype: \"{}\" is not supported", word), "convert it when you save the file");
}

std::string_view weight_word(DType dtype) {
  switch (dtype) {
    case DType::kF32: return "F32";
    case DType::kI64: return "I64";
    case DType::kU8: return "U8";
  }
  return {};
}

/// The type of a weight.
Result<DType> weight_type(const std::string& word, Floats floats) {
  if (floats == Floats::kWidened && (word == "F16" || word == "BF16")) return DType::kF32;
  for (const DType dtype : {DType::kF32, DType::kI64, DType::kU8}) {
    if (word == weight_word(dtype)) return dtype;
  }
  return malformed(fmt::format("dtype: \"{}\" is not one of F32, {}I64, U8", word,
                               floats == Floats::kWidened ? "F16, BF16, " : ""),
                   "convert it when you save the file");
}

std::vector<std::int64_t> integers(json::Fields& in, std::string_view key, std::size_t most) {
  std::vector<std::int64_t> numbers;
  for (const json::Value& item : in.array(key, most)) {
    const std::int64_t* number = item.as_int();
    if (number == nullptr || *number < 0)
      in.fail(key, fmt::format("item {} is not a natural number", numbers.size()));
    numbers.push_back(number == nullptr ? 0 : std::clamp<std::int64_t>(*number, 0, kMostOffset));
  }
  return numbers;
}

/// The choice whether every tensor must have the type of a weight, perhaps of one that is widened, or may
/// have any, since only one is read.
enum class Contained { kWeights, kWidenedWeights, kAnything };

Floats floats_of(Contained contained) {
  return contained == Contained::kWidenedWeights ? Floats::kWidened : Floats::kF32;
}

Result<Item> item_from(const std::string& name, const json::Value& value, Contained contained) {
  Item item;
  item.name = name;
  json::Fields in(value, name);
  item.type = in.string("dtype", 16);
  item.shape = integers(in, "shape", kMaxRank);
  const auto offsets = integers(in, "data_offsets", 2);
  if (offsets.size() != 2) in.fail("data_offsets", "must be two numbers");
  DGX_CHECK(in.finish());
  item.begin = offsets[0];
  item.end = offsets[1];
  const auto count = element_count(item.shape);
  if (!count) return within(name, count.error());
  if (const auto weight = weight_type(item.type, floats_of(contained));
      contained != Contained::kAnything && !weight)
    return within(name, weight.error());
  const auto type = type_of(item.type);
  const std::int64_t size = item.end - item.begin;
  const auto width = type ? static_cast<std::int64_t>(type->bytes) : 0;
  if (size < 0 || (type && (size % width != 0 || size / width != *count))) {
    return malformed(fmt::format("{}: data_offsets: {} to {} do not hold {}{}", name, item.begin, item.end,
                                 item.type, to_string(item.shape)));
  }
  return item;
}

Status check_metadata(const json::Value& value) {
  const json::Object* object = value.as_object();
  if (object == nullptr) return malformed(fmt::format("{}: must be an object", kMetadata));
  for (const auto& [key, word] : *object) {
    if (word.as_string() == nullptr)
      return malformed(fmt::format("{}: {}: must be a string", kMetadata, key));
  }
  return {};
}

/// Checks that every byte after the header belongs to exactly one tensor.
Status check_cover(std::vector<Item> items, std::size_t size) {
  std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::int64_t at = 0;
  for (const Item& item : items) {
    if (item.begin != at)
      return malformed(fmt::format("{}: data_offsets: begins at {}, the tensor before it ends at {}",
                                   item.name, item.begin, at));
    at = item.end;
  }
  if (static_cast<std::size_t>(at) != size)
    return malformed(fmt::format("{} bytes of numbers, the header names {}", size, at));
  return {};
}

/// A file's tensors, whose offsets count from byte `begin` of the file, and its metadata.
struct Contents {
  std::vector<Item> items;
  json::Object metadata;
  std::size_t begin = 0;
};

Result<Contents> read_header(std::string_view text, Contained contained) {
  auto header = json::parse(text, {kMaxHeaderBytes, kHeaderDepth});
  if (!header) return within("header", std::move(header).error());
  const json::Object* object = header->as_object();
  if (object == nullptr) return malformed("header: must be an object");
  Contents out;
  for (const auto& [name, value] : *object) {
    if (name == kMetadata) {
      if (auto status = check_metadata(value); !status) return within("header", std::move(status).error());
      out.metadata = *value.as_object();
      continue;
    }
    auto item = item_from(name, value, contained);
    if (!item) return within("header", std::move(item).error());
    out.items.push_back(std::move(item).value());
  }
  return out;
}

Result<Contents> contents_of(const BulkView& file, Contained contained) {
  const std::size_t size = file.bytes.size();
  if (size < kPrefixBytes) return malformed("byte 0: is not a safetensors file");
  DGX_TRY(const std::string prefix, copy_head(file, kPrefixBytes));
  std::uint64_t length = 0;
  std::memcpy(&length, prefix.data(), kPrefixBytes);
  if (length > kMaxHeaderBytes || length > size - kPrefixBytes)
    return malformed(fmt::format("byte 0: a header of {} bytes is too long", length));
  const std::size_t begin = kPrefixBytes + length;
  DGX_TRY(const std::string head, copy_head(file, begin));
  DGX_TRY(Contents contents, read_header(std::string_view(head).substr(kPrefixBytes), contained));
  contents.begin = begin;
  DGX_CHECK(check_cover(contents.items, size - begin));
  return contents;
}

Result<ModelFile> parse_model(std::string_view content, Contained contained) {
  const TensorView file{DType::kU8, {static_cast<std::int64_t>(content.size())}, as_bytes(content)};
  DGX_TRY(Contents contents, contents_of(file, contained));
  ModelFile out{{}, std::move(contents.metadata)};
  for (const Item& item : contents.items) {
    DGX_TRY(const DType dtype, weight_type(item.type, floats_of(contained)));
    const auto bytes = content.substr(contents.begin + static_cast<std::size_t>(item.begin),
                                      static_cast<std::size_t>(item.end - item.begin));
    if (item.type == weight_word(dtype)) {
      out.tensors.push_back({item.name, Tensor(TensorView{dtype, item.shape, as_bytes(bytes)})});
      continue;
    }
    DGX_TRY(const NumberType type, type_of(item.type));
    BulkTensor wide{Tensor(dtype, item.shape)};
    widen_piece(type, as_bytes(bytes), wide, 0);
    out.tensors.push_back({item.name, std::move(wide).take()});
  }
  return out;
}

Result<BulkTensor> numbers_of(const Item& item, const BulkTensor& file, std::size_t begin,
                              const Reading& reading) {
  DGX_TRY(const NumberType type, type_of(item.type));
  return widen(type, item.shape, file.view(), begin + static_cast<std::size_t>(item.begin), reading);
}

}  // namespace

Result<BulkTensor> parse_safetensor(const BulkTensor& file, const std::string& name, const Reading& reading) {
  DGX_TRY(const Contents contents, contents_of(file.view(), Contained::kAnything));
  std::string names;
  for (const Item& item : contents.items) {
    if (item.name == name) {
      auto tensor = numbers_of(item, file, contents.begin, reading);
      if (!tensor.ok()) return within(fmt::format("\"{}\"", name), std::move(tensor).error());
      return tensor;
    }
    if (names.size() < kMaxListed) names += (names.empty() ? "" : ", ") + item.name;
  }
  return Error{ErrorCode::kMissing, fmt::format("has no \"{}\"", name), "the file has " + names};
}

std::string safetensors_bytes(std::vector<NamedTensor> tensors, const json::Object& metadata) {
  std::stable_sort(tensors.begin(), tensors.end(), [](const NamedTensor& a, const NamedTensor& b) {
    return size_of(a.tensor.dtype) > size_of(b.tensor.dtype);
  });
  json::Object header{{std::string(kMetadata), metadata}};
  std::int64_t offset = 0;
  for (const NamedTensor& item : tensors) {
    const std::int64_t end = offset + static_cast<std::int64_t>(item.tensor.bytes.size());
    json::Array shape;
    for (const std::int64_t size : item.tensor.shape) shape.emplace_back(size);
    header.insert_or_assign(item.name, json::Object{{"dtype", weight_word(item.tensor.dtype)},
                                                    {"shape", std::move(shape)},
                                                    {"data_offsets", json::Array{offset, end}}});
    offset = end;
  }
  std::string text = json::Value(std::move(header)).dump();
  text.append((kPrefixBytes - text.size() % kPrefixBytes) % kPrefixBytes, ' ');
  std::string out(kPrefixBytes, '\0');
  const std::uint64_t length = text.size();
  std::memcpy(out.data(), &length, kPrefixBytes);
  out.reserve(kPrefixBytes + text.size() + static_cast<std::size_t>(offset));
  out += text;
  for (const NamedTensor& item : tensors) out += as_text(item.tensor.bytes);
  return out;
}

Result<ModelFile> read_safetensors(const std::string& path, Floats floats) {
  DGX_TRY(const std::string content, read_file(path, kMaxTensorBytes));
  auto file =
      parse_model(content, floats == Floats::kWidened ? Contained::kWidenedWeights : Contained::kWeights);
  if (!file) return within(path, std::move(file).error());
  return file;
}

Result<BulkTensor> read_safetensor(const std::string& path, const std::string& name, const Reading& reading) {
  DGX_TRY(const BulkTensor file, BulkTensor::open(path, kMaxTensorBytes, reading.bulk_bytes));
  auto tensor = parse_safetensor(file, name, reading);
  if (!tensor) return within(path, std::move(tensor).error());
  return tensor;
}

}  // namespace dgx::bundle
