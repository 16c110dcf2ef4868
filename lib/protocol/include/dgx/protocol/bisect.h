#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "dgx/core/bytes.h"
#include "dgx/core/result.h"
#include "dgx/core/tensor.h"
#include "dgx/manifest/dispute.h"
#include "dgx/protocol/player.h"

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

/// The last scalar operation of an element by a party's replay, next to `claimed`, the element's bits in hex
/// by another. `program` is the task's, checked. kInternal if the definition (kernels/ref) does not give the
/// replay's bits. Cost: the party's, who is asked for the value and its operands.
[[nodiscard]] Result<manifest::JudgedScalar> last_operation(const program::Program& program, Party& party,
                                                            std::int64_t step, kernels::ValueIndex value,
                                                            std::int64_t element, std::string claimed);

}  // namespace dgx::protocol
