#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "dgx/core/result.h"
#include "dgx/core/tensor.h"
#include "dgx/lowering/aten.h"

namespace dgx::jobs {

/// The names of a captured model's tensors, by which a file of weights is matched.
struct ModelNames {
  std::set<std::string, std::less<>> literals;
  std::vector<lowering::TiedName> tied;
};
[[nodiscard]] ModelNames names_of(const lowering::CapturedGraph& graph);

/// Puts the weights of `path` into the `model/` entries of `state` (dgx-submit(1), "--init"). `path` is a
/// run's folder (its last checkpoint is taken), a checkpoint bundle, a .safetensors file, or a folder with
/// model.safetensors or its parts. The names of such files may leave out `model/`, and lack or have a prefix
/// that all names of the other side share. Only these entries are taken; literal tensors stay the model's
/// own. kMalformed, by name: an entry that is missing, that the model does not have, or of
/// another type or shape. Errors of the readers.
[[nodiscard]] Status bring_weights(const std::string& path, const ModelNames& model, State& state,
                                   int threads);

}  // namespace dgx::jobs
