#include <fmt/format.h>

#include <charconv>

#include "dgx/bundle/model_files.h"
#include "dgx/merkle/digests.h"
#include "inspect/describe.h"
#include "verify/stated_entries.h"

namespace dgx::jobs {
namespace {

constexpr std::string_view kStateKey = "dgx.state";

/// A text of a file's metadata; empty if it has none of this name.
std::string text_at(const json::Object& metadata, std::string_view key) {
  const auto found = metadata.find(key);
  const std::string* text = found == metadata.end() ? nullptr : found->second.as_string();
  return text != nullptr ? *text : std::string();
}

/// Compares a model's tensors with the entries that its file states, and these with the state that it names.
Status check_entries(const bundle::ModelFile& file, const std::vector<Digest>& tensors, Description& out) {
  const std::string text = text_at(file.metadata, kEntriesKey);
  if (text.empty()) return out.absent.push_back(std::string(kEntriesKey)), Status();
  auto entries = parse_entries(text);
  if (!entries.ok()) return within(std::string(kEntriesKey), std::move(entries).error());
  const bool averages = has_averages(file.metadata);
  std::size_t found = 0;
  for (const StatedEntry& entry : *entries) {
    if (!entry.name.starts_with(kModelPrefix)) continue;
    if (found == tensors.size() || file.tensors[found].name != entry.name.substr(kModelPrefix.size()))
      return malformed(fmt::format("{} is not among the tensors", entry.name));
    const StatedEntry* const exported = find_stated(*entries, exported_entry(*entries, entry.name, averages));
    if (tensors[found++] != exported->digest)
      return malformed(fmt::format("{} has another digest", entry.name));
  }
  if (found < tensors.size())
    return malformed(fmt::format("{} names no \"{}\"", kEntriesKey, file.tensors[found].name));
  DGX_TRY(const Digest state, state_of(*entries));
  if (state.hex() != text_at(file.metadata, kStateKey))
    return malformed(fmt::format("the entries lead to state {}, {} is another", state.brief(), kStateKey));
  out.recomputed = {fmt::format("{} tensors", found), "state"};
  return {};
}

Result<std::vector<Digest>> tensor_digests(const State& tensors, int threads) {
  DGX_TRY(merkle::StateDigests digests, merkle::state_digests(tensors, threads));
  return std::move(digests).tensors;
}

}  // namespace

Result<Description> describe_model(const std::string& path, manifest::FileKind kind, Recompute recompute,
                                   int threads) {
  const bool is_npz = kind == manifest::FileKind::kNpz;
  DGX_TRY(const bundle::ModelFile file, is_npz ? bundle::read_own_npz(path) : bundle::read_safetensors(path));
  Description out{is_npz ? "npz" : "safetensors", {}, {}, {}};
  for (const std::string_view key : {"dgx.task", "dgx.state"}) {
    const auto digest = digest_from_hex(text_at(file.metadata, key));
    if (digest.ok()) out.fields.push_back({std::string(key.substr(4)), digest->hex()});
  }
  const std::string step = text_at(file.metadata, "dgx.step");
  std::int64_t number = 0;
  const auto read = std::from_chars(step.data(), step.data() + step.size(), number);
  const bool is_step = read.ec == std::errc() && read.ptr == step.data() + step.size() && number >= 0;
  if (is_step) out.fields.push_back({"step", json::integer_in_output(number)});
  auto digests = tensor_digests(file.tensors, threads);
  if (!digests.ok()) return within(path, std::move(digests).error());
  json::Array rows;
  std::int64_t numbers = 0;
  for (std::size_t i = 0; i < file.tensors.size(); ++i) {
    const Tensor& tensor = file.tensors[i].tensor;
    numbers += tensor.count();
    rows.emplace_back(json::Object{{"name", file.tensors[i].name},
                                   {"dtype", name_of(tensor.dtype())},
                                   {"shape", to_string(tensor.shape())},
                                   {"digest", (*digests)[i].hex()}});
  }
  if (has_averages(file.metadata)) out.fields.push_back({"weights", std::string(kAveragedWeights)});
  out.fields.push_back({"numbers", json::integer_in_output(numbers)});
  out.fields.push_back({"tensors", std::move(rows), {"name", "dtype", "shape", "digest"}});
  if (recompute == Recompute::kNo) return out;
  if (Status checked = check_entries(file, *digests, out); !checked.ok())
    return within(path, std::move(checked).error());
  return out;
}

}  // namespace dgx::jobs
