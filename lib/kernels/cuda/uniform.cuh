#pragma once

// Random inputs (dgx-numerics(7), "Inputs derived from the task"): counter-based, a thread per number.

#include "words.h"

#include "dgx/kernels/cuda/device.h"
#include "dgx/kernels/philox.h"

namespace dgx::kernels::cuda {

__global__ void run_uniform(UniformNumbers numbers) {
  const std::int64_t element = global_thread();
  if (element >= numbers.count) return;
  const Stream stream{static_cast<StreamKind>(numbers.stream >> 24U), numbers.stream & 0xFFFFFFU};
  numbers.out[element] = uniform(numbers.seed, stream, *numbers.step, element);
}

}  // namespace dgx::kernels::cuda
