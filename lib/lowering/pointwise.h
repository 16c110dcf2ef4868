#pragma once

#include <fmt/format.h>

#include "lowering.h"

namespace dgx::lowering {

/// A call whose result is one map over its broadcast arguments: read arguments by name, combine them, give
/// the result.
class Pointwise {
 public:
  explicit Pointwise(Call& call)
      : call_(call), line_(call.builder(), call.provenance(), call.result_shape()) {}

  /// The element of a tensor argument.
  Expression in(std::string_view name) { return read(call_.tensor(name), name); }
  /// The element of a tensor argument, or a number.
  Expression any(std::string_view name) { return read(call_.number_or_tensor(name), name); }
  Expression read(const TensorForm& form, std::string_view name) {
    if (!call_.require(broadcasts(form.shape, call_.result_shape()),
                       fmt::format("argument '{}' of {} does not broadcast", name, to_string(form.shape)))) {
      return line_.read(splat_form(form.dtype, {}, literal_of(form.dtype, 0)));
    }
    return line_.read(form);
  }
  /// A number argument, rounded once to binary32.
  [[nodiscard]] Expression number(std::string_view name, double otherwise) {
    return static_cast<float>(call_.number(name, otherwise));
  }
  /// A number that steps can be built on, even if all operands are numbers.
  Expression literal(float value) { return line_.read(splat_form(DType::kF32, {}, value)); }

  void out(const Expression& result) { call_.give(line_, result); }

 private:
  Call& call_;
  LineWriter line_;
};

}  // namespace dgx::lowering
