#include "script_ends.h"

#include <fmt/format.h>

#include <utility>

#include "dgx/core/text.h"

namespace dgx::torch_bridge {
namespace {

using lowering::ModelArgument;
using lowering::ModelResult;

bool takes_tensor(const c10::Argument& argument) {
  return argument.type()->isSubtypeOf(*c10::TensorType::get());
}
bool takes_optional_tensor(const c10::Argument& argument) {
  return argument.type()->isSubtypeOf(*c10::OptionalType::ofTensor());
}

/// The tensors in a tree of results, with their paths.
struct Results {
  std::vector<ModelResult> paths;
  std::vector<at::Tensor> tensors;

  void add(const c10::IValue& value, const ModelResult& path) {
    if (value.isTensor()) {
      if (!value.toTensor().defined()) return;
      paths.push_back(path);
      tensors.push_back(value.toTensor());
    } else if (value.isTuple()) {
      const auto type = value.type()->cast<c10::TupleType>();
      const auto names = type && type->schema() ? type->schema()->arguments() : std::vector<c10::Argument>{};
      const auto& items = value.toTupleRef().elements();
      for (std::size_t n = 0; n < items.size(); ++n)
        add(items[n], below(path, n < names.size() ? names[n].name() : std::to_string(n), n));
    } else if (value.isList()) {
      const auto items = value.toListRef();
      for (std::size_t n = 0; n < items.size(); ++n) add(items[n], below(path, std::to_string(n), n));
    } else if (value.isGenericDict()) {
      std::size_t n = 0;
      for (const auto& entry : value.toGenericDict()) {
        const bool is_named = entry.key().isString();
        add(entry.value(), below(path, is_named ? entry.key().toStringRef() : std::to_string(n), n));
        ++n;
      }
    }
  }

 private:
  static ModelResult below(const ModelResult& path, const std::string& key, std::size_t position) {
    const auto joined = [](const std::string& before, const std::string& part) {
      return before.empty() ? part : before + "." + part;
    };
    return {joined(path.keys, key), joined(path.positions, std::to_string(position))};
  }
};

}  // namespace

std::vector<c10::IValue> ScriptArguments::filled(const std::vector<at::Tensor>& inputs) const {
  std::vector<c10::IValue> out = values;
  for (std::size_t n = 0; n < places.size(); ++n) out[places[n]] = inputs[n];
  return out;
}

Result<ScriptArguments> script_arguments(const torch::jit::Module& module,
                                         const lowering::CaptureRequest& request, Model& model) {
  const auto& formals = module.get_method("forward").function().getSchema().arguments();
  ScriptArguments out;
  std::vector<ModelArgument> tensors;
  std::vector<std::size_t> places;
  for (std::size_t n = 1; n < formals.size(); ++n) {  // after self
    const c10::Argument& formal = formals[n];
    out.values.push_back(formal.default_value().value_or(c10::IValue()));
    if (takes_tensor(formal) || takes_optional_tensor(formal)) {
      places.push_back(n - 1);
      tensors.push_back({formal.name(), formal.default_value().has_value()});
    } else if (!formal.default_value()) {
      return usage_error(fmt::format("forward() takes {}, a {}: only tensors come from the data",
                                     printable(formal.name()), formal.type()->repr_str()),
                         "give it a default value");
    }
  }
  DGX_TRY(const auto fields, fields_of(tensors, request));
  for (std::size_t n = 0; n < fields.size(); ++n) {
    if (!fields[n]) continue;
    model.inputs.push_back({*fields[n], usual_type(request.fields[*fields[n]])});
    out.places.push_back(places[n]);
  }
  return out;
}

Result<at::Tensor> chosen_result(const c10::IValue& value, const std::string& wanted) {
  Results results;
  results.add(value, {});
  DGX_TRY(const std::size_t which, lowering::choose_result(results.paths, wanted));
  return results.tensors[which];
}

}  // namespace dgx::torch_bridge
