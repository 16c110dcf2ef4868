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
#include "numberless.h"
#include "recorder.h"
#include "sources.h"

namespace dgx::torch_bridge {
namespace {

using lowering::BatchField;
using lowering::CaptureRequest;
using lowering::ExportedGraph;
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

/// The type of an input, which the file says.
Result<at::ScalarType> type_of(const ExportedInput& input, const BatchField& field) {
  const auto type = scalar_type_named(input.form.dtype);
  const bool can_be =
      type == at::kFloat || type == at::kLong || type == at::kInt || type == at::kBool || type == at::kByte;
  if (!can_be)
    return usage_error(fmt::format("{} is a tensor of {}, which no field of the data is",
                                   printable(input.title), input.form.dtype),
                       "a field becomes float32, int64, int32, bool or uint8");
  if (field.asked && usual_type(field) != type) {
    return usage_error(fmt::format("{} is a tensor of {}, --input says {}", printable(input.title),
                                   input.form.dtype, dtype_name(usual_type(field))),
                       "leave out --input: an archive says what its inputs are");
  }
  return *type;
}

/// Checks the shape of a batch of `field` against the sizes that the program was exported for.
Status check_shape(const ExportedProgram& program, const ExportedInput& input, const BatchField& field,
                   std::map<std::string, std::int64_t>& symbols) {
  const Shape& shape = field.shape;
  if (shape.size() != input.form.sizes.size()) {
    return malformed(fmt::format("{} has {} dimensions, a batch of the data has {}", printable(input.title),
                                 input.form.sizes.size(), shape.size()));
  }
  for (std::size_t d = 0; d < shape.size(); ++d) DGX_CHECK(check_size(program, input, d, shape, symbols));
  return {};
}

/// A program with its sources wrapped: all names but the batch's have their values.
struct Loaded {
  ExportedProgram program;
  Environment names;
  std::vector<std::pair<std::string, at::Tensor>> constants;  ///< by their dotted paths
  std::vector<std::string> inputs;                            ///< the names of the model's inputs
  std::string output;                                         ///< the name of the result that counts
};

/// The tensor that a pass has for a source: zeros if it is large, unless its numbers may become a literal.
Result<at::Tensor> for_pass(const Archive& archive, const Source& source) {
  const Archive::Stored& place = source.place;
  at::Tensor out = zeros(place.sizes, place.type);
  const bool are_needed = source.input->kind == ExportedInput::Kind::kConstant || !is_untouched(out);
  return are_needed ? archive.read(place) : out;
}

/// Adds the sources of a program to `model`; tied weights are one, by their first name.
Status add_sources(const std::shared_ptr<const Archive>& archive, const CaptureRequest& request, Model& model,
                   Loaded& loaded) {
  using Kind = ExportedInput::Kind;
  for (const ExportedInput& input : archive->program().inputs) {
    if (input.kind == Kind::kFixed) loaded.names.set(input.name, loaded.names.value(input.fixed, nullptr));
  }
  DGX_TRY(const auto sources, sources_of(*archive));
  std::vector<at::Tensor> tensors;
  for (const Source& source : sources) {
    const ExportedInput& input = *source.input;
    if (source.first < tensors.size()) {
      tensors.push_back(tensors[source.first]);
      model.tied.push_back({input.title, sources[source.first].input->title});
    } else {
      const Archive::Stored& place = source.place;
      DGX_TRY(const at::Tensor numbers, for_pass(*archive, source));
      const bool is_parameter = input.kind == Kind::kParameter;
      // In evaluation all float parameters count as trained (models.cc, ModuleWrapper).
      const bool trained =
          is_parameter && (request.training ? source.is_trained() : numbers.is_floating_point());
      const at::Tensor wrapped = functional(numbers).set_requires_grad(trained);
      tensors.push_back(wrapped);
      if (input.kind == Kind::kConstant) {
        loaded.constants.emplace_back(input.title, wrapped);
      } else {
        (is_parameter ? model.parameters : model.buffers)
            .push_back({input.title, wrapped, [wrapped] { return wrapped; },
                        [archive, place] { return archive->read_numbers(place); }});
      }
    }
    loaded.names.set(input.name, tensors.back());
  }
  return {};
}

/// Finds the field of each input.
Status find_inputs(const CaptureRequest& request, Model& model, Loaded& loaded) {
  std::vector<const ExportedInput*> inputs;
  std::vector<lowering::ModelArgument> arguments;
  for (const ExportedInput& input : loaded.program.inputs) {
    if (input.kind != ExportedInput::Kind::kUser) continue;
    inputs.push_back(&input);
    arguments.push_back({input.title, false});
  }
  DGX_TRY(const auto fields, fields_of(arguments, request));
  std::map<std::string, std::int64_t> symbols;
  for (std::size_t n = 0; n < inputs.size(); ++n) {
    const BatchField& field = request.fields[*fields[n]];
    DGX_TRY(const at::ScalarType type, type_of(*inputs[n], field));
    DGX_CHECK(check_shape(loaded.program, *inputs[n], field, symbols));
    model.inputs.push_back({*fields[n], type});
    loaded.inputs.push_back(inputs[n]->name);
  }
  return {};
}

/// Finds the result that the request names.
Status find_output(const CaptureRequest& request, Loaded& loaded) {
  std::vector<lowering::ModelResult> results;
  std::vector<std::string> names;
  for (const ExportedOutput& output : loaded.program.outputs) {
    const auto* const name = std::get_if<ExportedName>(&output.value);
    if (!name || !output.buffer.empty()) continue;
    results.push_back(output.path);
    names.push_back(name->name);
  }
  DGX_TRY(const std::size_t which, lowering::choose_result(results, request.output));
  loaded.output = names[which];
  return {};
}

/// Makes buffers that the program replaces (instead of changing them in place) be what it says, at the end.
Status follow_mutations(const ExportedProgram& program, Model& model, const std::shared_ptr<Loaded>& loaded) {
  for (const ExportedOutput& output : program.outputs) {
    if (output.buffer.empty()) continue;
    const auto buffer = std::ranges::find(model.buffers, output.buffer, &NamedTensor::name);
    if (buffer == model.buffers.end()) {
      return usage_error(
          printable(output.buffer) + ": the program changes it, and it is no buffer of its own",
          "register it as a buffer, with numbers that no other name shares");
    }
    buffer->now = [loaded, name = std::get<ExportedName>(output.value)] {
      return loaded->names.tensor(name);
    };
  }
  return {};
}

/// Throws Misfit if the calls have changed a constant, which starts every step anew.
void check_constants(const Loaded& loaded, const std::vector<at::Tensor>& before) {
  for (std::size_t n = 0; n < before.size(); ++n) {
    const auto& [title, tensor] = loaded.constants[n];
    if (!unwrapped(tensor).is_same(before[n]))
      throw Misfit(printable(title) + " is changed, and is no buffer: register it as one");
  }
}

/// Words for a program that computes as in evaluation; empty for any other.
std::string warning_of(const std::string& path, const ExportedGraph& graph) {
  const ExportedNode* const call = find_evaluation_call(graph);
  if (!call || find_training_call(graph)) return {};
  return fmt::format(
      "{}: {} computes as in evaluation, and no call as in training: export it after "
      "model.train()",
      path, title_of(*call));
}

Result<Model> load(const CaptureRequest& request) {
  DGX_TRY(Archive opened, Archive::open(request.model, request.program));
  const auto archive = std::make_shared<const Archive>(std::move(opened));
  const ExportedProgram& program = archive->program();
  DGX_CHECK(check_graph(program.graph));
  if (!request.training) {
    if (const ExportedNode* const node = find_training_call(program.graph)) {
      return usage_error(title_of(*node) + ": is for training alone, so this program cannot evaluate",
                         "export the model after model.eval(), too, and give that file by --eval-model");
    }
  }
  const auto loaded = std::make_shared<Loaded>();
  loaded->program = program;
  Model model;
  DGX_CHECK(find_inputs(request, model, *loaded));
  DGX_CHECK(find_output(request, *loaded));
  DGX_CHECK(add_sources(archive, request, model, *loaded));
  DGX_CHECK(follow_mutations(program, model, loaded));
  if (request.training) model.warning = warning_of(request.model, program.graph);
  model.forward = [loaded](const std::vector<at::Tensor>& inputs) {
    for (std::size_t n = 0; n < inputs.size(); ++n) loaded->names.set(loaded->inputs[n], inputs[n]);
    std::vector<at::Tensor> before;
    for (const auto& [title, tensor] : loaded->constants) before.push_back(unwrapped(tensor));
    run_graph(loaded->program.graph, loaded->names);
    check_constants(*loaded, before);
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
