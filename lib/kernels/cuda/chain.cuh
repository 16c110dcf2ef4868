#pragma once

// A chain whose condition asks that a number of the position be an index of the output, as gradients of
// embeddings have: a thread an output reads the positions' numbers, which its neighbours read too, and
// evaluates the primitive only where the number is its index.

#include "words.h"

#include "dgx/kernels/cuda/device.h"
#include "elements.cuh"

namespace dgx::kernels::cuda {

inline constexpr unsigned kChainThreads = 128;

/// The number of position `p`.
__device__ inline std::int64_t key_at(const KeyedChain& chain, std::int64_t p) {
  std::int64_t at = chain.base;
  for (int d = chain.dimensions; d-- > 1;) {
    const auto dimension = static_cast<std::size_t>(d);
    at += p % chain.extents[dimension] * chain.strides[dimension];
    p /= chain.extents[dimension];
  }
  at += p * chain.strides[0];
  if (chain.dtype == DType::kU8) return static_cast<const std::uint8_t*>(chain.keys)[at];
  return static_cast<const std::int64_t*>(chain.keys)[at];
}

__global__ void run_chain(KeyedChain chain) {
  const std::int64_t element = global_thread();
  if (element >= chain.count) return;
  const std::int64_t index = element / chain.index_stride % chain.index_extent;
  const PrimitiveView& primitive = view_of(chain.member.primitive);
  const MadeNumbers none{};
  DeviceSource source(chain.member.bindings, none);
  DeviceNumbers numbers;
  ElementEvaluator<PrimitiveView, DeviceNumbers, DeviceSource, 1> evaluator(primitive, source, numbers);
  evaluator.seek(element);
  evaluator.seek_fold(0);
  auto running = evaluator.start();
  for (std::int64_t p = 0; p < chain.fold_count; ++p) {
    if (key_at(chain, p) != index) continue;
    evaluator.seek_fold(p);
    evaluator.take(p, running);
  }
  store(chain.member, primitive.dtype, element, as_stored(primitive.dtype, running.value));
}

}  // namespace dgx::kernels::cuda
