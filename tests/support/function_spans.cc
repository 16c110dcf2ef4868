#include "function_spans.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "function_spans.cc"
#include "hwy/foreach_target.h"
//
#include "functions-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace dgx::testing::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace functions = dgx::kernels::HWY_NAMESPACE;

template <class Function>
HWY_INLINE void ForEachVector(const float* x, float* y, std::size_t count, const Function& function) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(function(d, hn::LoadU(d, x + i)), d, y + i);
  if (i == count) return;
  HWY_ALIGN float tail[HWY_MAX_BYTES / sizeof(float)] = {};
  for (std::size_t k = i; k < count; ++k) tail[k - i] = x[k];
  hn::Store(function(d, hn::Load(d, tail)), d, tail);
  for (std::size_t k = i; k < count; ++k) y[k] = tail[k - i];
}

#define DGX_SPAN(Name)                                                                         \
  void Name##Span(const float* x, float* y, std::size_t count) {                               \
    ForEachVector(x, y, count, [](auto d, auto v) HWY_ATTR { return functions::Name(d, v); }); \
  }
DGX_SPAN(Exp)
DGX_SPAN(Expm1)
DGX_SPAN(Log)
DGX_SPAN(Log1p)
DGX_SPAN(Sin)
DGX_SPAN(Cos)
DGX_SPAN(Tanh)
DGX_SPAN(Erf)
#undef DGX_SPAN

void Append(std::vector<FunctionForms>& forms) {
  const char* const target = hwy::TargetName(HWY_TARGET);
  const bool vectorised = HWY_NATIVE_FMA && HWY_HAVE_FLOAT64 && !HWY_HAVE_SCALABLE;
  forms.push_back({"exp", target, vectorised, &kernels::exp_f32, &ExpSpan});
  forms.push_back({"log", target, vectorised, &kernels::log_f32, &LogSpan});
  forms.push_back({"tanh", target, vectorised, &kernels::tanh_f32, &TanhSpan});
  forms.push_back({"erf", target, vectorised, &kernels::erf_f32, &ErfSpan});
  forms.push_back({"expm1", target, vectorised, &kernels::expm1_f32, &Expm1Span});
  forms.push_back({"log1p", target, vectorised, &kernels::log1p_f32, &Log1pSpan});
  forms.push_back({"sin", target, vectorised, &kernels::sin_f32, &SinSpan});
  forms.push_back({"cos", target, vectorised, &kernels::cos_f32, &CosSpan});
}

}  // namespace dgx::testing::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dgx::testing {

#ifdef HWY_COMPILE_ONLY_STATIC
// The instruction set is fixed when this is compiled, so nothing of the Highway library is linked.
std::vector<FunctionForms> function_forms() {
  std::vector<FunctionForms> forms;
  HWY_STATIC_DISPATCH(Append)(forms);
  return forms;
}
#else
HWY_EXPORT(Append);

std::vector<FunctionForms> function_forms() {
  std::vector<FunctionForms> forms;
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    HWY_DYNAMIC_DISPATCH(Append)(forms);
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  return forms;
}
#endif

}  // namespace dgx::testing
#endif
