#include "dgx/protocol/bisect.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "dgx/kernels/evaluate.h"
#include "dgx/protocol/scalar_text.h"

namespace dgx::protocol {

Result<std::optional<std::int64_t>> first_divergence(std::span<const Digest> ours,
                                                     std::span<const Digest> theirs) {
  if (ours.size() != theirs.size()) {
    return malformed(fmt::format("{} digests against {}: the lists do not cover the same states or values",
                                 ours.size(), theirs.size()));
  }
  const auto [at, other] = std::mismatch(ours.begin(), ours.end(), theirs.begin());
  if (at == ours.end()) return std::optional<std::int64_t>();
  return std::optional<std::int64_t>(at - ours.begin());
}

Result<std::optional<std::int64_t>> first_divergent_segment(std::span<const Digest> our_states,
                                                            std::span<const Digest> their_states) {
  DGX_TRY(const std::optional<std::int64_t> state, first_divergence(our_states, their_states));
  if (!state) return std::optional<std::int64_t>();
  if (*state == 0) return malformed("the initial states already differ: these are not runs of one task");
  return std::optional<std::int64_t>(*state - 1);
}

Result<std::optional<std::int64_t>> first_divergent_element(const TensorView& ours,
                                                            const TensorView& theirs) {
  if (ours.dtype != theirs.dtype || ours.shape != theirs.shape || ours.bytes.size() != theirs.bytes.size()) {
    return malformed(fmt::format("{}{} against {}{}", name_of(ours.dtype), to_string(ours.shape),
                                 name_of(theirs.dtype), to_string(theirs.shape)));
  }
  const auto [at, other] = std::mismatch(ours.bytes.begin(), ours.bytes.end(), theirs.bytes.begin());
  if (at == ours.bytes.end()) return std::optional<std::int64_t>();
  return std::optional<std::int64_t>((at - ours.bytes.begin()) /
                                     static_cast<std::int64_t>(size_of(ours.dtype)));
}

Result<manifest::JudgedScalar> last_operation(const program::Program& program, Party& party,
                                              std::int64_t step, kernels::ValueIndex value,
                                              std::int64_t element, std::string claimed) {
  const kernels::Primitive& line = program.values[value];
  DGX_TRY(const Tensor replayed, party.value(step, value));
  const std::string here = bits_text(replayed.view(), element);
  if (line.kind == kernels::Kind::kInput) {
    manifest::JudgedScalar out;
    out.operation = "input";
    out.result = here;
    out.claimed = std::move(claimed);
    return out;
  }
  kernels::ByValue<Tensor> operands(program.values.size());
  for (const kernels::Access& access : line.accesses) {
    DGX_TRY(operands[access.value], party.value(step, access.value));
  }
  kernels::ByValue<TensorView> views;
  for (const Tensor& operand : operands) views.push_back(operand.view());
  kernels::ByValue<kernels::ValueType> types;
  for (const kernels::Primitive& other : program.values) types.push_back({other.dtype, other.shape});
  DGX_TRY(const auto compiled, kernels::compile(line, types));
  DGX_TRY(const auto trace, kernels::trace_element(compiled, views, element, {}));
  auto out = judged_scalar(trace, line, std::move(claimed));
  if (out.result == here) return out;
  return internal_error(fmt::format("value {} element {}: the replay has {}, the definition gives {}", value,
                                    element, here, out.result));
}

}  // namespace dgx::protocol
