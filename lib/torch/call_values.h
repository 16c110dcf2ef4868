#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

/// The tensors among the arguments or results of a call.
namespace dgx::torch_bridge {

using CallValues = c10::ArrayRef<c10::IValue>;

/// Calls `visit(const at::Tensor&)` for each defined tensor in `value`: itself, or in a list.
template <class Visit>
void each_tensor(const c10::IValue& value, const Visit& visit) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) visit(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) visit(tensor);
  } else if (value.isOptionalTensorList()) {
    for (const auto& tensor : value.toOptionalTensorVector()) {
      if (tensor && tensor->defined()) visit(*tensor);
    }
  }
}

/// True if `test` is, of one tensor at least.
template <class Test>
bool any_tensor(CallValues values, const Test& test) {
  bool found = false;
  for (const c10::IValue& value : values)
    each_tensor(value, [&](const at::Tensor& tensor) { found = found || test(tensor); });
  return found;
}

}  // namespace dgx::torch_bridge
