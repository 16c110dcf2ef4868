#pragma once

#include <string>

#include "dgx/core/result.h"
#include "dgx/core/tensor.h"
#include "dgx/lowering/aten.h"

namespace dgx::jobs {

/// Puts the weights of `path` into the `model/` entries of `state` (dgx-submit(1), "--init"). `path` is a
/// run's folder (its last checkpoint is taken), a checkpoint bundle, a .safetensors file, or a folder with
/// model.safetensors or its parts. The names of such files may leave out `model/`, and lack or have a prefix
/// that all names of the other side share. Only these entries are taken; literal tensors of the graph stay
/// the model's own. kMalformed, by name: an entry that is missing, that the model does not have, or of
/// another type or shape. Errors of the readers.
[[nodiscard]] Status bring_weights(const std::string& path, const lowering::CapturedGraph& graph,
                                   State& state, int threads);

}  // namespace dgx::jobs
