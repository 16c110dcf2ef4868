#include "safetensors_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>

#include "dgx/bundle/format.h"
#include "dgx/bundle/model_files.h"
#include "dgx/core/files.h"
#include "dgx/core/json_document.h"

// https://huggingface.co/docs/safetensors, and what transformers writes: a model in several files.
namespace dgx::bundle {
namespace {

constexpr std::size_t kMaxIndexBytes = std::size_t{16} << 20;
constexpr int kIndexDepth = 8;
constexpr std::size_t kMaxTensors = 65536;
constexpr std::size_t kMaxShards = 4096;

/// True for a file of the index's own folder: the index may come from a stranger.
bool is_plain_file(std::string_view name) {
  const bool plain = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '.' ||
           c == '_' || c == '-';
  });
  return plain && !name.starts_with('.') && name.ends_with(".safetensors") && name.size() <= 255;
}

/// Refuses a pipe, which a reader would wait for: others may have made the folder.
Status check_regular(const std::string& path) {
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  if (!std::filesystem::exists(status) || std::filesystem::is_regular_file(status)) return {};
  return malformed(path + ": is not a regular file");
}

}  // namespace

Result<std::map<std::string, std::string>> parse_weight_map(std::string_view text) {
  DGX_TRY(const json::Document index, json::parse_document(text, {kMaxIndexBytes, kIndexDepth}));
  const json::Document* const map = index.find("weight_map");
  if (map == nullptr || map->as_object() == nullptr) return malformed("weight_map: must be an object");
  if (map->as_object()->size() > kMaxTensors)
    return malformed(fmt::format("weight_map: has more than {} names", kMaxTensors));
  std::map<std::string, std::string> out;
  std::set<std::string> files;
  for (const auto& [name, file] : *map->as_object()) {
    if (file.as_string() == nullptr || !is_plain_file(*file.as_string()))
      return malformed(
          fmt::format("weight_map: {}: must be the name of a .safetensors file beside the index", name));
    files.insert(*file.as_string());
    out.emplace(name, *file.as_string());
  }
  if (files.size() > kMaxShards)
    return malformed(fmt::format("weight_map: names more than {} files", kMaxShards));
  return out;
}

Result<ModelFile> read_sharded_safetensors(const std::string& folder) {
  const std::string path = fmt::format("{}/{}", folder, kShardIndex);
  DGX_CHECK(check_regular(path));
  DGX_TRY(const std::string text, read_file(path, kMaxIndexBytes));
  auto map = parse_weight_map(text);
  if (!map.ok()) return within(path, std::move(map).error());
  std::set<std::string> files;
  for (const auto& [name, file] : *map) files.insert(file);
  ModelFile out;
  for (const std::string& file : files) {
    const std::string shard_path = fmt::format("{}/{}", folder, file);
    DGX_CHECK(check_regular(shard_path));
    DGX_TRY(ModelFile shard, read_safetensors(shard_path, Floats::kWidened));
    for (Entry& entry : shard.tensors) {
      const auto listed = map->find(entry.name);
      if (listed == map->end() || listed->second != file)
        return malformed(
            fmt::format("{}: {} is not in this file by {}", shard_path, entry.name, kShardIndex));
      map->erase(listed);
      out.tensors.push_back(std::move(entry));
    }
  }
  if (!map->empty())
    return malformed(
        fmt::format("{}: weight_map: {} is not in {}", path, map->begin()->first, map->begin()->second));
  std::sort(out.tensors.begin(), out.tensors.end(),
            [](const Entry& a, const Entry& b) { return a.name < b.name; });
  return out;
}

}  // namespace dgx::bundle
