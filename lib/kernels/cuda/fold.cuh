#pragma once

// sum, max and argmax in the lanes of dgx-numerics(7), "Folds": 32 threads have the 32 lanes of 2,048
// positions of one output, so that neighbours read neighbours, and put them together as the definition does.
// Where an output has more positions, what its teams leave are the items of the same fold again, until there
// is one. A best number does not depend on the order, if of equal ones the first position counts.

#include "words.h"

#include "dgx/kernels/cuda/device.h"
#include "dgx/kernels/element.h"
#include "dgx/kernels/fold_order.h"
#include "dgx/kernels/primitive_view.h"
#include "elements.cuh"

namespace dgx::kernels::cuda {

inline constexpr unsigned kFoldTeams = 4;  // of a block
inline constexpr unsigned kFoldLanes = kSumLanes;

[[nodiscard]] inline Grid fold_grid(const Fold& fold, std::int64_t items) {
  Grid grid = grid_of(fold.count * fold_blocks(items), kFoldTeams);
  grid.threads = kFoldTeams * kFoldLanes;
  return grid;
}

/// The greater of two; of equal ones, the one that comes first.
__device__ inline FoldPart better_of(NumberType type, const FoldPart& a, const FoldPart& b) {
  if (formula::is_better(type, b.value, a.value)) return b;
  if (formula::is_better(type, a.value, b.value)) return a;
  return b.where < a.where ? b : a;
}

__device__ inline FoldPart joined(Kind kind, NumberType type, const FoldPart& a, const FoldPart& b) {
  if (kind != Kind::kSum) return better_of(type, a, b);
  FoldPart out = a;
  if (type == NumberType::kFloat) {
    out.value.real = a.value.real + b.value.real;
  } else {
    out.value.integer = wrapping_add(a.value.integer, b.value.integer);
  }
  return out;
}

/// Puts the lanes of a team together, and what comes out where it belongs. All threads of a block come here
/// together.
__device__ inline void finish_team(const Fold& fold, NumberType type, const FoldPart& mine, bool exists,
                                   std::int64_t output, std::int64_t block, std::int64_t blocks,
                                   FoldPart* parts) {
  __shared__ FoldPart lanes[kFoldTeams][kFoldLanes];
  FoldPart* const team = lanes[threadIdx.x / kFoldLanes];
  const unsigned lane = threadIdx.x % kFoldLanes;
  team[lane] = mine;
  __syncthreads();
  for (unsigned distance = kFoldLanes / 2; distance > 0; distance /= 2) {
    if (lane < distance) team[lane] = joined(fold.kind, type, team[lane], team[lane + distance]);
    __syncthreads();
  }
  if (lane != 0 || !exists) return;
  if (blocks > 1) {
    parts[output * blocks + block] = team[0];
    return;
  }
  Slot result = team[0].value;
  if (fold.kind == Kind::kArgmax) result.integer = team[0].where;
  store(fold.member, fold.dtype, output, as_stored(fold.dtype, result));
}

/// The first level: items are what the primitive's steps make of the positions.
__global__ void run_fold(Fold fold, FoldPart* parts) {
  const std::int64_t blocks = fold_blocks(fold.fold_count);
  const std::int64_t team = static_cast<std::int64_t>(blockIdx.x) * kFoldTeams + threadIdx.x / kFoldLanes;
  const std::int64_t output = team / blocks, block = team % blocks;
  const bool exists = output < fold.count;
  const PrimitiveView& primitive = view_of(fold.member.primitive);
  const MadeNumbers none{};
  DeviceSource source(fold.member.bindings, none);
  DeviceNumbers numbers;
  ElementEvaluator<PrimitiveView, DeviceNumbers, DeviceSource, 1> evaluator(primitive, source, numbers);
  auto running = evaluator.start();
  if (exists) {
    evaluator.seek(output);
    const std::int64_t end =
        fold.fold_count - block * kSumBlock < kSumBlock ? fold.fold_count : (block + 1) * kSumBlock;
    for (std::int64_t p = block * kSumBlock + threadIdx.x % kFoldLanes; p < end; p += kFoldLanes) {
      evaluator.seek_fold(p);
      evaluator.take(p, running);
    }
  }
  finish_team(fold, fold.type, {running.value, running.where.integer}, exists, output, block, blocks, parts);
}

/// Further levels: items are the parts of the level before, `items` an output.
__global__ void run_fold_parts(Fold fold, const FoldPart* from, std::int64_t items, FoldPart* parts) {
  const std::int64_t blocks = fold_blocks(items);
  const std::int64_t team = static_cast<std::int64_t>(blockIdx.x) * kFoldTeams + threadIdx.x / kFoldLanes;
  const std::int64_t output = team / blocks, block = team % blocks;
  const bool exists = output < fold.count;
  FoldPart mine = fold.start;
  if (exists) {
    const std::int64_t end = items - block * kSumBlock < kSumBlock ? items : (block + 1) * kSumBlock;
    for (std::int64_t n = block * kSumBlock + threadIdx.x % kFoldLanes; n < end; n += kFoldLanes) {
      mine = joined(fold.kind, fold.type, mine, from[output * items + n]);
    }
  }
  finish_team(fold, fold.type, mine, exists, output, block, blocks, parts);
}

}  // namespace dgx::kernels::cuda
