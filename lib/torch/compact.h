#pragma once

#include <string>
#include <vector>

#include "dgx/lowering/aten.h"

namespace dgx::torch_bridge {

/// `raw` without the calls and literals that nothing needs, tensors numbered densely in order of appearance
/// (input, output gradient, sources, results), literals named constant.0, constant.1, … without names that
/// parameters and buffers have, sources sorted by kind and name.
///
/// In `raw` the parameters are the first sources and `gradients` has one entry for each. `unsupported[t]` is
/// empty, or libtorch's name of the dtype of tensor t that DType does not have: kUsage, naming the dtype and
/// the source or place, if such a tensor is needed. Cost: linear in the graph.
[[nodiscard]] Result<lowering::CapturedGraph> compact(lowering::CapturedGraph raw,
                                                      const std::vector<std::string>& unsupported);

}  // namespace dgx::torch_bridge
