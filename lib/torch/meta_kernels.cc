// Kernels for the meta device, on which tensors have forms and no numbers, of operators for which libtorch
// has none in C++: each gives results of the sizes, strides and types that the CPU's kernel gives, and
// refuses arguments that the latter might refuse, by exceptions that nobody sees (numberless.h): then that
// one runs.
#include <ATen/ATen.h>
#include <ATen/TensorIterator.h>
#include <ATen/core/stack.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <tuple>
#include <vector>

namespace dgx::torch_bridge {
namespace {

using at::Tensor;
using MaybeTensor = std::optional<Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

/// The meta kernel of an `….out` operator: returns the last argument, which the operator writes.
/// Functionalisation runs a call that writes into its argument on the meta device first, to check shapes; the
/// backward of max() and min() of a whole tensor makes some of them.
void give_last_argument(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::IValue out = stack->back();
  torch::jit::drop(*stack, op.schema().arguments().size());
  stack->push_back(out);
}

Tensor dense_like(const Tensor& tensor) { return at::empty_like(tensor, at::MemoryFormat::Contiguous); }

Tensor dense_if(bool wanted, const Tensor& tensor) { return wanted ? dense_like(tensor) : Tensor(); }

void need(bool good) { TORCH_CHECK_NOT_IMPLEMENTED(good, "this form is not told"); }

/// Other strides the CPU's kernels choose by rules of their own.
void need_dense(std::initializer_list<Tensor> tensors) {
  for (const Tensor& tensor : tensors) need(tensor.is_contiguous());
}

/// A vector of a number for each channel, if there is one.
void need_channels(const MaybeTensor& vector, std::int64_t channels) {
  if (vector && vector->defined()) need(vector->dim() == 1 && vector->size(0) == channels);
}

bool is_index(const Tensor& tensor) {
  return tensor.scalar_type() == at::kLong || tensor.scalar_type() == at::kInt;
}

bool is_share(double p) { return p >= 0 && p <= 1; }

Tensor relu(const Tensor& self) { return at::clamp_min(self, 0); }

Tensor where(const Tensor& condition, const Tensor& self, const Tensor& other) {
  need(condition.scalar_type() == at::kBool);
  auto iterator = at::TensorIteratorConfig()
                      .check_all_same_dtype(false)
                      .add_owned_output(Tensor())
                      .add_owned_const_input(condition)
                      .add_owned_const_input(self)
                      .add_owned_const_input(other)
                      .declare_static_dtype(at::result_type(self, other))
                      .declare_static_device(at::kMeta)
                      .build();
  return iterator.output();
}

Tensor safe_softmax(const Tensor& self, std::int64_t dimension, std::optional<at::ScalarType> dtype) {
  need(!dtype);
  need_dense({self});
  return at::_softmax(self, dimension, false);
}

Tensor bernoulli(const Tensor& self, double p, std::optional<at::Generator>) {
  need(is_share(p));
  return dense_like(self);
}

std::tuple<Tensor, Tensor> dropout(const Tensor& self, double p, std::optional<bool>) {
  need(is_share(p));
  need_dense({self});
  return {dense_like(self), at::empty_like(self, self.options().dtype(at::kBool))};
}

Tensor dropout_backward(const Tensor& gradient, const Tensor& mask, double scale) {
  return gradient.mul(mask).mul(scale);
}

Tensor embedding(const Tensor& weight, const Tensor& indices, c10::SymInt, bool, bool) {
  need(weight.dim() == 2 && is_index(indices));
  std::vector<std::int64_t> sizes = indices.sizes().vec();
  sizes.push_back(weight.size(1));
  return weight.new_empty(sizes);
}

Tensor embedding_backward(const Tensor& gradient, const Tensor& indices, c10::SymInt rows, c10::SymInt,
                          bool) {
  need(is_index(indices) && gradient.dim() == indices.dim() + 1 &&
       gradient.numel() == indices.numel() * gradient.size(-1));
  return gradient.new_empty({rows.expect_int(), gradient.size(-1)});
}

Tensor index_select(const Tensor& self, std::int64_t dimension, const Tensor& index) {
  need(self.dim() > 0 && index.dim() == 1 && is_index(index));
  std::vector<std::int64_t> sizes = self.sizes().vec();
  sizes.at(static_cast<std::size_t>(at::maybe_wrap_dim(dimension, self.dim()))) = index.numel();
  return self.new_empty(sizes);
}

Three layer_norm(const Tensor& self, c10::SymIntArrayRef normalised, const MaybeTensor& weight,
                 const MaybeTensor& bias, double) {
  const auto count = static_cast<std::ptrdiff_t>(normalised.size());
  need(count > 0 && self.dim() >= count);
  std::vector<std::int64_t> rows = self.sizes().vec();
  std::vector<std::int64_t> last(rows.end() - count, rows.end());
  need(std::equal(last.begin(), last.end(), normalised.begin()));
  for (const MaybeTensor& each : {weight, bias})
    if (each && each->defined()) need(each->sizes() == last);
  std::fill(rows.end() - count, rows.end(), 1);
  return {dense_like(self), self.new_empty(rows), self.new_empty(rows)};
}

Three layer_norm_backward(const Tensor& gradient, const Tensor& self, c10::SymIntArrayRef, const Tensor&,
                          const Tensor&, const MaybeTensor& weight, const MaybeTensor& bias,
                          std::array<bool, 3> wanted) {
  need(gradient.sizes() == self.sizes());
  need(!wanted[1] || (weight && weight->defined()));
  need(!wanted[2] || (bias && bias->defined()));
  return {dense_if(wanted[0], self), wanted[1] ? dense_like(*weight) : Tensor(),
          wanted[2] ? dense_like(*bias) : Tensor()};
}

Three batch_norm(const Tensor& self, const MaybeTensor& weight, const MaybeTensor& bias,
                 const MaybeTensor& mean, const MaybeTensor& variance, bool training, double, double) {
  need(self.dim() >= 2);
  need_dense({self});
  for (const MaybeTensor& each : {weight, bias, mean, variance}) need_channels(each, self.size(1));
  need(training || (mean && mean->defined() && variance && variance->defined()));
  const std::int64_t channels = training ? self.size(1) : 0;
  return {dense_like(self), self.new_empty({channels}), self.new_empty({channels})};
}

Three batch_norm_backward(const Tensor& gradient, const Tensor& self, const MaybeTensor& weight,
                          const MaybeTensor&, const MaybeTensor&, const MaybeTensor&, const MaybeTensor&,
                          bool, double, std::array<bool, 3> wanted) {
  need(self.dim() >= 2 && gradient.sizes() == self.sizes());
  need_dense({gradient, self});
  need_channels(weight, self.size(1));
  const Tensor channels = self.new_empty({self.size(1)});
  return {dense_if(wanted[0], self), dense_if(wanted[1], channels), dense_if(wanted[2], channels)};
}

Tensor convolution(const Tensor& self, const Tensor& weight, const MaybeTensor& bias,
                   c10::SymIntArrayRef stride, c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation,
                   bool transposed, c10::SymIntArrayRef output_padding, c10::SymInt symbolic_groups) {
  const std::int64_t groups = symbolic_groups.expect_int(), dims = self.dim();
  need(dims >= 3 && weight.dim() == dims && groups > 0 && self.numel() > 0 && weight.numel() > 0);
  need_dense({self, weight});
  // A tensor may be dense in both orders; the CPU's kernels choose the results' order so.
  need(self.suggest_memory_format() == at::MemoryFormat::Contiguous &&
       weight.suggest_memory_format() == at::MemoryFormat::Contiguous);
  for (const c10::SymIntArrayRef each : {stride, padding, dilation, output_padding})
    need(std::ssize(each) == dims - 2);
  need(self.size(1) == (transposed ? weight.size(0) : weight.size(1) * groups));
  need(weight.size(0) % groups == 0);
  const std::int64_t channels = transposed ? weight.size(1) * groups : weight.size(0);
  need_channels(bias, channels);
  std::vector<std::int64_t> sizes = {self.size(0), channels};
  for (std::int64_t d = 2; d < dims; ++d) {
    const auto n = static_cast<std::size_t>(d - 2);
    const std::int64_t step = stride[n].expect_int(), edge = 2 * padding[n].expect_int(),
                       reach = dilation[n].expect_int() * (weight.size(d) - 1) + 1,
                       beyond = output_padding[n].expect_int();
    need(step > 0 && edge >= 0 && dilation[n].expect_int() > 0 && beyond >= 0 && beyond < step + reach);
    need(transposed || self.size(d) + edge >= reach);
    sizes.push_back(transposed ? (self.size(d) - 1) * step - edge + reach + beyond
                               : (self.size(d) + edge - reach) / step + 1);
    need(sizes.back() > 0 && (!transposed || beyond < std::max(step, dilation[n].expect_int())));
  }
  return self.new_empty(sizes);
}

Three convolution_backward(const Tensor& gradient, const Tensor& self, const Tensor& weight,
                           at::OptionalSymIntArrayRef, c10::SymIntArrayRef stride,
                           c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation, bool transposed,
                           c10::SymIntArrayRef output_padding, c10::SymInt groups,
                           std::array<bool, 3> wanted) {
  need_dense({gradient});
  const Tensor output =
      convolution(self, weight, std::nullopt, stride, padding, dilation, transposed, output_padding, groups);
  need(gradient.sizes() == output.sizes());
  return {dense_if(wanted[0], self), dense_if(wanted[1], weight),
          wanted[2] ? gradient.new_empty({gradient.size(1)}) : Tensor()};
}

TORCH_LIBRARY_IMPL(aten, Meta, library) {
  for (const char* name :
       {"abs.out", "addbmm.out", "floor_divide.out", "hardswish.out", "hardtanh.out", "logical_and.out",
        "logical_not.out", "logical_or.out", "logical_xor.out", "logit.out", "nan_to_num.out"}) {
    library.impl(name, torch::CppFunction::makeFromBoxedFunction<&give_last_argument>());
  }
  library.impl("relu", TORCH_FN(relu));
  library.impl("where.self", TORCH_FN(where));
  library.impl("_safe_softmax", TORCH_FN(safe_softmax));
  library.impl("bernoulli.p", TORCH_FN(bernoulli));
  library.impl("native_dropout", TORCH_FN(dropout));
  library.impl("native_dropout_backward", TORCH_FN(dropout_backward));
  library.impl("embedding", TORCH_FN(embedding));
  library.impl("embedding_dense_backward", TORCH_FN(embedding_backward));
  library.impl("index_select", TORCH_FN(index_select));
  library.impl("native_layer_norm", TORCH_FN(layer_norm));
  library.impl("native_layer_norm_backward", TORCH_FN(layer_norm_backward));
  library.impl("native_batch_norm", TORCH_FN(batch_norm));
  library.impl("native_batch_norm_backward", TORCH_FN(batch_norm_backward));
  library.impl("convolution", TORCH_FN(convolution));
  library.impl("convolution_backward", TORCH_FN(convolution_backward));
}

}  // namespace
}  // namespace dgx::torch_bridge
