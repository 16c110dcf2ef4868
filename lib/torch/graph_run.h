#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <exception>
#include <map>
#include <string>
#include <utility>

#include "dgx/lowering/exported.h"

/// The calls of a torch.export graph, given to libtorch's dispatcher one by one.
namespace dgx::torch_bridge {

/// An error of a file in its own names and types, found while it runs; becomes kMalformed.
struct Misfit : std::exception {
  explicit Misfit(std::string what) : text(std::move(what)) {}
  [[nodiscard]] const char* what() const noexcept override { return text.c_str(); }
  std::string text;
};

/// The values of one graph's names. A graph inside another has its own.
class Environment {
 public:
  void set(const std::string& name, c10::IValue value) { values_[name] = std::move(value); }
  /// Gives the result of a call to the name that the program has for it.
  void define(const lowering::ExportedArgument& output, const c10::IValue& value);

  // All of these throw Misfit for a name that has no value yet, or one of another type.
  [[nodiscard]] at::Tensor tensor(const lowering::ExportedName& name) const;
  [[nodiscard]] std::int64_t integer(const lowering::ExportedInteger& value) const;
  /// An argument as the dispatcher takes it. `formal` is its type in the operator's schema, nullptr outside a
  /// call: a number where a tensor is wanted becomes one, as Python makes it.
  [[nodiscard]] c10::IValue value(const lowering::ExportedArgument& argument, const c10::Type* formal) const;

 private:
  [[nodiscard]] const c10::IValue& at(const std::string& name) const;

  std::map<std::string, c10::IValue> values_;
};

/// Runs the calls of a graph in order; it must have passed check_graph(). Tells an active recorder the line
/// of each. Throws Misfit, and whatever libtorch throws.
void run_graph(const lowering::ExportedGraph& graph, Environment& names);

}  // namespace dgx::torch_bridge
