#include "models.h"

#include <ATen/ATen.h>
#include <ATen/FunctionalTensorWrapper.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/serialization/import.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <type_traits>
#include <utility>

#include "archive.h"
#include "exported.h"
#include "numberless.h"
#include "recorder.h"
#include "rewrites.h"
#include "script_ends.h"
#include "vetting.h"

namespace dgx::torch_bridge {
namespace {

at::Tensor activate(program::Activation activation, const at::Tensor& x) {
  switch (activation) {
    case program::Activation::kRelu: return at::relu(x);
    case program::Activation::kGelu: return at::gelu(x, "none");
    case program::Activation::kGeluTanh: return at::gelu(x, "tanh");
    case program::Activation::kTanh: return at::tanh(x);
    case program::Activation::kSigmoid: return at::sigmoid(x);
  }
  return x;
}

Status check_mlp_input(const lowering::CaptureRequest& request, const lowering::BatchField& x,
                       std::int64_t first_width) {
  if (x.dtype != DType::kF32) {
    return usage_error(fmt::format("model '{}' takes f32, the input is {}", request.model, name_of(x.dtype)));
  }
  DGX_TRY(const std::int64_t one_sample, element_count({x.shape.begin() + 1, x.shape.end()}));
  if (one_sample != first_width) {
    return usage_error(fmt::format("model '{}' takes {} numbers a sample, the input {} has {}", request.model,
                                   first_width, to_string(x.shape), one_sample));
  }
  return {};
}

Result<Model> make_mlp(const program::MlpSpec& spec, const lowering::CaptureRequest& request,
                       const lowering::BatchField& field) {
  const auto& widths = spec.sizes;
  DGX_CHECK(check_mlp_input(request, field, widths.front()));
  Model model;
  for (std::size_t layer = 0; layer + 1 < widths.size(); ++layer) {
    // Numbered like an nn.Sequential of Linear, activation, Linear, …
    const std::string prefix = std::to_string(2 * layer);
    add_zeros(model.parameters, prefix + ".weight", {widths[layer + 1], widths[layer]});
    add_zeros(model.parameters, prefix + ".bias", {widths[layer + 1]});
  }
  model.forward = [parameters = model.parameters, width = widths.front(), activation = spec.activation,
                   request, cut = model.cut](const std::vector<at::Tensor>& inputs) {
    const at::Tensor& input = inputs[0];
    at::Tensor x = input.dim() == 2 ? input : input.view({input.size(0), width});
    for (std::size_t i = 0; i < parameters.size(); i += 2) {
      const auto block = static_cast<std::int64_t>(i / 2);
      if (i > 0) x = behind_block(request, block, activate(activation, x), cut);
      x = at::linear(x, parameters[i].tensor, parameters[i + 1].tensor);
    }
    return x;
  };
  return model;
}

/// Replaces the tensors of a TorchScript module by wrapped ones. Tied weights stay one tensor; a file keeps
/// them as separate tensors that share their storage.
class ModuleWrapper {
 public:
  ModuleWrapper(Model& model, bool training) : model_(model), training_(training) {}

  void wrap(torch::jit::Module module, const std::string& path) {
    if (!seen_.insert(module._ivalue().get()).second) return;
    for (const auto& parameter : module.named_parameters(false)) {
      // In evaluation all float parameters count as trained, frozen or not: it keeps attention off its fused
      // paths (capture.cc).
      const bool trained = training_ ? parameter.value.requires_grad() : parameter.value.is_floating_point();
      replace(module, parameter, path, model_.parameters, trained);
    }
    for (const auto& buffer : module.named_buffers(false)) {
      if (buffer.value.defined()) replace(module, buffer, path, model_.buffers, false);
    }
    for (const auto& child : module.named_children()) wrap(child.value, path + child.name + ".");
  }

  /// Makes lists of tensors that a module keeps in addition to its parameters (as nn.LSTM does) hold the
  /// wrapped ones.
  void wrap_lists(const torch::jit::Module& module) const {
    for (const torch::jit::Module& each : module.modules()) {
      for (const auto& attribute : each.named_attributes(false)) {
        if (!attribute.value.isTensorList()) continue;
        c10::List<at::Tensor> list = attribute.value.toTensorList();
        for (std::size_t n = 0; n < list.size(); ++n) {
          const auto found = wrapped_.find(place_of(list.get(n)));
          if (found != wrapped_.end()) list.set(n, found->second.tensor);
        }
      }
    }
  }

 private:
  using Place = std::tuple<const void*, std::vector<std::int64_t>, std::vector<std::int64_t>, at::ScalarType>;
  struct Wrapped {
    std::string name;
    at::Tensor tensor;
  };

  static Place place_of(const at::Tensor& tensor) {
    return {tensor.const_data_ptr(), tensor.sizes().vec(), tensor.strides().vec(), tensor.scalar_type()};
  }

  void replace(torch::jit::Module& module, const torch::jit::NameTensor& slot, const std::string& path,
               std::vector<NamedTensor>& list, bool trained) {
    const at::Tensor& tensor = slot.value;
    const Place place = place_of(tensor);
    auto found = wrapped_.find(place);
    if (found == wrapped_.end() || tensor.numel() == 0) {
      const at::Tensor wrapper = functional(stand_in_for(tensor)).set_requires_grad(trained);
      found = wrapped_.insert_or_assign(place, Wrapped{path + slot.name, wrapper}).first;
      list.push_back({path + slot.name, wrapper,
                      [module, name = slot.name] { return module.attr(name).toTensor(); },
                      [tensor] { return numbers_of(tensor); }});
    } else {
      model_.tied.push_back({path + slot.name, found->second.name});
    }
    module.setattr(slot.name, found->second.tensor);
  }

  Model& model_;
  bool training_;
  std::set<const void*> seen_;
  std::map<Place, Wrapped> wrapped_;
};

/// The first node, at any depth, that bypasses the dispatcher, so that it would be captured wrongly or not at
/// all; null if there is none.
const torch::jit::Node* find_uncapturable(torch::jit::Block* block) {
  for (torch::jit::Node* node : block->nodes()) {
    const bool hidden = node->kind() == c10::prim::tolist || node->kind() == c10::prim::fork;
    // An object that forward() makes does not outlive it, so its attributes may be set: `with
    // torch.no_grad()` does that.
    const bool keeps_host_state = node->kind() == c10::prim::SetAttr &&
                                  node->inputs()[0]->node()->kind() != c10::prim::CreateObject &&
                                  !node->inputs()[1]->type()->isSubtypeOf(*c10::TensorType::get());
    if (hidden || keeps_host_state) return node;
    for (torch::jit::Block* inside : node->blocks()) {
      if (const auto* found = find_uncapturable(inside)) return found;
    }
  }
  return nullptr;
}

Status check_module(const std::string& path, const torch::jit::Module& module) {
  const auto forward = module.find_method("forward");
  if (!forward) return malformed(fmt::format("{}: the module has no forward()", path));
  const auto graph = forward->graph()->copy();
  torch::jit::Inline(*graph);
  if (const auto* node = find_uncapturable(graph->block())) {
    const bool sets = node->kind() == c10::prim::SetAttr;
    const std::string what =
        sets ? "sets the attribute " + node->s(c10::attr::name) + ", which is not a tensor"
             : fmt::format("uses {}", node->kind().toUnqualString());
    return usage_error(fmt::format("{}: forward() {}: this cannot be captured", path, what));
  }
  return {};
}

Result<Model> load_torchscript(const lowering::CaptureRequest& request) {
  DGX_CHECK(vet_archive(request.model));
  const auto module =
      std::make_shared<torch::jit::Module>(torch::jit::load(request.model, c10::Device(c10::kCPU)));
  DGX_CHECK(vet_operators(request.model, *module));
  DGX_CHECK(check_module(request.model, *module));
  module->train(request.training);
  rewrite_for_capture(*module);
  Model model;
  ModuleWrapper wrapper(model, request.training);
  wrapper.wrap(*module, "");
  wrapper.wrap_lists(*module);
  auto arguments = script_arguments(*module, request, model);
  if (!arguments.ok()) return within(request.model, std::move(arguments).error());
  model.forward = [module, arguments = *std::move(arguments),
                   wanted = request.output](const std::vector<at::Tensor>& inputs) {
    const c10::IValue value = module->forward(arguments.filled(inputs));
    return chosen_result(value, wanted);
  };
  return model;
}

Result<Model> load_file(const lowering::CaptureRequest& request) {
  if (!std::filesystem::is_regular_file(request.model)) {
    return Error{ErrorCode::kMissing, fmt::format("model '{}': no such file", request.model),
                 "a built-in model is written mlp:784-256-10, resnet20, gpt:layers=6 or switch:experts=4"};
  }
  DGX_TRY(const bool is_exported, Archive::is_exported(request.model));
  if (is_exported) return load_exported(request);
  if (!request.program.empty())
    return usage_error(
        fmt::format("{}: is a TorchScript file, whose one program has no name", request.model));
  return load_torchscript(request);
}

Result<Model> make_built_in(const lowering::CaptureRequest& request) {
  DGX_TRY(const program::ModelSpec spec, program::parse_model_spec(request.model));
  const auto taken = fields_of({{"x", false}}, request);
  if (!taken.ok()) return within("model '" + request.model + "'", taken.error());
  const lowering::BatchField& x = request.fields[*(*taken)[0]];
  const auto make = [&](const auto& one) -> Result<Model> {
    using Spec = std::decay_t<decltype(one)>;
    if constexpr (std::is_same_v<Spec, program::MlpSpec>) return make_mlp(one, request, x);
    if constexpr (std::is_same_v<Spec, program::ResNetSpec>) return make_resnet(one, request, x);
    if constexpr (std::is_same_v<Spec, program::GptSpec>) return make_gpt(one, request, x);
    if constexpr (std::is_same_v<Spec, program::SwitchSpec>) return make_switch(one, request, x);
  };
  DGX_TRY(Model model, std::visit(make, spec));
  model.inputs.push_back({*(*taken)[0], usual_type(x)});
  for (const NamedTensor& parameter : model.parameters) parameter.tensor.set_requires_grad(request.training);
  return model;
}

}  // namespace

at::ScalarType usual_type(const lowering::BatchField& field) {
  switch (field.dtype) {
    case DType::kI64: return at::kLong;
    case DType::kU8: return field.boolean ? at::kBool : at::kByte;
    case DType::kF32: return at::kFloat;
  }
  return at::kFloat;
}

Result<std::vector<std::optional<std::size_t>>> fields_of(
    const std::vector<lowering::ModelArgument>& arguments, const lowering::CaptureRequest& request) {
  std::vector<std::string> names;
  for (const lowering::BatchField& field : request.fields) names.push_back(field.name);
  return lowering::match_inputs(arguments, names, request.inputs, request.loss_takes_y);
}

at::Tensor functional(const at::Tensor& tensor) {
  return at::functionalization::impl::to_functional_tensor(tensor.detach());
}

at::Tensor add_zeros(std::vector<NamedTensor>& list, std::string name, at::IntArrayRef sizes) {
  const at::Tensor tensor = functional(zeros(sizes, at::kFloat));
  list.push_back({std::move(name), tensor, [tensor] { return tensor; },
                  [shape = sizes.vec()] { return Tensor(DType::kF32, shape); }});
  return tensor;
}

at::Tensor Affine::linear(const at::Tensor& x) const { return at::linear(x, weight, bias); }

Affine add_linear(std::vector<NamedTensor>& list, const std::string& name, std::int64_t in,
                  std::int64_t out) {
  const at::Tensor weight = add_zeros(list, name + ".weight", {out, in});
  return {weight, add_zeros(list, name + ".bias", {out})};
}

at::Tensor behind_block(const lowering::CaptureRequest& request, std::int64_t block, const at::Tensor& x,
                        const std::shared_ptr<CutTensors>& cut) {
  if (!request.training || request.cut_block != block) return x;
  cut->activation = x;
  cut->message = x.clone();
  cut->message.register_hook([cut](const at::Tensor& gradient) {
    cut->gradient = gradient;
    cut->returned = gradient.clone();
    return cut->returned;
  });
  return cut->message;
}

std::optional<Shape> square_images(std::int64_t numbers, std::int64_t channels) {
  if (numbers % channels != 0) return std::nullopt;
  const std::int64_t side = std::llround(std::sqrt(static_cast<double>(numbers / channels)));
  if (side * side != numbers / channels) return std::nullopt;
  return Shape{channels, side, side};
}

std::string shape_hint(const Shape& sample) {
  return fmt::format("pack the data with --shape {}", fmt::join(sample, ","));
}

Result<Model> load_model(const lowering::CaptureRequest& request) {
  return program::is_model_spec(request.model) ? make_built_in(request) : load_file(request);
}

}  // namespace dgx::torch_bridge
