#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "dgx/program/model_archive.h"
#include "inspect/describe.h"
#include "task/torch_module.h"

namespace dgx::jobs {
namespace {

using program::ModelArchive;
using Object = json::Output::Object;

Object row_of(const ModelArchive::Tensor& tensor) {
  return {{"name", tensor.name},
          {"dtype", tensor.dtype},
          {"shape", fmt::format("[{}]", fmt::join(tensor.sizes, ", "))}};
}

Description::Field table_of(std::string name, const std::vector<ModelArchive::Tensor>& tensors) {
  json::Output::Array rows;
  for (const ModelArchive::Tensor& tensor : tensors) rows.emplace_back(row_of(tensor));
  return {std::move(name), std::move(rows), {"name", "dtype", "shape"}};
}

std::string_view name_of(ModelArchive::Treatment treatment) {
  switch (treatment) {
    case ModelArchive::Treatment::kLowered: return "lowered";
    case ModelArchive::Treatment::kDecomposed: return "decomposed";
    case ModelArchive::Treatment::kFolded: return "folded";
    case ModelArchive::Treatment::kMissing: break;
  }
  return "missing";
}

bool is_missing(const ModelArchive::Operation& operation) {
  return operation.treatment == ModelArchive::Treatment::kMissing;
}

Description::Field sizes_of(const ModelArchive& archive) {
  json::Output::Array rows;
  for (const ModelArchive::Size& size : archive.sizes) {
    const json::Output most = size.most ? json::Output(*size.most) : json::Output();
    rows.emplace_back(Object{{"name", size.name}, {"least", size.least}, {"most", most}});
  }
  return {"sizes", std::move(rows), {"name", "least", "most"}};
}

Description::Field parameters_of(const ModelArchive& archive) {
  json::Output::Array rows;
  for (const ModelArchive::Parameter& parameter : archive.parameters) {
    Object row = row_of(parameter.tensor);
    row["trained"] = parameter.is_trained;
    row["tied_to"] = parameter.tied_to.empty() ? json::Output() : json::Output(parameter.tied_to);
    rows.emplace_back(std::move(row));
  }
  return {"parameters", std::move(rows), {"name", "dtype", "shape", "trained", "tied_to"}};
}

Description::Field operations_of(const ModelArchive& archive) {
  json::Output::Array rows;
  for (const ModelArchive::Operation& operation : archive.operations) {
    const bool is_told = is_missing(operation) && !operation.place.empty();
    rows.emplace_back(Object{{"name", operation.name},
                             {"count", operation.count},
                             {"treatment", name_of(operation.treatment)},
                             {"first", is_told ? json::Output(operation.place) : json::Output()}});
  }
  return {"operations", std::move(rows), {"name", "count", "treatment", "first"}};
}

}  // namespace

Result<Description> describe_archive(const program::ModelFile& file) {
  DGX_TRY(program::ModelReader* const module, open_torch_module());
  DGX_TRY(const ModelArchive archive, module->describe(file));
  Description out{"exported model", {}, {}, {}};
  out.fields = {{"program", archive.program},
                {"torch_version", archive.torch_version},
                {"schema_version", archive.schema_version},
                {"mode", archive.mode},
                table_of("inputs", archive.inputs),
                sizes_of(archive),
                table_of("outputs", archive.outputs),
                parameters_of(archive),
                table_of("buffers", archive.buffers),
                operations_of(archive)};
  const auto missing = std::ranges::count_if(archive.operations, is_missing);
  out.fields.push_back({"missing", static_cast<std::int64_t>(missing)});
  out.is_usable = missing == 0;
  return out;
}

}  // namespace dgx::jobs
