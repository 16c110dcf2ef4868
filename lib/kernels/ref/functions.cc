#include "dgx/kernels/functions.h"

#include "dgx/kernels/function_formulas.h"

namespace dgx::kernels {

float exp_f32(float x) { return formula::exp_f32(x); }
float expm1_f32(float x) { return formula::expm1_f32(x); }
float log_f32(float x) { return formula::log_f32(x); }
float log1p_f32(float x) { return formula::log1p_f32(x); }
float sin_f32(float x) { return formula::sin_f32(x); }
float cos_f32(float x) { return formula::cos_f32(x); }
float tanh_f32(float x) { return formula::tanh_f32(x); }
float erf_f32(float x) { return formula::erf_f32(x); }

}  // namespace dgx::kernels
