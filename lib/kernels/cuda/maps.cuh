#pragma once

// Fused maps as a program of scalar operations. A thread takes four elements through every operation, so that
// what it costs to find out what is to be done is shared by four, and their numbers lie side by side: a
// register is 16 bytes (32 of integers) of the thread's local memory, which the first-level cache holds.
// Everything is read before anything is written, as elements.cuh says.
//
// All threads of a block do the same, always: both sides of a choice are computed (every operation is total),
// and one is taken.

#include "words.h"

#include "dgx/kernels/cuda/device.h"
#include "dgx/kernels/scalar.h"
#include "dgx/kernels/scalar_formulas.h"
#include "finite.cuh"
#include "functions.cuh"

namespace dgx::kernels::cuda {

inline constexpr unsigned kMapThreads = 128;
inline constexpr int kMapItems = 4;

[[nodiscard]] inline Grid grid_of(const MapProgram& program) {
  Grid grid = grid_of(program.count, kMapThreads * kMapItems);
  grid.threads = kMapThreads;
  return grid;
}

/// A thread's four elements, and its registers.
class MapThread {
 public:
  __device__ explicit MapThread(const MapProgram& program)
      : program_(program),
        first_(static_cast<std::int64_t>(blockIdx.x) * (kMapThreads * kMapItems) + threadIdx.x) {
    for (int j = 0; j < kMapItems; ++j) find_place(j);
  }

  __device__ void run(const MapOperation& operation) {
    switch (operation.form) {
      case MapForm::kLoad: return load(program_.loads[operation.in[0]], operation.out);
      case MapForm::kReal: return real(operation);
      case MapForm::kInteger:
        for (int j = 0; j < kMapItems; ++j)
          integer(operation.out, j) =
              formula::apply_integer(operation.op, integer(operation.in[0], j), integer(operation.in[1], j));
        return;
      case MapForm::kCompareReal:
        for (int j = 0; j < kMapItems; ++j)
          integer(operation.out, j) =
              compare(operation.op, real(operation.in[0], j), real(operation.in[1], j));
        return;
      case MapForm::kCompareInteger:
        for (int j = 0; j < kMapItems; ++j)
          integer(operation.out, j) =
              compare(operation.op, integer(operation.in[0], j), integer(operation.in[1], j));
        return;
      case MapForm::kSelectReal:
        for (int j = 0; j < kMapItems; ++j)
          real(operation.out, j) =
              integer(operation.in[0], j) != 0 ? real(operation.in[1], j) : real(operation.in[2], j);
        return;
      case MapForm::kSelectInteger:
        for (int j = 0; j < kMapItems; ++j)
          integer(operation.out, j) =
              integer(operation.in[0], j) != 0 ? integer(operation.in[1], j) : integer(operation.in[2], j);
        return;
      case MapForm::kFloatOfInteger:
        for (int j = 0; j < kMapItems; ++j) real(operation.out, j) = to_f32(integer(operation.in[0], j));
        return;
      case MapForm::kIntegerOfFloat:
        for (int j = 0; j < kMapItems; ++j) integer(operation.out, j) = to_i64(real(operation.in[0], j));
        return;
      case MapForm::kByteOfInteger:
        for (int j = 0; j < kMapItems; ++j) integer(operation.out, j) = to_u8(integer(operation.in[0], j));
        return;
    }
  }

  __device__ void store(const MapStore& to) {
    for (int j = 0; j < kMapItems; ++j) {
      const std::int64_t e = element(j);
      if (e >= program_.count) return;
      switch (to.dtype) {
        case DType::kF32: {
          const float x = canonical_nan(real(to.in, j));
          static_cast<float*>(to.out)[e] = x;
          if (to.not_finite != nullptr && !is_finite(x)) *to.not_finite = 1;
          break;
        }
        case DType::kI64: static_cast<std::int64_t*>(to.out)[e] = integer(to.in, j); break;
        case DType::kU8:
          static_cast<std::uint8_t*>(to.out)[e] = static_cast<std::uint8_t>(integer(to.in, j));
          break;
      }
    }
  }

 private:
  [[nodiscard]] __device__ std::int64_t element(int j) const {
    return first_ + j * static_cast<std::int64_t>(kMapThreads);
  }
  __device__ float& real(int r, int j) {
    return reals_[static_cast<std::size_t>(r)][static_cast<std::size_t>(j)];
  }
  __device__ std::int64_t& integer(int r, int j) {
    return integers_[static_cast<std::size_t>(r)][static_cast<std::size_t>(j)];
  }

  /// The nest's indices of one element; those beyond the last element stand for it, and are not stored.
  __device__ void find_place(int j) {
    const std::int64_t e = element(j) < program_.count ? element(j) : program_.count - 1;
    auto& index = index_[static_cast<std::size_t>(j)];
    if (program_.count <= 0x7fffffff) {  // half as wide divisions take a quarter of the time
      auto rest = static_cast<std::uint32_t>(e);
      for (int d = program_.dimensions; d-- > 1;) {
        const auto extent = static_cast<std::uint32_t>(program_.extents[static_cast<std::size_t>(d)]);
        index[static_cast<std::size_t>(d)] = rest % extent;
        rest /= extent;
      }
      index[0] = rest;
      return;
    }
    std::int64_t rest = e;
    for (int d = program_.dimensions; d-- > 1;) {
      index[static_cast<std::size_t>(d)] = rest % program_.extents[static_cast<std::size_t>(d)];
      rest /= program_.extents[static_cast<std::size_t>(d)];
    }
    index[0] = rest;
  }

  __device__ void load(const MapLoad& from, int out) {
    for (int j = 0; j < kMapItems; ++j) {
      std::int64_t at = from.base;
      for (int d = 0; d < program_.dimensions; ++d) {
        at += index_[static_cast<std::size_t>(j)][static_cast<std::size_t>(d)] *
              from.strides[static_cast<std::size_t>(d)];
      }
      switch (from.source) {
        case MapSource::kReal: real(out, j) = static_cast<const float*>(from.data)[at]; break;
        case MapSource::kInteger: integer(out, j) = static_cast<const std::int64_t*>(from.data)[at]; break;
        case MapSource::kByte: integer(out, j) = static_cast<const std::uint8_t*>(from.data)[at]; break;
        case MapSource::kPlace: integer(out, j) = at; break;
        case MapSource::kLiteral: real(out, j) = from.literal; break;
      }
    }
  }

  template <ScalarOp kOp>
  __device__ void real_as(const MapOperation& operation) {
    for (int j = 0; j < kMapItems; ++j) {
      real(operation.out, j) = formula::apply_real<DeviceFunctions>(
          kOp, real(operation.in[0], j), real(operation.in[1], j), real(operation.in[2], j));
    }
  }
  __device__ void real(const MapOperation& operation) {
    switch (operation.op) {
      case ScalarOp::kAdd: return real_as<ScalarOp::kAdd>(operation);
      case ScalarOp::kSub: return real_as<ScalarOp::kSub>(operation);
      case ScalarOp::kMul: return real_as<ScalarOp::kMul>(operation);
      case ScalarOp::kDiv: return real_as<ScalarOp::kDiv>(operation);
      case ScalarOp::kFma: return real_as<ScalarOp::kFma>(operation);
      case ScalarOp::kMax: return real_as<ScalarOp::kMax>(operation);
      case ScalarOp::kMin: return real_as<ScalarOp::kMin>(operation);
      case ScalarOp::kSqrt: return real_as<ScalarOp::kSqrt>(operation);
      case ScalarOp::kNeg: return real_as<ScalarOp::kNeg>(operation);
      default: break;
    }
    DGX_NOT_UNROLLED
    for (int j = 0; j < kMapItems; ++j) {
      real(operation.out, j) = formula::apply_real<DeviceFunctions>(
          operation.op, real(operation.in[0], j), real(operation.in[1], j), real(operation.in[2], j));
    }
  }

  const MapProgram& program_;
  std::int64_t first_;
  std::array<std::array<std::int64_t, kMapDimensions>, kMapItems> index_{};
  std::array<std::array<float, kMapItems>, kMapReals> reals_;
  std::array<std::array<std::int64_t, kMapItems>, kMapIntegers> integers_;
};

__global__ void run_maps(MapProgram program) {
  MapThread thread(program);
  for (std::int32_t n = 0; n < program.operation_count; ++n) thread.run(program.operations[n]);
  for (std::int32_t n = 0; n < program.store_count; ++n) thread.store(program.stores[n]);
}

}  // namespace dgx::kernels::cuda
