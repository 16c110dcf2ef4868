#include "dgx/protocol/opened_tree.h"

#include "dgx/merkle/tree.h"

namespace dgx::protocol {

std::vector<Digest> children_of(std::span<const Digest> leaves, const Node& node) {
  std::vector<Digest> out;
  for (std::uint64_t i = 0; i < node.children(); ++i) {
    const Node child = node.child(i);
    out.push_back(merkle::root_of(leaves.subspan(child.first, child.count)));
  }
  return out;
}

}  // namespace dgx::protocol
