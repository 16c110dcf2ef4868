#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace dgx::testing {

using SpanFunction = void (*)(const float* x, float* y, std::size_t count);

/// An elementary function: the scalar reference, and functions-inl.h as compiled for one instruction set.
struct FunctionForms {
  std::string name;    ///< "exp", ...
  std::string target;  ///< "AVX3", ...
  bool vectorised;     ///< false where functions-inl.h calls the scalar function lane by lane
  float (*scalar)(float);
  SpanFunction span;  ///< any count
};

/// Every function for every instruction set of this processor.
std::vector<FunctionForms> function_forms();

}  // namespace dgx::testing
