#include "graph_run.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "archive.h"
#include "decompositions.h"
#include "dgx/core/text.h"
#include "graph_calls.h"
#include "recorder.h"

namespace dgx::torch_bridge {
namespace {

using c10::IValue;
using lowering::ExportedArgument;
using lowering::ExportedGraph;
using lowering::ExportedInteger;
using lowering::ExportedName;
using lowering::ExportedNode;

at::MemoryFormat format_named(std::string_view name) {
  if (name == "contiguous") return at::MemoryFormat::Contiguous;
  if (name == "channels_last") return at::MemoryFormat::ChannelsLast;
  if (name == "channels_last_3d") return at::MemoryFormat::ChannelsLast3d;
  return at::MemoryFormat::Preserve;
}

/// A host number where the schema wants a tensor, as libtorch's Python makes it: it takes part in type
/// promotion as a number.
at::Tensor wrapped_number(const at::Scalar& number) {
  const c10::impl::ExcludeDispatchKeyGuard plain(
      c10::DispatchKeySet({c10::DispatchKey::Functionalize, c10::DispatchKey::Fake}));
  at::Tensor tensor = at::scalar_tensor(number, at::TensorOptions(number.type()));
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

/// Converts one argument of a file, by the type that the operator's schema has for it.
class Conversion {
 public:
  Conversion(const Environment& names, const c10::Type* formal) : names_(names), formal_(formal) {
    const auto* const optional = formal_ ? formal_->castRaw<c10::OptionalType>() : nullptr;
    if (optional) formal_ = optional->getElementType().get();
  }

  IValue operator()(std::monostate) const { return {}; }
  IValue operator()(bool value) const {
    return wants(c10::TypeKind::TensorType) ? IValue(wrapped_number(value)) : IValue(value);
  }
  IValue operator()(double value) const {
    return wants(c10::TypeKind::TensorType) ? IValue(wrapped_number(value)) : IValue(value);
  }
  IValue operator()(const std::string& value) const { return value; }
  IValue operator()(const ExportedInteger& value) const {
    // libtorch has one type for them and integers, and looks up any number in its tables.
    for (const auto kind : {c10::TypeKind::ScalarTypeType, c10::TypeKind::LayoutType,
                            c10::TypeKind::MemoryFormatType, c10::TypeKind::QSchemeType})
      if (wants(kind)) throw Misfit("a number stands for an element type, a layout or a memory format");
    const std::int64_t number = names_.integer(value);
    if (wants(c10::TypeKind::TensorType)) return wrapped_number(number);
    if (wants(c10::TypeKind::FloatType)) return static_cast<double>(number);
    if (wants(c10::TypeKind::BoolType)) return number != 0;
    // `int[2] stride` may be given as one number.
    if (wants(c10::TypeKind::ListType)) return c10::List<std::int64_t>({number});
    return number;
  }
  IValue operator()(const ExportedName& name) const { return names_.tensor(name); }
  IValue operator()(const lowering::ExportedDtype& dtype) const {
    const auto type = scalar_type_named(dtype.name);
    if (!type) throw Misfit("no element type " + dtype.name);
    return static_cast<std::int64_t>(*type);
  }
  IValue operator()(const lowering::ExportedLayout&) const {
    return static_cast<std::int64_t>(c10::kStrided);
  }
  IValue operator()(const lowering::ExportedMemoryFormat& format) const {
    return static_cast<std::int64_t>(format_named(format.name));
  }
  IValue operator()(const lowering::ExportedDevice&) const { return c10::Device(c10::kCPU); }
  IValue operator()(const std::vector<bool>& values) const {
    c10::List<bool> list;
    for (const bool each : values) list.push_back(each);
    return list;
  }
  IValue operator()(const std::vector<double>& values) const {
    c10::List<double> list;
    for (const double each : values) list.push_back(each);
    return list;
  }
  IValue operator()(const std::vector<ExportedInteger>& values) const {
    c10::List<std::int64_t> list;
    c10::List<double> floats;
    for (const ExportedInteger& each : values) {
      list.push_back(names_.integer(each));
      floats.push_back(static_cast<double>(list.get(list.size() - 1)));
    }
    return wants_items(c10::TypeKind::FloatType) ? IValue(floats) : IValue(list);
  }
  IValue operator()(const std::vector<ExportedName>& names) const {
    if (wants_items(c10::TypeKind::OptionalType))
      return (*this)(std::vector<std::optional<ExportedName>>(names.begin(), names.end()));
    c10::List<at::Tensor> tensors;
    for (const ExportedName& each : names) tensors.push_back(names_.tensor(each));
    return tensors;
  }
  IValue operator()(const std::vector<std::optional<ExportedName>>& names) const {
    c10::List<std::optional<at::Tensor>> tensors;
    for (const auto& each : names)
      tensors.push_back(each ? std::optional(names_.tensor(*each)) : std::nullopt);
    return tensors;
  }
  IValue operator()(const std::shared_ptr<ExportedGraph>&) const {
    throw Misfit("a graph stands for a value");
  }

 private:
  [[nodiscard]] bool wants(c10::TypeKind kind) const { return formal_ && formal_->kind() == kind; }
  [[nodiscard]] bool wants_items(c10::TypeKind kind) const {
    const auto* const list = formal_ ? formal_->castRaw<c10::ListType>() : nullptr;
    return list && list->getElementType()->kind() == kind;
  }

  const Environment& names_;
  const c10::Type* formal_;  ///< without Optional; nullptr outside a call
};

/// Refuses an argument of a type that the operator does not take: libtorch's own kernels trust their caller.
void check_type(const IValue& value, const c10::Argument& formal) {
  const bool is_scalar = value.isBool() && formal.type()->kind() == c10::TypeKind::NumberType;
  if (is_scalar || value.type()->isSubtypeOf(*formal.type())) return;
  throw Misfit(
      fmt::format("{} is {}, not {}", formal.name(), value.type()->repr_str(), formal.type()->repr_str()));
}

/// Runs the calls of one graph in order.
class Run {
 public:
  explicit Run(Environment& names) : names_(names) {}

  void graph(const ExportedGraph& graph) {
    for (const ExportedNode& node : graph.nodes) {
      if (Recorder* const recorder = Recorder::active()) recorder->set_line(node.place);
      try {
        this->node(node);
      } catch (const Misfit& misfit) {
        throw Misfit(title_of(node) + ": " + misfit.text);
      }
    }
  }

 private:
  void node(const ExportedNode& node) {
    const Callee callee = callee_of(node.target);
    switch (callee.kind) {
      case Callee::Kind::kOperator: return call(node, *callee.op);
      case Callee::Kind::kIntegers: return integers(node, callee.function);
      case Callee::Kind::kGradMode:
      case Callee::Kind::kAutocast: return wrapper(node, callee.kind);
      case Callee::Kind::kAssertion: return assertion(node);
      case Callee::Kind::kRefused: throw Misfit("is not to be run");
    }
  }

  /// Holds a batch to what the exporter assumed of its sizes. What is asserted of tensors is not looked at.
  void assertion(const ExportedNode& node) {
    if (node.target != "torch.ops.aten._assert_scalar.default") return;
    const ExportedArgument* const self = argument_named(node, "self");
    const auto* const condition = self ? std::get_if<ExportedInteger>(self) : nullptr;
    if (!condition || names_.integer(*condition) != 0) return;
    const ExportedArgument* const words = argument_named(node, "assert_msg");
    const auto* const text = words ? std::get_if<std::string>(words) : nullptr;
    throw Misfit("the batch is not of the sizes for which it was exported" +
                 (text ? ": " + printable(*text) : std::string()));
  }

  void integers(const ExportedNode& node, IntegerFunction function) {
    std::int64_t arguments[2] = {0, 0};
    if (node.inputs.empty() || node.inputs.size() > 2 || node.outputs.size() != 1)
      throw Misfit("has other arguments than it takes");
    for (std::size_t n = 0; n < node.inputs.size(); ++n) {
      const IValue value = names_.value(node.inputs[n].second, nullptr);
      if (!value.isInt()) throw Misfit("takes integers");
      arguments[n] = value.toInt();
    }
    const auto result = function(arguments[0], arguments[1]);
    if (!result) throw Misfit("its result is no integer of 64 bits");
    if (std::holds_alternative<ExportedInteger>(node.outputs[0])) names_.define(node.outputs[0], *result);
  }

  void wrapper(const ExportedNode& node, Callee::Kind kind) {
    const auto wrapper = wrapper_of(node, kind);
    if (!wrapper.ok()) throw Misfit(wrapper.error().message);
    const ExportedGraph& inside = *wrapper->graph;
    Environment inner;
    for (std::size_t n = 0; n < inside.inputs.size(); ++n)
      inner.define(inside.inputs[n], names_.value(node.inputs[wrapper->first + n].second, nullptr));
    {
      const bool records = kind == Callee::Kind::kGradMode ? wrapper->on : c10::GradMode::is_enabled();
      const c10::AutoGradMode mode(records);
      Run(inner).graph(inside);
    }
    std::vector<IValue> results;
    for (const ExportedArgument& output : inside.outputs) results.push_back(inner.value(output, nullptr));
    define_all(node.outputs, results);
  }

  /// Gives the outputs of a node its results: each its own, or one output that is a list of them all.
  void define_all(const std::vector<ExportedArgument>& outputs, const std::vector<IValue>& results) {
    const auto* const names =
        outputs.size() == 1 ? std::get_if<std::vector<ExportedName>>(&outputs[0]) : nullptr;
    if (names && names->size() == results.size()) {
      for (std::size_t n = 0; n < results.size(); ++n) names_.define((*names)[n], results[n]);
      return;
    }
    if (outputs.size() != results.size()) throw Misfit("has another number of results");
    for (std::size_t n = 0; n < outputs.size(); ++n) names_.define(outputs[n], results[n]);
  }

  void call(const ExportedNode& node, const c10::OperatorHandle& op) {
    const c10::FunctionSchema& schema = op.schema();
    torch::jit::Stack stack;
    for (const c10::Argument& formal : schema.arguments()) {
      const ExportedArgument* const given = argument_named(node, formal.name());
      if (!given && !formal.default_value()) throw Misfit("has no argument " + formal.name());
      stack.push_back(given ? names_.value(*given, formal.real_type().get()) : *formal.default_value());
      check_type(stack.back(), formal);
    }
    if (!decomposed(schema, stack)) op.callBoxed(stack);
    if (schema.returns().size() == 1 && node.outputs.size() == 1)
      return names_.define(node.outputs[0], stack.at(0));
    define_all(node.outputs, {stack.begin(), stack.end()});
  }

  static bool decomposed(const c10::FunctionSchema& schema, torch::jit::Stack& stack) {
    for (const Decomposition& each : decompositions()) {
      if (schema.name() == each.name && schema.overload_name() == each.overload) return each.run(stack);
    }
    return false;
  }

  Environment& names_;
};

}  // namespace

const IValue& Environment::at(const std::string& name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) throw Misfit(printable(name) + " is used before it is defined");
  return found->second;
}

at::Tensor Environment::tensor(const ExportedName& name) const {
  const IValue& value = at(name.name);
  if (!value.isTensor()) throw Misfit(printable(name.name) + " is no tensor");
  return value.toTensor();
}

std::int64_t Environment::integer(const ExportedInteger& value) const {
  if (const auto* number = std::get_if<std::int64_t>(&value)) return *number;
  const IValue& named = at(std::get<std::string>(value));
  if (!named.isInt()) throw Misfit(printable(std::get<std::string>(value)) + " is no integer");
  return named.toInt();
}

void Environment::define(const ExportedArgument& output, const IValue& value) {
  if (const auto* name = std::get_if<ExportedName>(&output)) {
    if (!value.isTensor()) throw Misfit(printable(name->name) + " is defined by what is no tensor");
    return set(name->name, value);
  }
  if (const auto* integer = std::get_if<ExportedInteger>(&output)) {
    const auto* const name = std::get_if<std::string>(integer);
    if (!name || !value.isInt()) throw Misfit("an integer is defined by something else");
    return set(*name, value);
  }
  if (const auto* names = std::get_if<std::vector<ExportedName>>(&output)) {
    const auto tensors = value.isTensorList() ? value.toTensorVector() : std::vector<at::Tensor>{};
    if (tensors.size() != names->size()) throw Misfit("a list of tensors has another length");
    for (std::size_t n = 0; n < names->size(); ++n) set((*names)[n].name, tensors[n]);
    return;
  }
  if (!std::holds_alternative<std::monostate>(output)) throw Misfit("a result of an unknown kind");
}

IValue Environment::value(const ExportedArgument& argument, const c10::Type* formal) const {
  return std::visit(Conversion(*this, formal), argument);
}

void run_graph(const ExportedGraph& graph, Environment& names) { Run(names).graph(graph); }

}  // namespace dgx::torch_bridge
