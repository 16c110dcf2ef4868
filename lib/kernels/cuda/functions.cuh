#pragma once

// The device's elementary functions: as kernels/ref defines them, in binary64, or by pairs of floats where
// binary64 is slow. Kernels are compiled once and test a flag, which costs one instruction in some fifty; all
// threads branch alike.

#include "words.h"

#include <array>
#include <cstdint>

#include "dgx/kernels/function_pairs.h"
#include "dgx/kernels/plain_numbers.h"
#include "dgx/kernels/scalar_formulas.h"

namespace dgx::kernels::cuda {

/// Set when the device is opened (DeviceInfo::functions).
__constant__ bool functions_by_pairs = false;

struct DeviceChoice {
  __device__ static bool by_pairs() { return functions_by_pairs; }
};
using DeviceFunctions = formula::ChosenFunctions<DeviceChoice>;

/// The number policy of ElementEvaluator.
struct DeviceNumbers : PlainNumbers {
  __device__ static Slot step(Place, int, std::int64_t, const CompiledStep& step,
                              const std::array<Slot, 3>& operands) {
    return formula::apply_step<DeviceFunctions>(step, operands);
  }
};

}  // namespace dgx::kernels::cuda
