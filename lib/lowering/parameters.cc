#include "parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "dgx/core/text.h"

namespace dgx::lowering {
namespace {

bool means(const std::string& pattern, const CapturedGraph& graph, const AtenSource& source) {
  return source.kind == AtenSource::Kind::kParameter &&
         program::matches(pattern, source.name, graph.form(source).shape.size());
}

/// The error of a pattern that means no parameter.
Error no_match(const CapturedGraph& graph, const char* option, const std::string& pattern) {
  std::vector<std::string> names;
  for (const AtenSource& source : graph.sources) {
    if (source.kind == AtenSource::Kind::kParameter) names.push_back(source.name);
  }
  return usage_error(fmt::format("{} {}: matches no parameter", option, pattern),
                     hint_among(pattern, names, names.empty() ? "" : "they are named as " + names.front()));
}

Status freeze(const CapturedGraph& graph, const std::string& pattern, Treatment& out) {
  bool found = false;
  for (std::size_t n = 0; n < graph.sources.size(); ++n) {
    if (!means(pattern, graph, graph.sources[n])) continue;
    found = true;
    if (n < out.gradients.size()) out.gradients[n].reset();
  }
  if (found) return {};
  return no_match(graph, "--freeze", pattern);
}

Status group(const CapturedGraph& graph, const std::string& pattern, std::size_t number, Treatment& out) {
  bool found = false, taken = false;
  for (std::size_t n = 0; n < graph.sources.size(); ++n) {
    if (!means(pattern, graph, graph.sources[n])) continue;
    found = true;
    if (out.groups[n] != 0 || n >= out.gradients.size() || !out.gradients[n]) continue;
    out.groups[n] = number;
    taken = true;
  }
  if (!found) return no_match(graph, "--group", pattern);
  if (taken) return {};
  return usage_error(fmt::format("--group {}: takes no parameter", pattern),
                     "those that it matches are frozen or in groups before it");
}

}  // namespace

Result<Treatment> treat_parameters(const CapturedGraph& graph, const program::UpdateSpec& update) {
  Treatment out{graph.gradients, std::vector<std::size_t>(graph.sources.size(), 0)};
  for (const std::string& pattern : update.frozen) DGX_CHECK(freeze(graph, pattern, out));
  for (std::size_t n = 0; n < update.groups.size(); ++n)
    DGX_CHECK(group(graph, update.groups[n].match, n + 1, out));
  const auto is_trained = [](const auto& gradient) { return gradient.has_value(); };
  if (!update.frozen.empty() && std::none_of(out.gradients.begin(), out.gradients.end(), is_trained))
    return usage_error("--freeze: leaves no parameter to train");
  return out;
}

}  // namespace dgx::lowering
