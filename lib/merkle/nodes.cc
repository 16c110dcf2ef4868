#include "dgx/merkle/nodes.h"

#include <algorithm>
#include <cassert>

#include "dgx/core/checked.h"
#include "dgx/merkle/tree.h"

namespace dgx::merkle {

std::uint64_t tensor_node_count(std::uint64_t size_bytes) { return ceil_div(size_bytes, kTensorNodeBytes); }

Digest tensor_node(ByteView group) {
  assert(!group.empty() && group.size() <= kTensorNodeBytes);
  return root_of(tensor_leaves(group));
}

Result<TensorOpening> open_tensor(DType dtype, const Shape& shape, std::uint64_t leaf, ByteView group,
                                  std::span<const Digest> nodes) {
  constexpr std::uint64_t kLeaves = kTensorNodeBytes / kTensorLeafBytes;
  const std::uint64_t begin = leaf % kLeaves * kTensorLeafBytes;
  const std::vector<Digest> leaves = tensor_leaves(group);
  DGX_TRY(Path path, inclusion_path(leaves, leaf % kLeaves));
  DGX_TRY(const Path above, inclusion_path(nodes, leaf / kLeaves));
  path.insert(path.end(), above.begin(), above.end());
  const ByteView data = group.subspan(begin, std::min<std::size_t>(kTensorLeafBytes, group.size() - begin));
  return TensorOpening{dtype, shape, leaf, Bytes(data.begin(), data.end()), std::move(path)};
}

}  // namespace dgx::merkle
