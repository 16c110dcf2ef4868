#include <array>
#include <map>
#include <string_view>

#include "dgx/program/lower.h"
#include "lowerings.h"

namespace dgx::program {
namespace {

using namespace lowerings;  // NOLINT: the table is about nothing else

/// Every ATen op that an exact program can hold. A new op is a row here and a function in lowerings_*.cc.
/// Functionalisation writes some views as `…_copy`; find_lowering drops that ending.
const std::map<std::string_view, LoweringFunction>& table() {
  static const std::map<std::string_view, LoweringFunction> kTable = {
      // Views and data movement.
      {"alias", &alias},
      {"detach", &alias},
      {"clone", &alias},
      {"contiguous", &alias},
      {"lift_fresh", &alias},
      {"lift", &alias},
      {"view", &lowerings::reshape},
      {"reshape", &lowerings::reshape},
      {"_unsafe_view", &lowerings::reshape},
      {"_reshape_alias", &lowerings::reshape},
      {"flatten", &lowerings::reshape},
      {"unflatten", &lowerings::reshape},
      {"squeeze", &lowerings::reshape},
      {"unsqueeze", &lowerings::reshape},
      {"t", &transpose_two},
      {"numpy_T", &transpose_two},
      {"transpose", &transpose},
      {"permute", &permute},
      {"expand", &expand},
      {"expand_as", &expand},
      {"select", &lowerings::select},
      {"slice", &slice},
      {"slice_backward", &slice_backward},
      {"select_backward", &select_backward},
      {"flip", &flip},
      {"split", &split},
      {"split_with_sizes", &split_with_sizes},
      {"unbind", &unbind},
      {"cat", &cat},
      {"stack", &stack},
      {"copy", &expand},
      {"_to_copy", &convert},
      {"to", &convert},
      {"full", &filled},
      {"full_like", &filled},
      {"new_full", &filled},
      {"scalar_tensor", &filled},
      {"fill", &filled},
      {"zeros", &zeros},
      {"zeros_like", &zeros},
      {"new_zeros", &zeros},
      {"ones", &ones},
      {"ones_like", &ones},
      {"new_ones", &ones},
      {"arange", &arange},
      // Arithmetic.
      {"add", &add},
      {"sub", &sub},
      {"rsub", &rsub},
      {"mul", &mul},
      {"div", &lowerings::div},
      {"reciprocal", &reciprocal},
      {"neg", &neg},
      {"abs", &lowerings::abs},
      {"exp", &lowerings::exp},
      {"expm1", &lowerings::expm1},
      {"log", &lowerings::log},
      {"log1p", &lowerings::log1p},
      {"sqrt", &lowerings::sqrt},
      {"rsqrt", &rsqrt},
      {"sin", &lowerings::sin},
      {"cos", &lowerings::cos},
      {"erf", &lowerings::erf},
      {"floor", &lowerings::floor},
      {"trunc", &lowerings::trunc},
      {"round", &lowerings::round},
      {"square", &square},
      {"pow", &lowerings::pow},
      {"addcmul", &addcmul},
      {"addcdiv", &addcdiv},
      {"lerp", &lowerings::lerp},
      {"maximum", &maximum},
      {"minimum", &minimum},
      {"clamp", &clamp},
      {"clamp_min", &clamp},
      {"clamp_max", &clamp},
      {"sign", &sign},
      {"sgn", &sign},
      {"eq", &eq},
      {"ne", &ne},
      {"lt", &lt},
      {"le", &le},
      {"gt", &gt},
      {"ge", &ge},
      {"logical_and", &logical_and},
      {"logical_or", &logical_or},
      {"logical_not", &logical_not},
      {"where", &where},
      {"masked_fill", &masked_fill},
      // Activations.
      {"relu", &relu},
      {"threshold_backward", &threshold_backward},
      {"gelu", &gelu},
      {"gelu_backward", &gelu_backward},
      {"tanh", &lowerings::tanh},
      {"tanh_backward", &tanh_backward},
      {"sigmoid", &sigmoid},
      {"sigmoid_backward", &sigmoid_backward},
      {"silu", &silu},
      {"silu_backward", &silu_backward},
      {"leaky_relu", &leaky_relu},
      {"leaky_relu_backward", &leaky_relu_backward},
      {"elu", &elu},
      {"elu_backward", &elu_backward},
      {"softplus", &softplus},
      {"softplus_backward", &softplus_backward},
      {"hardtanh", &hardtanh},
      {"hardtanh_backward", &hardtanh_backward},
      // Contractions.
      {"mm", &mm},
      {"bmm", &bmm},
      {"mv", &mv},
      {"addmm", &addmm},
      {"linear", &linear},
      // Convolutions.
      {"convolution", &convolution},
      {"convolution_backward", &convolution_backward},
      // Pooling.
      {"max_pool1d_with_indices", &max_pool},
      {"max_pool2d_with_indices", &max_pool},
      {"max_pool3d_with_indices", &max_pool},
      {"max_pool2d_with_indices_backward", &max_pool_backward},
      {"max_pool3d_with_indices_backward", &max_pool_backward},
      {"adaptive_max_pool2d", &adaptive_max_pool},
      {"adaptive_max_pool3d", &adaptive_max_pool},
      {"adaptive_max_pool2d_backward", &adaptive_max_pool_backward},
      {"adaptive_max_pool3d_backward", &adaptive_max_pool_backward},
      {"avg_pool2d", &avg_pool},
      {"avg_pool3d", &avg_pool},
      {"avg_pool2d_backward", &avg_pool_backward},
      {"avg_pool3d_backward", &avg_pool_backward},
      {"_adaptive_avg_pool2d", &adaptive_avg_pool},
      {"_adaptive_avg_pool3d", &adaptive_avg_pool},
      {"_adaptive_avg_pool2d_backward", &adaptive_avg_pool_backward},
      {"_adaptive_avg_pool3d_backward", &adaptive_avg_pool_backward},
      // Padding.
      {"constant_pad_nd", &constant_pad},
      // Resampling.
      {"upsample_nearest1d", &upsample_nearest},
      {"_upsample_nearest_exact1d", &upsample_nearest},
      {"upsample_nearest1d_backward", &upsample_nearest_backward},
      {"_upsample_nearest_exact1d_backward", &upsample_nearest_backward},
      {"upsample_nearest2d", &upsample_nearest},
      {"_upsample_nearest_exact2d", &upsample_nearest},
      {"upsample_nearest2d_backward", &upsample_nearest_backward},
      {"_upsample_nearest_exact2d_backward", &upsample_nearest_backward},
      {"upsample_nearest3d", &upsample_nearest},
      {"_upsample_nearest_exact3d", &upsample_nearest},
      {"upsample_nearest3d_backward", &upsample_nearest_backward},
      {"_upsample_nearest_exact3d_backward", &upsample_nearest_backward},
      {"upsample_linear1d", &upsample_linear},
      {"upsample_linear1d_backward", &upsample_linear_backward},
      {"upsample_bilinear2d", &upsample_linear},
      {"upsample_bilinear2d_backward", &upsample_linear_backward},
      {"upsample_trilinear3d", &upsample_linear},
      {"upsample_trilinear3d_backward", &upsample_linear_backward},
      // Reductions and what is made of them.
      {"sum", &sum},
      {"mean", &mean},
      {"amax", &amax},
      {"argmax", &argmax},
      {"_softmax", &softmax},
      {"softmax", &softmax},
      {"_softmax_backward_data", &softmax_backward},
      {"_log_softmax", &log_softmax},
      {"log_softmax", &log_softmax},
      {"_log_softmax_backward_data", &log_softmax_backward},
      {"native_layer_norm", &layer_norm},
      {"native_layer_norm_backward", &layer_norm_backward},
  };
  return kTable;
}

}  // namespace

LoweringFunction find_lowering(std::string_view name) {
  if (!name.starts_with("aten::")) return nullptr;
  name.remove_prefix(6);
  auto found = table().find(name);
  if (found == table().end() && name.ends_with("_copy"))
    found = table().find(name.substr(0, name.size() - 5));
  return found == table().end() ? nullptr : found->second;
}

bool has_lowering(std::string_view name) { return find_lowering(name) != nullptr; }

}  // namespace dgx::program
