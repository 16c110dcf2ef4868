#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "archive.h"
#include "dgx/core/text.h"
#include "exported.h"
#include "graph_calls.h"
#include "recorder.h"
#include "sources.h"
#include "vetting.h"

namespace dgx::torch_bridge {
namespace {

using lowering::ExportedGraph;
using lowering::ExportedInput;
using lowering::ExportedInteger;
using lowering::ExportedName;
using lowering::ExportedNode;
using lowering::ExportedOutput;
using program::ModelArchive;

std::string text_of(const ExportedInteger& size) {
  const auto* const number = std::get_if<std::int64_t>(&size);
  return number ? std::to_string(*number) : printable(std::get<std::string>(size));
}

ModelArchive::Tensor tensor_of(const std::string& name, const lowering::ExportedForm& form) {
  ModelArchive::Tensor out{printable(name), form.dtype, {}};
  for (const ExportedInteger& size : form.sizes) out.sizes.push_back(text_of(size));
  return out;
}

ModelArchive::Treatment treatment_of(const Callee& callee) {
  if (callee.kind == Callee::Kind::kOperator) {
    const auto& results = callee.op->schema().returns();
    const auto is_integer = [](const c10::Argument& result) {
      return result.type()->kind() == c10::TypeKind::IntType;
    };
    const bool is_size = !results.empty() && std::ranges::all_of(results, is_integer);
    return is_size ? ModelArchive::Treatment::kFolded : torch_bridge::treatment_of(*callee.op);
  }
  return callee.kind == Callee::Kind::kRefused ? ModelArchive::Treatment::kMissing
                                               : ModelArchive::Treatment::kFolded;
}

/// The operations of a graph and of the graphs inside it, by their names.
using Operations = std::map<std::string, ModelArchive::Operation>;
void count_calls(const ExportedGraph& graph, Operations& out) {
  for (const ExportedNode& node : graph.nodes) {
    const std::string name = name_of(node);
    const auto [found, is_new] = out.try_emplace(name);
    if (is_new) found->second = {name, 0, treatment_of(callee_of(node.target)), node.place};
    ++found->second.count;
    for (const auto& [argument, value] : node.inputs) {
      if (const auto* const inside = std::get_if<std::shared_ptr<ExportedGraph>>(&value))
        count_calls(**inside, out);
    }
  }
}

Status add_sources(const Archive& archive, ModelArchive& out) {
  DGX_TRY(const auto sources, sources_of(archive));
  for (std::size_t n = 0; n < sources.size(); ++n) {
    const Source& source = sources[n];
    ModelArchive::Tensor tensor{printable(source.input->title), dtype_name(source.place.type), {}};
    for (const std::int64_t size : source.place.sizes) tensor.sizes.push_back(std::to_string(size));
    if (source.input->kind == ExportedInput::Kind::kBuffer) out.buffers.push_back(std::move(tensor));
    if (source.input->kind != ExportedInput::Kind::kParameter) continue;
    const std::string tied = source.first == n ? "" : printable(sources[source.first].input->title);
    out.parameters.push_back({std::move(tensor), source.is_trained(), tied});
  }
  return {};
}

std::string mode_of(const ExportedGraph& graph) {
  if (find_training_call(graph)) return "training";
  return find_evaluation_call(graph) ? "evaluation" : "either";
}

Result<ModelArchive> describe(const program::ModelFile& file) {
  DGX_TRY(const Archive archive, Archive::open(file.path, file.program));
  const lowering::ExportedProgram& program = archive.program();
  ModelArchive out;
  out.program = printable(archive.name());
  out.torch_version = program.torch_version;
  out.schema_version = program.schema_version;
  out.mode = mode_of(program.graph);
  for (const ExportedInput& input : program.inputs) {
    if (input.kind == ExportedInput::Kind::kUser) out.inputs.push_back(tensor_of(input.title, input.form));
  }
  for (const ExportedOutput& output : program.outputs) {
    if (!output.buffer.empty()) continue;
    const auto* const name = std::get_if<ExportedName>(&output.value);
    out.outputs.push_back(tensor_of(name ? name->name : "", output.form));
  }
  for (const auto& [name, range] : program.ranges) {
    const bool is_bound = range.high != lowering::ExportedRange().high;
    out.sizes.push_back({printable(name), range.low, is_bound ? std::optional(range.high) : std::nullopt});
  }
  DGX_CHECK(add_sources(archive, out));
  Operations operations;
  count_calls(program.graph, operations);
  for (auto& [name, operation] : operations) out.operations.push_back(std::move(operation));
  return out;
}

}  // namespace

Result<ModelArchive> describe_exported(const program::ModelFile& file) {
  DGX_TRY(const bool is_exported, Archive::is_exported(file.path));
  if (!is_exported) {
    DGX_CHECK(vet_archive(file.path));
    return malformed(file.path + ": is a TorchScript file, of which nothing is shown",
                     "dgx-submit takes it; of models, archives of torch.export are shown");
  }
  auto out = describe(file);
  if (!out.ok()) return within(file.path, std::move(out).error());
  return out;
}

}  // namespace dgx::torch_bridge
