#pragma once

#include <torch/csrc/jit/api/module.h>

#include <optional>
#include <string>
#include <vector>

#include "models.h"

/// The two ends of a TorchScript module's forward(): its arguments by name, and its results by path.
namespace dgx::torch_bridge {

/// The arguments of a call of forward(): those that take a field, and for the others None or their defaults.
struct ScriptArguments {
  std::vector<c10::IValue> values;
  std::vector<std::size_t> places;  ///< by input of the model: its position in `values`

  [[nodiscard]] std::vector<c10::IValue> filled(const std::vector<at::Tensor>& inputs) const;
};

/// Finds the field of each tensor that forward() takes, and adds them to the model's inputs. kUsage for an
/// argument that is no tensor and has no default, and what match_inputs() refuses.
[[nodiscard]] Result<ScriptArguments> script_arguments(const torch::jit::Module& module,
                                                       const lowering::CaptureRequest& request, Model& model);

/// The tensor named `wanted` (choose_result()) in what forward() returned: a tensor, or tuples, lists and
/// dictionaries of them.
[[nodiscard]] Result<at::Tensor> chosen_result(const c10::IValue& value, const std::string& wanted);

}  // namespace dgx::torch_bridge
