#include "dgx/protocol/bisect.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace dgx::protocol {

Result<std::optional<std::int64_t>> first_divergence(std::span<const Digest> ours,
                                                     std::span<const Digest> theirs) {
  if (ours.size() != theirs.size()) {
    return malformed(
        fmt::format("{} digests against {}: they are not about the same thing", ours.size(), theirs.size()));
  }
  const auto [at, other] = std::mismatch(ours.begin(), ours.end(), theirs.begin());
  if (at == ours.end()) return std::optional<std::int64_t>();
  return std::optional<std::int64_t>(at - ours.begin());
}

Result<std::optional<std::int64_t>> first_divergent_segment(std::span<const Digest> our_states,
                                                            std::span<const Digest> their_states) {
  DGX_TRY(const std::optional<std::int64_t> state, first_divergence(our_states, their_states));
  if (!state) return std::optional<std::int64_t>();
  if (*state == 0) return malformed("the initial states differ already: these are not runs of one task");
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

}  // namespace dgx::protocol
