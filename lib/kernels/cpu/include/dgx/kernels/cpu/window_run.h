#pragma once

#include <cstdint>

namespace dgx::kernels::cpu {

/// Neighbouring k of a tile that reads its operands where they lie (channels_last.h): from the tile's A on,
/// element (i, t) is at a + i * a_row_stride + t * a_step; from its B on, lane l of a strip at b + t * b_step
/// + l.
struct WindowRun {
  enum class Rows : std::uint8_t {
    kAll,
    kButFirst,  ///< the other rows take no part
    kButLast,
    kSome,  ///< rows [begin, end); for the others elements of A are 0
  };
  std::int64_t a = 0, b = 0;
  std::int64_t count = 0;
  Rows rows = Rows::kAll;
  std::int32_t begin = 0, end = 0;
};

}  // namespace dgx::kernels::cpu
