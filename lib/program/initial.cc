#include "dgx/program/initial.h"

#include <fmt/format.h>

#include <cmath>
#include <map>

#include "dgx/kernels/philox.h"

namespace dgx::program {

using kernels::Primitive;

namespace {

constexpr std::string_view kModelPrefix = "model/";

const Primitive& at(const Program& program, kernels::ValueIndex value) {
  return program.values[static_cast<std::size_t>(value)];
}

/// Inputs that one output of the layer sees: of a bias, those of the weight beside it.
Result<std::int64_t> fan_in(const Program& program, const Primitive& entry) {
  const std::string& name = entry.source.name;
  const Primitive* weight = &entry;
  if (name.ends_with(".bias")) {
    const auto sibling = find_state_input(program, name.substr(0, name.size() - 4) + "weight");
    weight = sibling ? &at(program, *sibling) : nullptr;
  } else if (!name.ends_with(".weight")) {
    weight = nullptr;
  }
  if (!weight || entry.dtype != DType::kF32 || weight->shape.size() < 2) {
    return usage_error(fmt::format("{}: no rule for its initial numbers", name),
                       "only layers with .weight and .bias start from a seed");
  }
  return element_count(Shape(weight->shape.begin() + 1, weight->shape.end()));
}

State zeros(const Program& program) {
  State state;
  for (const auto value : state_inputs(program)) {
    state.push_back(
        {at(program, value).source.name, Tensor(at(program, value).dtype, at(program, value).shape)});
  }
  return state;
}

}  // namespace

Result<State> initial_state(const Program& program, std::uint64_t seed) {
  State state = zeros(program);
  std::uint32_t ordinal = 0;
  for (Entry& entry : state) {
    if (!entry.name.starts_with(kModelPrefix)) continue;
    DGX_TRY(const std::int64_t inputs, fan_in(program, at(program, *find_state_input(program, entry.name))));
    const float bound = 1.0F / std::sqrt(static_cast<float>(inputs));
    kernels::uniform_weights(seed, ordinal++, bound, entry.tensor);
  }
  return state;
}

Result<State> initial_state(const Program& program, const CapturedGraph& graph) {
  std::map<std::string, const Tensor*> values;
  for (const AtenSource& source : graph.sources)
    values[std::string(kModelPrefix) + source.name] = &source.value;
  State state = zeros(program);
  for (Entry& entry : state) {
    if (!entry.name.starts_with(kModelPrefix)) continue;
    const auto found = values.find(entry.name);
    if (found == values.end()) return malformed(fmt::format("{}: the model has no such tensor", entry.name));
    const Tensor& tensor = *found->second;
    if (tensor.dtype() != entry.tensor.dtype() || tensor.shape() != entry.tensor.shape()) {
      return malformed(fmt::format("{}: the model's tensor is {} {}, the program's {} {}", entry.name,
                                   name_of(tensor.dtype()), to_string(tensor.shape()),
                                   name_of(entry.tensor.dtype()), to_string(entry.tensor.shape())));
    }
    entry.tensor = tensor;
  }
  return state;
}

Status check_state(const Program& program, const State& state) {
  const auto inputs = state_inputs(program);
  for (std::size_t n = 0; n < std::max(inputs.size(), state.size()); ++n) {
    const Primitive* wanted = n < inputs.size() ? &at(program, inputs[n]) : nullptr;
    const Entry* given = n < state.size() ? &state[n] : nullptr;
    if (wanted && (!given || given->name > wanted->source.name))
      return malformed(fmt::format("state: entry '{}' is missing", wanted->source.name));
    if (!wanted || given->name != wanted->source.name)
      return malformed(fmt::format("state: entry '{}' is not the program's", given->name));
    if (given->tensor.dtype() != wanted->dtype || given->tensor.shape() != wanted->shape) {
      return malformed(fmt::format("state: entry '{}' is {} {}, the program's {} {}", given->name,
                                   name_of(given->tensor.dtype()), to_string(given->tensor.shape()),
                                   name_of(wanted->dtype), to_string(wanted->shape)));
    }
  }
  return {};
}

}  // namespace dgx::program
