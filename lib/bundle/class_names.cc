#include "class_names.h"

#include <fmt/format.h>

#include <algorithm>

#include "dgx/bundle/format.h"
#include "dgx/core/json.h"

namespace dgx::bundle {
namespace {

constexpr json::Limits kLimits{kMaxClassTextBytes, 2};

Status check_name_of_class(const std::string& name) {
  if (name.empty()) return malformed("a class has an empty name");
  if (name.size() > kMaxNameBytes)
    return malformed(fmt::format("the name of a class is longer than {} bytes", kMaxNameBytes));
  const bool has_control = std::any_of(
      name.begin(), name.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
  if (has_control || !json::parse(json::Value(name).dump(), kLimits).ok())
    return malformed(fmt::format("class \"{}\": is not UTF-8, or has a control character", name));
  return {};
}

}  // namespace

Status check_classes(const std::vector<std::string>& names) {
  if (names.size() > kMaxClasses)
    return malformed(fmt::format("{} classes, at most {}", names.size(), kMaxClasses));
  for (const std::string& name : names) DGX_CHECK(check_name_of_class(name));
  std::vector<std::string> sorted = names;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) return malformed(fmt::format("class \"{}\" appears twice", *twice));
  return {};
}

std::string class_text(const std::vector<std::string>& names) {
  return json::Value(json::Array(names.begin(), names.end())).dump();
}

Result<std::vector<std::string>> classes_from_text(std::string_view text) {
  DGX_TRY(const json::Value value, json::parse_canonical(text, kLimits));
  const json::Array* const items = value.as_array();
  if (items == nullptr || items->empty()) return malformed("is not a list of names");
  std::vector<std::string> names;
  for (const json::Value& item : *items) {
    if (item.as_string() == nullptr) return malformed(fmt::format("item {} is not a name", names.size()));
    names.push_back(*item.as_string());
  }
  DGX_CHECK(check_classes(names));
  return names;
}

}  // namespace dgx::bundle
