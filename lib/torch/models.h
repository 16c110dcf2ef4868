#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "dgx/program/aten.h"

namespace dgx::torch_bridge {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;                ///< wrapped for functionalisation, as it was before the pass
  std::function<at::Tensor()> now;  ///< what the module holds under that name at this moment
};

/// A model ready for a pass under functionalisation, its tensors wrapped in place.
struct Model {
  std::vector<NamedTensor> parameters;
  std::vector<NamedTensor> buffers;
  std::function<at::Tensor(const at::Tensor&)> forward;
};

/// `mlp:A-B-…-C` or a TorchScript file, in training or evaluation mode. Errors as CaptureBackend::capture;
/// libtorch's exceptions of loading a file leave it as they are.
[[nodiscard]] Result<Model> load_model(const program::CaptureRequest& request);

}  // namespace dgx::torch_bridge
