#pragma once

#include <cstdint>
#include <string_view>

namespace dgx::kernels {

/// The part of an element's evaluation that a scalar operation belongs to.
enum class Place : std::uint8_t {
  kStep,        ///< step `step` of `do`, at fold position `position`
  kWhen,        ///< step `step` of `when`, at fold position `position`
  kDotTerm,     ///< the fma of position `position`
  kDotBlock,    ///< group + block number `position`
  kDotGroup,    ///< total + group number `position`
  kSumLane,     ///< lane + item `position` of level `step` (0: fold positions, 1: their blocks' results, …)
  kSumCombine,  ///< lane + lane at the end of block `position` of level `step`
  kMaxOperand,  ///< x + (+0) of position `position`
  kMax,         ///< op max: the greater of x' and best, by the fold's rule
  kArgmax,      ///< op gt: x' against best; the result is the position that is best afterwards
};
[[nodiscard]] std::string_view name_of(Place place);

}  // namespace dgx::kernels
