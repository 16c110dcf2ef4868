#pragma once

#include <cstddef>
#include <cstdint>

namespace dgx::kernels {

/// The sizes into which folds are cut (dgx-numerics(7), "Folds").
inline constexpr std::int64_t kDotBlock = 256;       ///< positions of a block
inline constexpr std::int64_t kDotGroupBlocks = 16;  ///< blocks of a group
inline constexpr std::int64_t kDotGroupPositions = kDotGroupBlocks * kDotBlock;
inline constexpr std::int64_t kSumBlock = 2048;  ///< items of a block, at every level
inline constexpr std::size_t kSumLanes = 32;

}  // namespace dgx::kernels
