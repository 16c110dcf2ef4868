#pragma once

#include <cstdint>

namespace dgx::kernels::cpu {

/// A run of consecutive terms t of a tile that reads its operands in place (channels_last.h). Element (i, t)
/// of A is at a + i * a_row_stride + t * a_step from the tile's A; lane l of a panel of B is at b + t *
/// b_step + l from the tile's B.
struct WindowRun {
  enum class Rows : std::uint8_t {
    kAll,
    kButFirst,  ///< the first row takes no part
    kButLast,
    kSome,  ///< rows [begin, end); the others multiply zeros instead of A
  };
  std::int64_t a = 0, b = 0;
  std::int64_t count = 0;
  Rows rows = Rows::kAll;
  std::int32_t begin = 0, end = 0;
};

}  // namespace dgx::kernels::cpu
