#pragma once

#include <cstdint>
#include <span>

#include "dgx/core/bytes.h"
#include "dgx/core/result.h"
#include "dgx/core/tensor.h"
#include "dgx/merkle/openings.h"

namespace dgx::merkle {

/// The nodes of a tensor (dgx-bundle(5), "Nodes"): the roots of its groups of 16 leaves, the last of which
/// may be shorter. Their root is the tensor's: with all nodes, a group is believed without the rest of the
/// tensor.

/// The bytes of a group.
inline constexpr std::size_t kTensorNodeBytes = 16 * kTensorLeafBytes;

[[nodiscard]] std::uint64_t tensor_node_count(std::uint64_t size_bytes);
/// The node of one group: the root over the leaves of at most kTensorNodeBytes bytes, at least one.
[[nodiscard]] Digest tensor_node(ByteView group);
/// open_tensor() of a tensor of which only the leaf's group is at hand: `group` has its bytes, and `nodes`
/// are all of the tensor's. kUsage if there is no such leaf. Cost: hashes group and nodes.
[[nodiscard]] Result<TensorOpening> open_tensor(DType dtype, const Shape& shape, std::uint64_t leaf,
                                                ByteView group, std::span<const Digest> nodes);

}  // namespace dgx::merkle
