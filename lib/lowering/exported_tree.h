#pragma once

#include <string_view>
#include <vector>

#include "dgx/core/result.h"
#include "dgx/lowering/ends.h"

namespace dgx::lowering {

/// The paths of a tree's leaves, in their order, from the text that PyTorch's treespec_dumps() writes:
/// `[1, {"type": "builtins.dict", "context": "[\"loss\"]", "children_spec": [{"type": null, …}]}]`. A node
/// whose context lists as many keys as it has children is a dictionary, whatever its type is called; any
/// other node has positions alone.
///
/// kMalformed for any other text, one of more than 1 MiB, and a path of more than 1024 bytes.
[[nodiscard]] Result<std::vector<ModelResult>> leaves_of_tree(std::string_view text);

}  // namespace dgx::lowering
