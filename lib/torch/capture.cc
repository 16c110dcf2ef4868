// libdgx_torch.so: one pass of a model under functionalisation and the recorder (dgx-lowerings(7),
// "Capture").
#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/FunctionalTensorWrapper.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/version.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "confine.h"
#include "dgx/lowering/aten.h"
#include "exported.h"
#include "models.h"
#include "numberless.h"
#include "recorder.h"

namespace dgx::torch_bridge {
namespace {

namespace functionalization = at::functionalization::impl;

using lowering::AtenSource;
using lowering::CapturedGraph;
using lowering::CaptureRequest;
using lowering::TensorId;

/// While alive, turns off the kernels that would hide the mathematics in one fused call.
class PlainKernels {
 public:
  PlainKernels()
      : flash_(context().userEnabledFlashSDP()),
        efficient_(context().userEnabledMemEfficientSDP()),
        onednn_(context().userEnabledMkldnn()),
        nnpack_(context().userEnabledNNPACK()) {
    set(false, false, false, false);
  }
  ~PlainKernels() { set(flash_, efficient_, onednn_, nnpack_); }
  PlainKernels(const PlainKernels&) = delete;
  PlainKernels& operator=(const PlainKernels&) = delete;

 private:
  static at::Context& context() { return at::globalContext(); }
  static void set(bool flash, bool efficient, bool onednn, bool nnpack) {
    context().setSDPUseFlash(flash);
    context().setSDPUseMemEfficient(efficient);
    context().setUserEnabledMkldnn(onednn);
    context().setUserEnabledNNPACK(nnpack);
  }

  bool flash_, efficient_, onednn_, nnpack_;
  torch::jit::GraphOptimizerEnabledGuard no_jit_fusion_{false};
};

Status check_request(const CaptureRequest& request) {
  for (const lowering::BatchField& field : request.fields) {
    DGX_TRY(const std::int64_t count, element_count(field.shape));
    if (field.shape.empty() || count == 0) {
      return usage_error(fmt::format("input shape {}: needs the batch first and no dimension of zero",
                                     to_string(field.shape)));
    }
  }
  return {};
}

/// The batch as forward() takes it, all zeros, known to the recorder.
std::vector<at::Tensor> define_inputs(const CaptureRequest& request, const Model& model, Recorder& recorder,
                                      CapturedGraph& graph) {
  std::vector<at::Tensor> inputs;
  for (const TakenField& taken : model.inputs) {
    const lowering::BatchField& field = request.fields[taken.field];
    inputs.push_back(functionalization::to_functional_tensor(zeros(field.shape, taken.type)));
    graph.inputs.push_back(
        {field.name, recorder.define(unwrapped(inputs.back()), Recorder::Numbers::kThere)});
  }
  return inputs;
}

/// The shapes of the inputs, for messages.
std::string shapes_of(const CaptureRequest& request, const Model& model) {
  std::string text;
  for (const TakenField& taken : model.inputs)
    text += (text.empty() ? "" : ", ") + to_string(request.fields[taken.field].shape);
  return text;
}

// Parameters first, as compact() requires.
std::vector<TensorId> define_sources(const Model& model, Recorder& recorder) {
  std::vector<TensorId> ids;
  for (const NamedTensor& p : model.parameters) {
    ids.push_back(recorder.define_source(AtenSource::Kind::kParameter, p.name, unwrapped(p.tensor)));
  }
  for (const NamedTensor& b : model.buffers) {
    ids.push_back(recorder.define_source(AtenSource::Kind::kBuffer, b.name, unwrapped(b.tensor)));
  }
  return ids;
}

/// Reads the numbers of parameters and buffers in the model's order, and lets those that it holds go.
Status read_numbers(Model& model, CapturedGraph& graph) {
  std::map<std::pair<AtenSource::Kind, std::string>, AtenSource*> sources;
  for (AtenSource& source : graph.sources) sources[{source.kind, source.name}] = &source;
  const auto read = [&](AtenSource::Kind kind, std::vector<NamedTensor>& list) -> Status {
    for (NamedTensor& each : list) {
      DGX_TRY(sources.at({kind, each.name})->value, each.numbers());
      each.numbers = nullptr;
    }
    return {};
  };
  DGX_CHECK(read(AtenSource::Kind::kParameter, model.parameters));
  return read(AtenSource::Kind::kBuffer, model.buffers);
}

/// The start of a backward pass: tensors, and the gradients of the loss by these.
struct BackwardStart {
  std::vector<at::Tensor> tensors, gradients;
};

/// Adds what the model adds to the loss, whose gradient is 1.
void add_penalty(const Model& model, Recorder& recorder, BackwardStart& start, CapturedGraph& graph) {
  if (!model.penalty) return;
  const at::Tensor penalty = model.penalty();
  graph.penalty = recorder.id_of(unwrapped(penalty));
  start.tensors.push_back(penalty);
  start.gradients.push_back(at::ones({}));
}

/// The tensors at the cut that was asked for; nullopt if the passes met none.
std::optional<lowering::AtenCut> cut_of(const Model& model, Recorder& recorder) {
  const CutTensors& cut = *model.cut;
  if (!cut.message.defined() || !cut.returned.defined()) return std::nullopt;
  const auto id = [&](const at::Tensor& tensor) { return recorder.id_of(unwrapped(tensor)); };
  return lowering::AtenCut{id(cut.activation), id(cut.message), id(cut.gradient), id(cut.returned)};
}

Status run_backward(const CaptureRequest& request, const Model& model, const at::Tensor& output,
                    Recorder& recorder, CapturedGraph& graph) {
  if (output.scalar_type() != at::kFloat) {
    return usage_error(fmt::format("{}: forward() returns a tensor of {}, not float32", request.model,
                                   dtype_name(output.scalar_type())));
  }
  if (!output.requires_grad()) {
    return usage_error(
        fmt::format("{}: the output of forward() depends on no trainable parameter", request.model));
  }
  const at::Tensor output_gradient =
      functionalization::to_functional_tensor(zeros(output.sizes(), at::kFloat));
  graph.output_gradient = recorder.define(unwrapped(output_gradient), Recorder::Numbers::kMissing);
  BackwardStart start{{output}, {output_gradient}};
  add_penalty(model, recorder, start, graph);
  std::vector<at::Tensor> trained;
  for (const NamedTensor& p : model.parameters) {
    if (p.tensor.requires_grad()) trained.push_back(p.tensor);
  }
  graph.gradients.resize(model.parameters.size());
  recorder.set_pass("backward");
  const auto gradients =
      torch::autograd::grad(start.tensors, trained, start.gradients, std::nullopt, false, true);
  std::size_t next = 0;
  for (std::size_t i = 0; i < model.parameters.size(); ++i) {
    if (!model.parameters[i].tensor.requires_grad()) continue;
    const at::Tensor& gradient = gradients[next++];
    if (gradient.defined()) graph.gradients[i] = recorder.id_of(unwrapped(gradient));
  }
  graph.cut = cut_of(model, recorder);
  return {};
}

/// Records which buffers the pass replaced, in place or by assignment. `before[i]` is source i, parameters
/// first.
Status note_updates(const CaptureRequest& request, const Model& model, const std::vector<TensorId>& before,
                    Recorder& recorder, CapturedGraph& graph) {
  for (std::size_t i = 0; i < before.size(); ++i) {
    const bool is_parameter = i < model.parameters.size();
    const NamedTensor& source =
        is_parameter ? model.parameters[i] : model.buffers[i - model.parameters.size()];
    const at::Tensor now = source.now();
    if (now.sizes() != source.tensor.sizes() || now.scalar_type() != source.tensor.scalar_type()) {
      return usage_error(
          fmt::format("{}: forward() changes the shape or type of {}", request.model, source.name));
    }
    const TensorId after = recorder.id_of(unwrapped(now));
    if (after == before[i]) continue;
    if (is_parameter) {
      return usage_error(fmt::format("{}: forward() changes the parameter {}", request.model, source.name));
    }
    graph.buffer_updates.emplace_back(i, after);
  }
  return {};
}

Result<CapturedGraph> run_pass(const CaptureRequest& request, const Model& model, Recorder& recorder) {
  CapturedGraph graph;
  const std::vector<TensorId> before = define_sources(model, recorder);
  const std::vector<at::Tensor> inputs = define_inputs(request, model, recorder, graph);

  // In evaluation too: without gradients nn.MultiheadAttention and the transformer layers take fused paths.
  const c10::AutoGradMode gradients(true);
  const functionalization::FunctionalizationReapplyViewsGuard views_stay_views(true);
  const c10::impl::IncludeDispatchKeyGuard include(
      c10::DispatchKeySet({c10::DispatchKey::Fake, c10::DispatchKey::Functionalize}));
  auto chosen = model.forward(inputs);
  if (!chosen.ok()) return within(request.model, std::move(chosen).error());
  const at::Tensor output = *chosen;
  if (request.training) {
    DGX_CHECK(run_backward(request, model, output, recorder, graph));
  }
  graph.output = recorder.id_of(unwrapped(output));
  DGX_CHECK(note_updates(request, model, before, recorder, graph));
  auto compacted = recorder.finish(std::move(graph));
  if (!compacted.ok()) return within(request.model, std::move(compacted).error());
  compacted->tied = model.tied;
  compacted->warning = model.warning;
  return compacted;
}

/// The last line that is not blank: TorchScript puts its trace before it.
std::string gist(std::string_view message) {
  while (!message.empty() && (message.back() == '\n' || message.back() == ' ')) message.remove_suffix(1);
  const std::size_t line = message.rfind('\n');
  return std::string(line == std::string_view::npos ? message : message.substr(line + 1));
}

std::string message_of(const std::exception& thrown) {
  const auto* const error = dynamic_cast<const c10::Error*>(&thrown);
  return gist(error ? error->what_without_backtrace() : thrown.what());
}

Result<CapturedGraph> capture_model(const CaptureRequest& request, Model& model) {
  const PlainKernels plain;
  Recorder recorder;
  recorder.set_index_bounds(model.index_bounds);
  const auto fault = [&] { return internal_error(request.model + ": " + recorder.fault()); };
  try {
    DGX_TRY(CapturedGraph graph, run_pass(request, model, recorder));
    const Status read = request.training ? read_numbers(model, graph) : Status();
    if (!read.ok()) return within(request.model, read.error());
    return graph;
  } catch (const Refusal&) {
    if (!recorder.fault().empty()) return fault();
    if (!recorder.refusal().empty())
      return usage_error(request.model + ": " + recorder.refusal(), recorder.hint());
    return usage_error(request.model + ": the model runs in more than one thread and cannot be captured");
  } catch (const std::exception& thrown) {
    if (!recorder.fault().empty()) return fault();
    if (!recorder.refusal().empty())
      return usage_error(request.model + ": " + recorder.refusal(), recorder.hint());
    return malformed(fmt::format("{}: forward() of input {} failed: {}", request.model,
                                 shapes_of(request, model), message_of(thrown)));
  }
}

/// Captures without the numbers of large tensors; and with them if that fails, for whatever reason, since the
/// reason may be that they are not there.
Result<CapturedGraph> load_and_capture(const CaptureRequest& request) {
  try {
    {
      DGX_TRY(Model model, load_model(request));
      auto graph = capture_model(request, model);
      if (graph.ok() || graph.error().code == ErrorCode::kInternal) return graph;
    }
    const AllNumbers numbers;
    DGX_TRY(Model model, load_model(request));
    return capture_model(request, model);
  } catch (const std::exception& thrown) {
    return malformed(
        fmt::format("{}: is no model that libtorch reads: {}", request.model, message_of(thrown)),
        "torch.export.save(torch.export.export(model.train(), (x,)), \"net.pt2\") writes one");
  }
}

Result<program::ModelArchive> describe_file(const program::ModelFile& file) {
  try {
    return describe_exported(file);
  } catch (const std::exception& thrown) {
    return malformed(fmt::format("{}: is no model that libtorch reads: {}", file.path, message_of(thrown)));
  }
}

/// The shape of `numbers` numbers that the model's first weight takes as a sample, if there is one.
std::optional<Shape> wanted_sample(const Model& model, std::int64_t numbers) {
  const auto weight = std::find_if(model.parameters.begin(), model.parameters.end(),
                                   [](const NamedTensor& each) { return each.tensor.dim() >= 2; });
  if (weight == model.parameters.end()) return std::nullopt;
  const std::int64_t inputs = weight->tensor.size(1);  // features, or channels of a convolution
  if (inputs < 1 || numbers % inputs != 0) return std::nullopt;
  const std::int64_t places = numbers / inputs;
  switch (weight->tensor.dim()) {
    case 2: return places == 1 ? std::optional(Shape{inputs}) : std::nullopt;
    case 3: return Shape{inputs, places};
    case 4: return square_images(numbers, inputs);
    default: return std::nullopt;
  }
}

/// The error of a forward pass that failed: if the model captures samples of as many numbers in another
/// shape, one that names this shape and says how to pack the data in it; else `error`.
Error explained(const CaptureRequest& request, Error error) {
  CaptureRequest reshaped = request;
  const auto x = std::ranges::find(reshaped.fields, "x", &lowering::BatchField::name);
  if (x == reshaped.fields.end()) return error;
  const Shape sample(x->shape.begin() + 1, x->shape.end());
  try {
    const auto model = load_model(request);
    if (!model.ok()) return error;
    const auto wanted = wanted_sample(*model, *element_count(sample));
    if (!wanted || *wanted == sample) return error;
    x->shape.resize(1);
    x->shape.insert(x->shape.end(), wanted->begin(), wanted->end());
    if (!load_and_capture(reshaped).ok()) return error;
    return usage_error(fmt::format("{}: the model takes samples {}, the data has {}", request.model,
                                   to_string(*wanted), to_string(sample)),
                       shape_hint(*wanted));
  } catch (const std::exception&) {
    return error;
  }
}

class Backend final : public lowering::CaptureBackend {
 public:
  Result<CapturedGraph> capture(const CaptureRequest& request) override {
    const std::lock_guard lock(mutex_);
    DGX_CHECK(check_request(request));
    Result<CapturedGraph> graph = internal_error("capture did not run");
    run_confined([&] {
      graph = load_and_capture(request);
      if (!graph.ok() && graph.error().code == ErrorCode::kMalformed)
        graph = explained(request, std::move(graph).error());
    });
    return graph;
  }

  Result<program::ModelArchive> describe(const program::ModelFile& file) override {
    Result<program::ModelArchive> out = internal_error("the archive was not read");
    run_confined([&] { out = describe_file(file); });
    return out;
  }

  [[nodiscard]] std::string version() const override { return TORCH_VERSION; }

 private:
  std::mutex mutex_;  // one recorder at a time
};

}  // namespace
}  // namespace dgx::torch_bridge

extern "C" __attribute__((visibility("default"))) dgx::program::ModelReader* dgx_torch_module_2() {
  static dgx::torch_bridge::Backend backend;
  return &backend;
}
