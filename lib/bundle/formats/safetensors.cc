#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "dgx/bundle/format.h"
#include "dgx/bundle/sources.h"
#include "dgx/core/bytes.h"
#include "dgx/core/files.h"
#include "dgx/core/json.h"

// https://github.com/huggingface/safetensors, "Format": u64 little-endian length of the header, a JSON
// object, numbers.
namespace dgx::bundle {
namespace {

constexpr std::size_t kPrefixBytes = 8;
constexpr std::size_t kMaxHeaderBytes = std::size_t{16} << 20;
constexpr int kHeaderDepth = 4;
constexpr std::int64_t kMostOffset = std::int64_t{1} << 53;
constexpr std::string_view kMetadata = "__metadata__";

struct Item {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

Result<DType> dtype_of(const std::string& word) {
  if (word == "F32") return DType::kF32;
  if (word == "I64") return DType::kI64;
  if (word == "U8") return DType::kU8;
  return malformed(fmt::format("dtype: \"{}\" is not one of F32, I64, U8", word),
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

Result<Item> item_from(const std::string& name, const json::Value& value) {
  Item item;
  item.name = name;
  json::Fields in(value, name);
  const std::string word = in.string("dtype", 16);
  item.shape = integers(in, "shape", kMaxRank);
  const auto offsets = integers(in, "data_offsets", 2);
  if (offsets.size() != 2) in.fail("data_offsets", "must be two numbers");
  DGX_CHECK(in.finish());
  auto dtype = dtype_of(word);
  if (!dtype) return within(name, std::move(dtype).error());
  item.dtype = *dtype;
  item.begin = offsets[0];
  item.end = offsets[1];
  const auto count = element_count(item.shape);
  if (!count) return within(name, count.error());
  const auto width = static_cast<std::int64_t>(size_of(item.dtype));
  if (item.end < item.begin || (item.end - item.begin) % width != 0 ||
      (item.end - item.begin) / width != *count) {
    return malformed(fmt::format("{}: data_offsets: {} to {} do not hold {}{}", name, item.begin, item.end,
                                 name_of(item.dtype), to_string(item.shape)));
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

Result<std::vector<Item>> read_header(std::string_view text) {
  auto header = json::parse(text, {kMaxHeaderBytes, kHeaderDepth});
  if (!header) return within("header", std::move(header).error());
  const json::Object* object = header->as_object();
  if (object == nullptr) return malformed("header: must be an object");
  std::vector<Item> items;
  for (const auto& [name, value] : *object) {
    if (name == kMetadata) {
      if (auto status = check_metadata(value); !status) return within("header", std::move(status).error());
      continue;
    }
    auto item = item_from(name, value);
    if (!item) return within("header", std::move(item).error());
    items.push_back(std::move(item).value());
  }
  return items;
}

Result<State> parse(std::string_view content) {
  if (content.size() < kPrefixBytes) return malformed("byte 0: is not a safetensors file");
  std::uint64_t length = 0;
  std::memcpy(&length, content.data(), kPrefixBytes);
  if (length > kMaxHeaderBytes || length > content.size() - kPrefixBytes)
    return malformed(fmt::format("byte 0: a header of {} bytes is too long", length));
  DGX_TRY(const auto items, read_header(content.substr(kPrefixBytes, length)));
  const std::string_view numbers = content.substr(kPrefixBytes + length);
  DGX_CHECK(check_cover(items, numbers.size()));
  State state;
  for (const Item& item : items) {
    const auto bytes =
        numbers.substr(static_cast<std::size_t>(item.begin), static_cast<std::size_t>(item.end - item.begin));
    state.push_back({item.name, Tensor(TensorView{item.dtype, item.shape, as_bytes(bytes)})});
  }
  return state;
}

}  // namespace

Result<State> read_safetensors(const std::string& path) {
  DGX_TRY(const std::string content, read_file(path, kMaxTensorBytes));
  auto state = parse(content);
  if (!state) return within(path, std::move(state).error());
  return state;
}

}  // namespace dgx::bundle
