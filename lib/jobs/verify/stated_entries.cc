#include "verify/stated_entries.h"

#include <algorithm>

#include "dgx/core/json.h"
#include "dgx/merkle/digests.h"
#include "dgx/program/averages.h"

namespace dgx::jobs {
namespace {

constexpr json::Limits kLimits{std::size_t{16} << 20, 4};

Result<StatedEntry> entry_from(const std::string& name, const json::Value& value) {
  const json::Array* parts = value.as_array();
  const bool has_three = parts != nullptr && parts->size() == 3;
  const std::string* type = has_three ? (*parts)[0].as_string() : nullptr;
  const json::Array* sizes = has_three ? (*parts)[1].as_array() : nullptr;
  const std::string* hex = has_three ? (*parts)[2].as_string() : nullptr;
  if (type == nullptr || sizes == nullptr || hex == nullptr)
    return malformed("is not [type, [dimensions], digest]");
  StatedEntry entry{name, DType::kF32, {}, {}};
  DGX_TRY(entry.dtype, dtype_from_name(*type));
  for (const json::Value& size : *sizes) {
    if (size.as_int() == nullptr) return malformed("has a dimension that is not an integer");
    entry.shape.push_back(*size.as_int());
  }
  DGX_TRY([[maybe_unused]] const std::int64_t count, element_count(entry.shape));
  DGX_TRY(entry.digest, digest_from_hex(*hex));
  return entry;
}

}  // namespace

const StatedEntry* find_stated(const std::vector<StatedEntry>& stated, std::string_view name) {
  const auto found = std::ranges::lower_bound(stated, name, {}, &StatedEntry::name);
  return found == stated.end() || found->name != name ? nullptr : &*found;
}

std::string exported_entry(const std::vector<StatedEntry>& stated, const std::string& name, bool averages) {
  const auto average = averages ? program::average_of(name) : std::nullopt;
  return average && find_stated(stated, *average) != nullptr ? *average : name;
}

bool has_averages(const json::Object& metadata) {
  const auto found = metadata.find(kWeightsKey);
  const std::string* const text = found == metadata.end() ? nullptr : found->second.as_string();
  return text != nullptr && *text == kAveragedWeights;
}

std::vector<StatedEntry> stated_entries(const bundle::StoredState& stored) {
  std::vector<StatedEntry> out;
  for (std::size_t i = 0; i < stored.state.size(); ++i) {
    const Entry& entry = stored.state[i];
    out.push_back({entry.name, entry.tensor.dtype(), entry.tensor.shape(), stored.digests.tensors[i]});
  }
  return out;
}

std::string print_entries(const std::vector<StatedEntry>& entries) {
  json::Object out;
  for (const StatedEntry& entry : entries) {
    json::Array shape(entry.shape.begin(), entry.shape.end());
    out.emplace(entry.name, json::Array{name_of(entry.dtype), std::move(shape), entry.digest.hex()});
  }
  return json::Value(std::move(out)).dump();
}

Result<std::vector<StatedEntry>> parse_entries(std::string_view text) {
  DGX_TRY(const json::Value value, json::parse_canonical(text, kLimits));
  if (value.as_object() == nullptr) return malformed("is not an object");
  std::vector<StatedEntry> out;
  for (const auto& [name, item] : *value.as_object()) {
    auto entry = entry_from(name, item);
    if (!entry.ok()) return within(name, std::move(entry).error());
    out.push_back(std::move(entry).value());
  }
  return out;
}

Result<Digest> state_of(const std::vector<StatedEntry>& entries) {
  std::vector<merkle::NamedDigest> names;
  for (const StatedEntry& entry : entries) names.push_back({entry.name, entry.digest});
  return merkle::state_digest(names);
}

}  // namespace dgx::jobs
