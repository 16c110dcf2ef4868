#include "submit/init_weights.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <set>

#include "dgx/bundle/model_files.h"
#include "dgx/bundle/run.h"
#include "dgx/bundle/state.h"

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

Result<Weights> read_weights(const std::string& path, int threads) {
  if (std::filesystem::is_directory(path)) {
    DGX_TRY(const bundle::RunReader run, bundle::RunReader::open(path));
    DGX_TRY(auto stored, run.state(run.index().segments(), bundle::Check::kDigests, {threads}));
    return model_entries(std::move(stored.state));
  }
  if (!path.ends_with(".safetensors")) {
    DGX_TRY(auto stored, bundle::read_state(path, bundle::Check::kDigests, {threads}));
    return model_entries(std::move(stored.state));
  }
  DGX_TRY(bundle::ModelFile file, bundle::read_safetensors(path));
  Weights weights;
  for (Entry& entry : file.tensors) {
    const bool is_prefixed = entry.name.starts_with(kModel);
    const std::string name = is_prefixed ? entry.name.substr(kModel.size()) : entry.name;
    if (!weights.emplace(name, std::move(entry.tensor)).second)
      return malformed(fmt::format("{}: {} appears twice, with and without model/", path, name));
  }
  return weights;
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
  for (Entry& entry : state) {
    if (!entry.name.starts_with(kModel)) continue;
    const std::string name = entry.name.substr(kModel.size());
    if (literals.contains(name)) {
      weights.erase(name);
      continue;
    }
    if (Status taken = take(name, weights, entry.tensor); !taken)
      return within(path, std::move(taken).error());
  }
  if (!weights.empty())
    return malformed(fmt::format("{}: entry {} is not one of the model's", path, weights.begin()->first));
  return {};
}

}  // namespace dgx::jobs
