#include "exported_tree.h"

#include <string>

#include "document_reader.h"

namespace dgx::lowering {
namespace {

constexpr int kMaxDepth = 64;
constexpr std::size_t kMaxBytes = std::size_t{1} << 20;
constexpr std::size_t kMaxPathBytes = 1024;  // every leaf has its own

std::string joined(const std::string& before, const std::string& part) {
  return before.empty() ? part : before + "." + part;
}

/// The keys of a dictionary's children; empty if the context is none of a dictionary.
std::vector<std::string> keys_of(const Document& context, std::size_t count) {
  const std::string* const text = context.as_string();
  if (!text) return {};
  const auto list = json::parse_document(*text, {kMaxBytes, kMaxDepth});
  const Document::Array* const items = list.ok() ? list->as_array() : nullptr;
  if (!items || items->size() != count) return {};
  std::vector<std::string> keys;
  for (const Document& item : *items) {
    if (!item.as_string() && !item.as_int()) return {};
    keys.push_back(item.as_string() ? *item.as_string() : std::to_string(*item.as_int()));
  }
  return keys;
}

Status add_leaves(const Document& node, const Place& place, const ModelResult& path,
                  std::vector<ModelResult>& out) {
  if (path.keys.size() > kMaxPathBytes)
    return place.error(fmt::format("a path has more than {} bytes", kMaxPathBytes));
  DGX_TRY(const Document* const type, member_of(node, "type", place));
  if (type->is_null()) return out.push_back(path), Status();
  DGX_TRY(const Document* const context, member_of(node, "context", place));
  DGX_TRY(const Document* const children, member_of(node, "children_spec", place));
  const Document::Array* const items = children->as_array();
  if (!items) return wrong_type(place.member("children_spec"), "an array", *children);
  const std::vector<std::string> keys = keys_of(*context, items->size());
  for (std::size_t n = 0; n < items->size(); ++n) {
    const std::string position = std::to_string(n);
    const ModelResult child{joined(path.keys, keys.empty() ? position : keys[n]),
                            joined(path.positions, position)};
    DGX_CHECK(add_leaves((*items)[n], place, child, out));
  }
  return {};
}

}  // namespace

Result<std::vector<ModelResult>> leaves_of_tree(std::string_view text) {
  const Place place{nullptr, "out_spec"};
  auto root = json::parse_document(text, {kMaxBytes, kMaxDepth});
  if (!root.ok()) return within("out_spec", std::move(root).error());
  const Document::Array* const items = root->as_array();
  if (!items || items->size() != 2) return place.error("is no tree with a version");
  std::vector<ModelResult> out;
  DGX_CHECK(add_leaves((*items)[1], place, {}, out));
  return out;
}

}  // namespace dgx::lowering
