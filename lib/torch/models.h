#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dgx/lowering/aten.h"
#include "dgx/program/specs.h"
#include "numberless.h"

namespace dgx::torch_bridge {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;                        ///< wrapped for functionalisation, as it was before the pass
  std::function<at::Tensor()> now;          ///< what the module holds under that name at this moment
  std::function<Result<Tensor>()> numbers;  ///< reads them; called at most once, after the pass
};

/// A tensor that forward() takes: a field of the batch in some type.
struct TakenField {
  std::size_t field = 0;  ///< its number in the request
  at::ScalarType type = at::kFloat;
};

/// The entries of a linear layer, or of a norm.
struct Affine {
  at::Tensor weight, bias;
  [[nodiscard]] at::Tensor linear(const at::Tensor& x) const;
};

/// The tensors of an AtenCut, as the passes meet them.
struct CutTensors {
  at::Tensor activation, message, gradient, returned;
};
/// `x` behind block `block`, counted from 1: a copy that `cut` takes note of, and of its gradient, if the
/// request has a cut there; else `x` itself.
[[nodiscard]] at::Tensor behind_block(const lowering::CaptureRequest& request, std::int64_t block,
                                      const at::Tensor& x, const std::shared_ptr<CutTensors>& cut);

/// A model ready for a pass under functionalisation, its tensors wrapped in place. The large ones have forms
/// and no numbers (numberless.h): a pass does not need them.
struct Model {
  std::vector<NamedTensor> parameters;
  std::vector<NamedTensor> buffers;
  std::vector<lowering::TiedName> tied;  ///< CapturedGraph's
  std::vector<TakenField> inputs;
  /// Takes the inputs in their order; returns the result that the request names. Throws what libtorch throws.
  std::function<Result<at::Tensor>(const std::vector<at::Tensor>&)> forward;
  /// A number that the last forward pass adds to the loss of a training step; empty: none.
  std::function<at::Tensor()> penalty;
  std::shared_ptr<CutTensors> cut = std::make_shared<CutTensors>();  ///< of the last pass
  IndexBounds index_bounds = IndexBounds::kUnknown;
  std::string warning;  ///< CapturedGraph's
};

/// The type in which a model takes a field unless its file says another.
[[nodiscard]] at::ScalarType usual_type(const lowering::BatchField& field);
/// By argument, the number of the field of `request` that it takes (match_inputs()).
[[nodiscard]] Result<std::vector<std::optional<std::size_t>>> fields_of(
    const std::vector<lowering::ModelArgument>& arguments, const lowering::CaptureRequest& request);

/// `tensor` wrapped for functionalisation.
[[nodiscard]] at::Tensor functional(const at::Tensor& tensor);
/// Adds a tensor of zeros that only a pass under functionalisation changes; returns it wrapped.
at::Tensor add_zeros(std::vector<NamedTensor>& list, std::string name, at::IntArrayRef sizes);
/// Adds NAME.weight [out, in] and NAME.bias [out].
Affine add_linear(std::vector<NamedTensor>& list, const std::string& name, std::int64_t in, std::int64_t out);

/// The shape [channels, side, side] of a square image of `numbers` numbers, if there is one.
[[nodiscard]] std::optional<Shape> square_images(std::int64_t numbers, std::int64_t channels);
/// A hint for data whose samples have another shape than `sample`.
[[nodiscard]] std::string shape_hint(const Shape& sample);

/// The built-in models. Their numbers are zero: the state of a task comes from its seed, and only names and
/// shapes matter here. kUsage if the input does not fit.
[[nodiscard]] Result<Model> make_resnet(const program::ResNetSpec& spec,
                                        const lowering::CaptureRequest& request,
                                        const lowering::BatchField& x);
[[nodiscard]] Result<Model> make_gpt(const program::GptSpec& spec, const lowering::CaptureRequest& request,
                                     const lowering::BatchField& x);
[[nodiscard]] Result<Model> make_switch(const program::SwitchSpec& spec,
                                        const lowering::CaptureRequest& request,
                                        const lowering::BatchField& x);

/// A built-in model, an archive of torch.export or a TorchScript file, in training or evaluation mode. Errors
/// as for CaptureBackend::capture; exceptions that libtorch throws while it loads a file pass through.
[[nodiscard]] Result<Model> load_model(const lowering::CaptureRequest& request);

}  // namespace dgx::torch_bridge
