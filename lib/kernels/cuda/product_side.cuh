#pragma once

// Copies a side of a matrix product to a tile's shared memory.

#include "words.h"

#include "async_copy.cuh"
#include "tile.cuh"

namespace dgx::kernels::cuda {

/// The strides between neighbouring lines and between neighbouring positions of a side.
struct SideStrides {
  std::int64_t line = 0, depth = 0;
};

/// The layout of a side's numbers.
enum class SideForm {
  kAlong,  ///< positions are adjacent, and lines less than 2^22 numbers apart
  kFours,  ///< lines are adjacent, in whole 16-byte aligned fours, and positions less than 2^22 numbers apart
  kAny,    ///< any strides
};

/// Copies a side given by its strides. The threads of a warp take adjacent numbers: 8 positions of 4 lines
/// or, if lines are adjacent, as many lines as there are.
template <class S, SideForm kForm>
class StridedSide {
 public:
  static constexpr bool kHasEdges = true;

  /// Lines from `first` of `lines` in all, positions from `begin`.
  __device__ StridedSide(const float* from, SideStrides strides, std::int64_t first, std::int64_t lines,
                         std::int64_t begin)
      : strides_(strides),
        along_(kForm == SideForm::kAlong ||
               (kForm == SideForm::kAny && magnitude(strides.depth) <= magnitude(strides.line))) {
    if constexpr (kForm == SideForm::kAlong) strides_.depth = 1;
    if constexpr (kForm == SideForm::kFours) strides_.line = 1;
    pitch_ = static_cast<std::uint32_t>(along_ ? strides_.line : strides_.depth) *
             static_cast<std::uint32_t>(sizeof(float));
    const int t = static_cast<int>(threadIdx.x);
    line_ = along_ ? t / kPositions : t % kNeighbours * kAtOnce;
    k_ = along_ ? t % kPositions : t / kNeighbours;
    at_ = from + (first + line_) * strides_.line + (begin + k_) * strides_.depth;
    lines_ = lines - first < S::kLines ? static_cast<int>(lines - first) : S::kLines;
    keep_in_register(pitch_);
  }

  __device__ void start() {}
  __device__ void started() {}
  __device__ void begin_block() {}

  /// The offset, in numbers, of this thread's share of a buffer.
  [[nodiscard]] __device__ int share() const { return k_ * S::kPitch + line_; }
  [[nodiscard]] __device__ bool has_all_lines() const { return lines_ == S::kLines; }

  template <bool kIsWhole>
  __device__ void copy(SharedPlace to, [[maybe_unused]] int positions) {
    if (along_) {
      DGX_UNROLL
      for (int line = 0; line < S::kLines; line += kLineStep) {
        const float* const from = moved(line, strides_.line);
        DGX_UNROLL
        for (int k = 0; k < kTileStep; k += kPositions)
          copy_one<kIsWhole>(to, line, k, positions, from + k * strides_.depth);
      }
    } else {
      DGX_UNROLL
      for (int k = 0; k < kTileStep; k += kStep) {
        const float* const from = moved(k, strides_.depth);
        DGX_UNROLL
        for (int line = 0; line < S::kLines; line += kNeighbours * kAtOnce)
          copy_one<kIsWhole>(to, line, k, positions, from + line * strides_.line);
      }
    }
    if constexpr (kForm == SideForm::kFours) {
      at_ = moved(kTileStep, strides_.depth);
    } else {
      at_ += kTileStep * strides_.depth;
    }
  }

 private:
  static constexpr int kAtOnce = kForm == SideForm::kFours ? 4 : 1;
  // Along the depth: kPositions threads side by side, and kLineStep lines at a time.
  static constexpr int kPositions = 8, kLineStep = S::kThreads / kPositions;
  // Along the lines: kNeighbours threads side by side, and kStep positions at a time.
  static constexpr int kNeighbours = S::kLines / kAtOnce < S::kThreads ? S::kLines / kAtOnce : S::kThreads,
                       kStep = S::kThreads / kNeighbours;
  static_assert(S::kLines % kLineStep == 0 && S::kLoads % kAtOnce == 0 && kTileStep % kStep == 0);

  __device__ static std::int64_t magnitude(std::int64_t stride) { return stride < 0 ? -stride : stride; }

  [[nodiscard]] __device__ const float* moved(int count, std::int64_t stride) const {
    if constexpr (kForm == SideForm::kAny) return at_ + count * stride;
    return reinterpret_cast<const float*>(reinterpret_cast<const char*>(at_) +
                                          static_cast<std::uint32_t>(count) * pitch_);
  }
  template <bool kIsWhole>
  __device__ void copy_one(SharedPlace to, int line, int k, int positions, const float* from) const {
    copy_async<kAtOnce>(to, k * S::kPitch + line, from,
                        kIsWhole || (line_ + line < lines_ && k_ + k < positions));
  }

  SideStrides strides_;
  bool along_;
  const float* at_;
  std::uint32_t pitch_;  // bytes from line to line if along the depth, else from position to position
  int line_, k_;
  int lines_;  // lines of the tile that exist
};

}  // namespace dgx::kernels::cuda
