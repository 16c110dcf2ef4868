#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "dgx/core/bytes.h"
#include "dgx/core/result.h"
#include "dgx/core/tensor.h"

namespace dgx::protocol {

/// The first index at which two lists of digests differ, or nullopt if they are equal. Compares in order,
/// because states may agree again after differing. kMalformed if the lengths differ: the lists are not about
/// the same thing. Used for states of runs (the segment that ends there is the divergent one), steps of a
/// segment and values of a step.
[[nodiscard]] Result<std::optional<std::int64_t>> first_divergence(std::span<const Digest> ours,
                                                                   std::span<const Digest> theirs);

/// The first segment whose end states differ while its start states are equal; kMalformed if the initial
/// states differ already.
[[nodiscard]] Result<std::optional<std::int64_t>> first_divergent_segment(
    std::span<const Digest> our_states, std::span<const Digest> their_states);

/// The first element whose bits differ; kMalformed unless dtype and shape are the same.
[[nodiscard]] Result<std::optional<std::int64_t>> first_divergent_element(const TensorView& ours,
                                                                          const TensorView& theirs);

}  // namespace dgx::protocol
