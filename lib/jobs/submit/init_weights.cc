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
    if (exists(whole)) {
      if (!std::filesystem::is_regular_file(whole)) return malformed(whole + ": is not a regular file");
      return read_weights(whole, threads);
    }
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

using Names = std::set<std::string, std::less<>>;
using Renaming = std::function<std::string(const std::string&)>;

/// The beginnings of `prefix` that end in a '.', the shortest first.
std::vector<std::string> beginnings(const std::string& prefix) {
  std::vector<std::string> out;
  for (std::size_t dot = prefix.find('.'); dot != std::string::npos; dot = prefix.find('.', dot + 1))
    out.push_back(prefix.substr(0, dot + 1));
  return out;
}

/// The renaming of the file's entries to the model's: none, or but for a prefix that all names of one side
/// share: the file's is dropped, or the model's is put before. If none makes them fit, they stay, so that
/// messages have the names of the file. `first_name` gives the one name by which the model has tied weights.
Renaming find_renaming(const Names& wanted, const Names& given, const Renaming& first_name) {
  std::vector<Renaming> candidates{first_name};
  for (const std::string& prefix : beginnings(common_prefix(given)))
    candidates.emplace_back([=](const std::string& name) { return first_name(name.substr(prefix.size())); });
  for (const std::string& prefix : beginnings(common_prefix(wanted)))
    candidates.emplace_back([=](const std::string& name) { return first_name(prefix + name); });
  for (const Renaming& rename : candidates) {
    Names names;
    for (const std::string& name : given) names.insert(rename(name));
    if (names == wanted) return rename;
  }
  return first_name;
}

bool same(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() && std::ranges::equal(a.bytes(), b.bytes());
}

/// The weights by their new names. kMalformed: two of one name, tied weights, have other numbers.
Result<Weights> renamed(Weights weights, const Renaming& rename) {
  Weights out;
  std::map<std::string, std::string> names;
  for (auto& [name, tensor] : weights) {
    const auto [known, is_new] = out.try_emplace(rename(name), std::move(tensor));
    if (is_new) {
      names[known->first] = name;
    } else if (!same(known->second, tensor)) {
      return malformed(fmt::format("entries {} and {} differ, and are one tensor of the model",
                                   names[known->first], name));
    }
  }
  return out;
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

ModelNames names_of(const lowering::CapturedGraph& graph) {
  ModelNames out{{}, graph.tied};
  for (const lowering::AtenSource& source : graph.sources) {
    if (source.kind == lowering::AtenSource::Kind::kConstant) out.literals.insert(source.name);
  }
  return out;
}

Status bring_weights(const std::string& path, const ModelNames& model, State& state, int threads) {
  DGX_TRY(Weights weights, read_weights(path, threads));
  for (const std::string& literal : model.literals) weights.erase(literal);
  Names wanted;
  for (const Entry& entry : state) {
    const bool is_model =
        entry.name.starts_with(kModel) && !model.literals.contains(entry.name.substr(kModel.size()));
    if (is_model) wanted.insert(entry.name.substr(kModel.size()));
  }
  Names given;
  for (const auto& [name, tensor] : weights) given.insert(name);
  const Renaming first_name = [&](const std::string& name) {
    const auto tied = std::ranges::find(model.tied, name, &lowering::TiedName::name);
    return tied == model.tied.end() ? name : tied->first;
  };
  auto fitting = renamed(std::move(weights), find_renaming(wanted, given, first_name));
  if (!fitting.ok()) return within(path, std::move(fitting).error());
  weights = std::move(*fitting);
  for (Entry& entry : state) {
    if (!entry.name.starts_with(kModel)) continue;
    const std::string name = entry.name.substr(kModel.size());
    if (model.literals.contains(name)) continue;
    if (Status taken = take(name, weights, entry.tensor); !taken)
      return within(path, std::move(taken).error());
  }
  if (!weights.empty())
    return malformed(fmt::format("{}: entry {} is not one of the model's", path, weights.begin()->first));
  return {};
}

}  // namespace dgx::jobs
