#include "dgx/program/initial.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "dgx/kernels/philox.h"
#include "dgx/program/averages.h"

namespace dgx::program {

using kernels::Primitive;

namespace {

constexpr std::string_view kModelPrefix = "model/";

/// The rule by which one entry starts: dgx-numerics(7), "Initial weights".
struct Rule {
  enum class Kind { kUniform, kNormal, kConstant };
  Kind kind = Kind::kConstant;
  float number = 0;  ///< the bound, the factor, or the value of every element
};

/// The weight of the layer that `name` belongs to: that entry itself, or the one next to it.
const Primitive* weight_of(const Program& program, const std::string& name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string::npos) return nullptr;
  const auto found = find_state_input(program, name.substr(0, dot) + ".weight");
  return found ? &program.values[*found] : nullptr;
}

/// Number of inputs that one output of the layer sees.
float fan_in(const Primitive& weight) {
  std::int64_t inputs = 1;
  for (std::size_t n = 1; n < weight.shape.size(); ++n) inputs *= weight.shape[n];
  return static_cast<float>(inputs);
}

Rule uniform_rule(const Primitive& weight) {
  return {Rule::Kind::kUniform, 1.0F / std::sqrt(fan_in(weight))};
}

using MaybeRule = std::optional<Rule>;

MaybeRule mlp_rule(const Primitive& weight, std::string_view last) {
  if (weight.shape.size() < 2 || (last != "weight" && last != "bias")) return std::nullopt;
  return uniform_rule(weight);
}

MaybeRule resnet_rule(const Primitive& weight, std::string_view last) {
  const bool is_norm = weight.shape.size() == 1;
  if (is_norm && (last == "weight" || last == "running_var")) return Rule{Rule::Kind::kConstant, 1};
  if (is_norm && (last == "bias" || last == "running_mean")) return Rule{Rule::Kind::kConstant, 0};
  if (weight.shape.size() == 4 && last == "weight")
    return Rule{Rule::Kind::kNormal, std::sqrt(2.0F / fan_in(weight))};
  return mlp_rule(weight, last);
}

/// The number of a decoder's blocks: each has one such projection.
std::int64_t count_blocks(const Program& program) {
  std::int64_t blocks = 0;
  for (const auto value : state_inputs(program)) {
    const std::string& name = program.values[value].source.name;
    if (name.starts_with(kModelPrefix) && name.ends_with(".attn.c_proj.weight")) ++blocks;
  }
  return blocks;
}

MaybeRule gpt_rule(const Program& program, const Primitive& weight, const std::string& name,
                   std::string_view last) {
  if (last == "bias") return Rule{Rule::Kind::kConstant, 0};
  if (last != "weight") return std::nullopt;
  if (weight.shape.size() == 1) return Rule{Rule::Kind::kConstant, 1};
  constexpr float kDeviation = 0.02F;
  if (!name.ends_with(".c_proj.weight")) return Rule{Rule::Kind::kNormal, kDeviation};
  const auto additions = static_cast<float>(2 * count_blocks(program));
  return Rule{Rule::Kind::kNormal, kDeviation / std::sqrt(additions)};
}

MaybeRule switch_rule(const Program& program, const Primitive& weight, const std::string& name,
                      std::string_view last) {
  constexpr float kRouterDeviation = 0.002F;
  if (weight.shape.size() > 1 && name.ends_with(".router.weight"))
    return Rule{Rule::Kind::kNormal, kRouterDeviation};
  return gpt_rule(program, weight, name, last);
}

Result<Rule> rule_for(const Program& program, const Entry& entry, ModelKind kind) {
  const Primitive* weight = weight_of(program, entry.name);
  MaybeRule rule;
  if (weight && entry.tensor.dtype() == DType::kF32) {
    const std::string_view last = std::string_view(entry.name).substr(entry.name.rfind('.') + 1);
    switch (kind) {
      case ModelKind::kMlp: rule = mlp_rule(*weight, last); break;
      case ModelKind::kResNet20: rule = resnet_rule(*weight, last); break;
      case ModelKind::kGpt: rule = gpt_rule(program, *weight, entry.name, last); break;
      case ModelKind::kSwitch: rule = switch_rule(program, *weight, entry.name, last); break;
    }
  }
  if (rule) return *rule;
  return usage_error(fmt::format("{}: no rule for its initial numbers", entry.name),
                     "only the entries of a built-in model start from a seed");
}

void apply(const Rule& rule, std::uint64_t seed, std::uint32_t ordinal, Tensor& out) {
  switch (rule.kind) {
    case Rule::Kind::kUniform: return kernels::uniform_weights(seed, ordinal, rule.number, out);
    case Rule::Kind::kNormal: return kernels::normal_weights(seed, ordinal, rule.number, out);
    case Rule::Kind::kConstant: std::fill(out.as<float>().begin(), out.as<float>().end(), rule.number);
  }
}

}  // namespace

State zero_state(const Program& program) {
  State state;
  for (const auto value : state_inputs(program)) {
    state.push_back({program.values[value].source.name,
                     Tensor(program.values[value].dtype, program.values[value].shape)});
  }
  return state;
}

Result<State> initial_state(const Program& program, std::uint64_t seed, ModelKind kind) {
  State state = zero_state(program);
  std::uint32_t ordinal = 0;
  for (Entry& entry : state) {
    if (!entry.name.starts_with(kModelPrefix)) continue;
    DGX_TRY(const Rule rule, rule_for(program, entry, kind));
    apply(rule, seed, ordinal++, entry.tensor);
  }
  start_averages(state);
  return state;
}

Status check_state(const Program& program, const State& state) {
  const auto inputs = state_inputs(program);
  for (std::size_t n = 0; n < std::max(inputs.size(), state.size()); ++n) {
    const Primitive* wanted = n < inputs.size() ? &program.values[inputs[n]] : nullptr;
    const Entry* given = n < state.size() ? &state[n] : nullptr;
    if (wanted && (!given || given->name > wanted->source.name))
      return malformed(fmt::format("state: entry '{}' is missing", wanted->source.name));
    if (!wanted || given->name != wanted->source.name)
      return malformed(fmt::format("state: entry '{}' is not in the program", given->name));
    if (given->tensor.dtype() != wanted->dtype || given->tensor.shape() != wanted->shape) {
      return malformed(fmt::format("state: entry '{}' is {} {}, the program's {} {}", given->name,
                                   name_of(given->tensor.dtype()), to_string(given->tensor.shape()),
                                   name_of(wanted->dtype), to_string(wanted->shape)));
    }
  }
  return {};
}

}  // namespace dgx::program
