#include "submit/init_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <set>

#include "dgx/bundle/model_files.h"
#include "dgx/bundle/run.h"
#include "dgx/bundle/state.h"
#include "dgx/core/files.h"

namespace dgx::jobs {
namespace {

constexpr std::string_view kModel = "model/";

/// Indexed by name without `model/`.
using Weights = std::map<std::string, Tensor, std::less<>>;

Weights model_entries(State state) {
  Weights weights;
  for (Entry& entry : state) {
    if (entry.name.starts_with(kModel))
      weights.emplace(entry.name.substr(kModel.size()), std::move(entry.tensor));
  }
  return weights;
}

/// The weights of model files, whose names may begin with `model/`.
Result<Weights> plain_entries(const std::string& path, State tensors) {
  Weights weights;
  for (Entry& entry : tensors) {
    const bool is_prefixed = entry.name.starts_with(kModel);
    const std::string name = is_prefixed ? entry.name.substr(kModel.size()) : entry.name;
    if (!weights.emplace(name, std::move(entry.tensor)).second)
      return malformed(fmt::format("{}: {} appears twice, with and without model/", path, name));
  }
  return weights;
}

Result<Weights> read_weights(const std::string& path, int threads) {
  const std::string whole = path + "/model.safetensors";
  if (std::filesystem::is_directory(path) && !exists(path + "/index.h5")) {
    const bool sharded = exists(fmt::format("{}/{}", path, bundle::kShardIndex));
    if (sharded && exists(whole))
      return usage_error(fmt::format("{}: has both model.safetensors and {}", path, bundle::kShardIndex),
                         "name the file, or remove one of them");
    if (sharded) {
      DGX_TRY(bundle::ModelFile file, bundle::read_sharded_safetensors(path));
      return plain_entries(path, std::move(file.tensors));
    }
    if (exists(whole)) return read_weights(whole, threads);
  }
  if (std::filesystem::is_directory(path)) {
    DGX_TRY(const bundle::RunReader run, bundle::RunReader::open(path));
    DGX_TRY(auto stored, run.state(run.index().segments(), bundle::Check::kDigests, {threads}));
    return model_entries(std::move(stored.state));
  }
  if (!path.ends_with(".safetensors")) {
    DGX_TRY(auto stored, bundle::read_state(path, bundle::Check::kDigests, {threads}));
    return model_entries(std::move(stored.state));
  }
  DGX_TRY(bundle::ModelFile file, bundle::read_safetensors(path, bundle::Floats::kWidened));
  return plain_entries(path, std::move(file.tensors));
}

/// The longest beginning, whole parts up to a '.', that all names share.
std::string common_prefix(const std::set<std::string, std::less<>>& names) {
  if (names.empty()) return {};
  const std::string& first = *names.begin();
  const std::string& last = *names.rbegin();
  const auto differ = std::ranges::mismatch(first, last).in1 - first.begin();
  const std::size_t dot = std::string_view(first).substr(0, static_cast<std::size_t>(differ)).rfind('.');
  return dot == std::string::npos ? std::string() : first.substr(0, dot + 1);
}

/// Gives the weights the model's names, if they have them but for a prefix that all names of one side share:
/// the file's is dropped, or the model's is put before. Otherwise leaves them as they are, so that messages
/// have the names of the file.
void drop_prefix(const std::set<std::string, std::less<>>& wanted, Weights& weights) {
  std::set<std::string, std::less<>> given;
  for (const auto& [name, tensor] : weights) given.insert(name);
  const auto renamed = [&](const std::function<std::string(const std::string&)>& rename) {
    std::set<std::string, std::less<>> names;
    for (const std::string& name : given) names.insert(rename(name));
    if (names != wanted) return false;
    Weights out;
    for (auto& [name, tensor] : weights) out.emplace(rename(name), std::move(tensor));
    weights = std::move(out);
    return true;
  };
  if (given == wanted) return;
  const std::string of_file = common_prefix(given);
  const std::string of_model = common_prefix(wanted);
  for (std::size_t dot = of_file.find('.'); dot != std::string::npos; dot = of_file.find('.', dot + 1)) {
    if (renamed([&](const std::string& name) { return name.substr(dot + 1); })) return;
  }
  for (std::size_t dot = of_model.find('.'); dot != std::string::npos; dot = of_model.find('.', dot + 1)) {
    if (renamed([&](const std::string& name) { return of_model.substr(0, dot + 1) + name; })) return;
  }
}

Status take(const std::string& name, Weights& weights, Tensor& into) {
  const auto found = weights.find(name);
  if (found == weights.end()) return malformed(fmt::format("entry {} is missing", name));
  const Tensor& given = found->second;
  if (given.dtype() != into.dtype() || given.shape() != into.shape()) {
    return malformed(fmt::format("entry {} is {}{}, the model's is {}{}", name, name_of(given.dtype()),
                                 to_string(given.shape()), name_of(into.dtype()), to_string(into.shape())));
  }
  into = std::move(found->second);
  weights.erase(found);
  return {};
}

}  // namespace

Status bring_weights(const std::string& path, const lowering::CapturedGraph& graph, State& state,
                     int threads) {
  DGX_TRY(Weights weights, read_weights(path, threads));
  std::set<std::string, std::less<>> literals;
  for (const lowering::AtenSource& source : graph.sources) {
    if (source.kind == lowering::AtenSource::Kind::kConstant) literals.insert(source.name);
  }
  for (const std::string& literal : literals) weights.erase(literal);
  std::set<std::string, std::less<>> wanted;
  for (const Entry& entry : state) {
    const bool is_model =
        entry.name.starts_with(kModel) && !literals.contains(entry.name.substr(kModel.size()));
    if (is_model) wanted.insert(entry.name.substr(kModel.size()));
  }
  drop_prefix(wanted, weights);
  for (Entry& entry : state) {
    if (!entry.name.starts_with(kModel)) continue;
    const std::string name = entry.name.substr(kModel.size());
    if (literals.contains(name)) continue;
    if (Status taken = take(name, weights, entry.tensor); !taken)
      return within(path, std::move(taken).error());
  }
  if (!weights.empty())
    return malformed(fmt::format("{}: entry {} is not one of the model's", path, weights.begin()->first));
  return {};
}

}  // namespace dgx::jobs
