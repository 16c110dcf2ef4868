#include "exported.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include "archive.h"
#include "dgx/core/text.h"
#include "graph_calls.h"
#include "graph_run.h"

namespace dgx::torch_bridge {
namespace {

using lowering::CaptureRequest;
using lowering::ExportedInput;
using lowering::ExportedInteger;
using lowering::ExportedName;
using lowering::ExportedNode;
using lowering::ExportedOutput;
using lowering::ExportedProgram;

/// Checks one size of the batch against the size that the program was exported for.
Status check_size(const ExportedProgram& program, const ExportedInput& input, std::size_t dimension,
                  const Shape& shape, std::map<std::string, std::int64_t>& symbols) {
  const std::int64_t size = shape[dimension];
  const ExportedInteger& exported = input.form.sizes[dimension];
  if (const auto* fixed = std::get_if<std::int64_t>(&exported)) {
    if (*fixed == size) return {};
    if (dimension == 0) {
      return usage_error(fmt::format("was exported for a batch of {}, not {}", *fixed, size),
                         fmt::format("say --batch {}, or export it with dynamic_shapes: "
                                     "{{0: torch.export.Dim(\"batch\")}}",
                                     *fixed));
    }
    return malformed(fmt::format("{} has the size {} in dimension {}, the data has {}", input.title, *fixed,
                                 dimension, size));
  }
  const std::string& symbol = std::get<std::string>(exported);
  const auto [known, is_new] = symbols.try_emplace(symbol, size);
  if (!is_new && known->second != size)
    return malformed(
        fmt::format("{}: {} cannot be {} and {}", input.title, printable(symbol), known->second, size));
  const auto range = program.ranges.find(symbol);
  if (range != program.ranges.end() && (size < range->second.low || size > range->second.high)) {
    return usage_error(fmt::format("{}: size {} of dimension {} is outside the exported range, {} to {}",
                                   input.title, size, dimension, range->second.low, range->second.high));
  }
  return {};
}

Status check_input(const ExportedProgram& program, const ExportedInput& input,
                   const CaptureRequest& request) {
  const std::string_view wanted = input.form.dtype;
  const std::string_view given = request.input_dtype == DType::kI64 ? "int64" : "float32";
  if (wanted != given) {
    return usage_error(
        fmt::format("{} is a tensor of {}, the data is given as {}", input.title, wanted, given),
        wanted == "int64"     ? "use --input i64"
        : wanted == "float32" ? "use --input f32"
                              : "");
  }
  const Shape& shape = request.input_shape;
  if (shape.size() != input.form.sizes.size()) {
    return malformed(fmt::format("{} has {} dimensions, a batch of the data has {}", input.title,
                                 input.form.sizes.size(), shape.size()));
  }
  std::map<std::string, std::int64_t> symbols;
  for (std::size_t d = 0; d < shape.size(); ++d) DGX_CHECK(check_size(program, input, d, shape, symbols));
  return {};
}

/// A program with its sources wrapped: all names but the batch's have their values.
struct Loaded {
  ExportedProgram program;
  Environment names;
  std::string input;   ///< the batch's name
  std::string output;  ///< the name of forward()'s result
};

/// Adds the sources of a program to `model`; tied weights are one, by their first name.
Status add_sources(const Archive& archive, const CaptureRequest& request, Model& model, Loaded& loaded) {
  std::map<std::string, at::Tensor> by_key;
  for (const ExportedInput& input : archive.program().inputs) {
    using Kind = ExportedInput::Kind;
    if (input.kind == Kind::kFixed) loaded.names.set(input.name, loaded.names.value(input.fixed, nullptr));
    if (input.kind == Kind::kUser || input.kind == Kind::kFixed) continue;
    DGX_TRY(const Archive::Stored stored, archive.stored(input));
    auto [known, is_new] = by_key.try_emplace(stored.key);
    if (is_new) {
      const bool is_parameter = input.kind == Kind::kParameter;
      // In evaluation all float parameters count as trained (models.cc, ModuleWrapper).
      const bool trained =
          is_parameter && (request.training ? stored.requires_grad : stored.tensor.is_floating_point());
      const at::Tensor wrapped = functional(stored.tensor).set_requires_grad(trained);
      known->second = wrapped;
      if (input.kind != Kind::kConstant) {
        (is_parameter ? model.parameters : model.buffers).push_back({input.title, wrapped, [wrapped] {
                                                                       return wrapped;
                                                                     }});
      }
    }
    loaded.names.set(input.name, known->second);
  }
  return {};
}

/// The one input and the one result that forward() has.
Status find_ends(const ExportedProgram& program, Loaded& loaded) {
  std::vector<std::string> inputs;
  for (const ExportedInput& input : program.inputs) {
    if (input.kind == ExportedInput::Kind::kUser) inputs.push_back(input.name);
  }
  if (inputs.size() != 1)
    return usage_error(fmt::format("forward() takes {} tensors; one is what can be captured", inputs.size()));
  loaded.input = inputs[0];
  std::vector<std::string> results;
  for (const ExportedOutput& output : program.outputs) {
    const auto* const name = std::get_if<ExportedName>(&output.value);
    if (output.buffer.empty()) results.push_back(name ? name->name : "");
  }
  if (results.size() != 1 || results[0].empty())
    return usage_error(
        fmt::format("forward() returns {} values; one tensor is what can be captured", results.size()));
  loaded.output = results[0];
  return {};
}

/// Makes buffers that the program replaces (instead of changing them in place) be what it says, at the end.
void follow_mutations(const ExportedProgram& program, Model& model, const std::shared_ptr<Loaded>& loaded) {
  for (const ExportedOutput& output : program.outputs) {
    if (output.buffer.empty()) continue;
    const auto buffer = std::ranges::find(model.buffers, output.buffer, &NamedTensor::name);
    if (buffer == model.buffers.end()) continue;
    buffer->now = [loaded, name = std::get<ExportedName>(output.value)] {
      return loaded->names.tensor(name);
    };
  }
}

Result<Model> load(const CaptureRequest& request) {
  DGX_TRY(const Archive archive, Archive::open(request.model));
  const ExportedProgram& program = archive.program();
  DGX_CHECK(check_graph(program.graph));
  if (!request.training) {
    if (const ExportedNode* const node = find_training_call(program.graph)) {
      return usage_error(title_of(*node) + ": is for training alone, so this program cannot evaluate",
                         "export the model after model.eval(), too, and give that file by --eval-model");
    }
  }
  const auto loaded = std::make_shared<Loaded>();
  loaded->program = program;
  DGX_CHECK(find_ends(program, *loaded));
  for (const ExportedInput& input : program.inputs) {
    if (input.kind == ExportedInput::Kind::kUser) DGX_CHECK(check_input(program, input, request));
  }
  Model model;
  DGX_CHECK(add_sources(archive, request, model, *loaded));
  follow_mutations(program, model, loaded);
  model.forward = [loaded](const at::Tensor& input) {
    loaded->names.set(loaded->input, input);
    run_graph(loaded->program.graph, loaded->names);
    return loaded->names.tensor(ExportedName{loaded->output});
  };
  return model;
}

}  // namespace

Result<Model> load_exported(const CaptureRequest& request) {
  auto model = load(request);
  if (!model.ok()) return within(request.model, std::move(model).error());
  return model;
}

}  // namespace dgx::torch_bridge
