#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "dgx/core/json.h"
#include "dgx/jobs/simulate.h"

namespace dgx::jobs {
namespace {

constexpr std::size_t kMostBytes = 64 * 1024;
constexpr std::int64_t kMillion = 1'000'000;
/// The most that a policy asks of a verifier.
constexpr std::int64_t kMostBond = std::int64_t{1} << 43;

/// True for those whose offers stake a bond that can be chosen.
bool offers(AgentKind kind) {
  return kind != AgentKind::kCheat && kind != AgentKind::kCopier && kind != AgentKind::kGriefer &&
         kind != AgentKind::kRobber && kind != AgentKind::kVolunteer && kind != AgentKind::kColluder;
}

/// Reads a group's fields, and no other: those without effect on its kind are unknown.
Result<AgentGroup> read_group(AgentKind kind, const json::Value& value) {
  json::Fields in(value, fmt::format("agents: {}", name_of(kind)));
  AgentGroup out;
  out.kind = kind;
  out.count = in.integer("count", 1, kMostAgents);
  if (kind == AgentKind::kCheat && in.has("false_ppm")) out.false_ppm = in.integer("false_ppm", 1, kMillion);
  if (kind == AgentKind::kColluder) out.share_ppm = in.integer("share_ppm", 1, kMillion - 1);
  if (kind == AgentKind::kSybil) out.keys = in.integer("keys", 2, kMostAgents);
  if (offers(kind) && in.has("bond")) out.bond = in.integer("bond", 0, kMostBond);
  if (auto unknown = in.unknown()) return *std::move(unknown);
  DGX_CHECK(in.finish());
  return out;
}

/// The kind of this name that a file may ask for.
std::optional<AgentKind> kind_named(std::string_view name) {
  for (std::size_t n = 0; n < kAgentKinds; ++n) {
    const auto kind = static_cast<AgentKind>(n);
    if (kind != AgentKind::kSubmitter && name_of(kind) == name) return kind;
  }
  return std::nullopt;
}

Error no_such_kind(const std::string& name) {
  std::string all;
  for (std::size_t n = 0; n < kAgentKinds; ++n) {
    const auto kind = static_cast<AgentKind>(n);
    if (kind != AgentKind::kSubmitter) all += (all.empty() ? "" : ", ") + std::string(name_of(kind));
  }
  return malformed(fmt::format("agents: {}: no such kind", name), "use one of " + all);
}

}  // namespace

std::string_view name_of(AgentKind kind) {
  constexpr std::array<std::string_view, kAgentKinds> kNames{
      "accomplice", "cheat",  "colluder", "copier", "farmer",    "griefer", "guesser", "honest",   "insider",
      "lazy",       "robber", "seller",   "silent", "submitter", "sybil",   "venal",   "volunteer"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string_view name_of(Role role) {
  constexpr std::array<std::string_view, kRoles> kNames{"submitter", "solver",    "verifier",
                                                        "auditor",   "volunteer", "challenger"};
  return kNames[static_cast<std::size_t>(role)];
}

Agents standard_agents() {
  AgentGroup honest;
  honest.count = 4;
  return {honest};
}

Result<Agents> parse_agents(std::string_view text) {
  DGX_TRY(const json::Value value, json::parse(text, {kMostBytes}));
  const json::Object* const groups = value.as_object();
  if (groups == nullptr) return malformed(fmt::format("agents: must be an object, is {}", value.type_name()));
  Agents out;
  for (const auto& [name, group] : *groups) {
    const auto kind = kind_named(name);
    if (!kind) return no_such_kind(name);
    DGX_TRY(AgentGroup read, read_group(*kind, group));
    out.push_back(read);
  }
  if (out.empty()) return malformed("agents: names nobody");
  return out;
}

}  // namespace dgx::jobs
