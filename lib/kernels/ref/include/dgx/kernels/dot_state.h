#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include "dgx/core/result.h"
#include "dgx/kernels/compiled.h"
#include "dgx/kernels/fold_order.h"

namespace dgx::kernels {

/// The words of a dot's running state that may differ from +0 after `position` positions, 0 < position < n:
/// they follow from the position alone (dgx-placement(7), "Running states").
struct DotWords {
  bool block = false, group = false, total = false;
  bool operator==(const DotWords&) const = default;
};
[[nodiscard]] constexpr DotWords dot_words_at(std::int64_t position) {
  return {position % kDotBlock != 0, position % kDotGroupPositions >= kDotBlock,
          position >= kDotGroupPositions};
}

/// A dot of which the first `position` positions are done: the definition of dgx-numerics(7), "dot", so
/// written that it can stop anywhere and go on elsewhere. All arithmetic is binary32.
struct DotState {
  std::int64_t position = 0;
  float block = 0;  ///< of the positions since the last multiple of 256
  float group = 0;  ///< of the complete blocks since the last multiple of 4,096
  float total = 0;  ///< of the complete groups

  /// Takes the terms of the next position.
  void take(float a, float b) {
    block = std::fma(a, b, block);
    if (++position % kDotBlock != 0) return;
    group += block;
    block = 0;
    if (position % kDotGroupPositions != 0) return;
    total += group;
    group = 0;
  }
  /// The dot, if no further position comes. With NaN as the processor gives it.
  [[nodiscard]] float end() const {
    const float last = position % kDotBlock != 0 ? group + block : group;
    return position % kDotGroupPositions != 0 ? total + last : total;
  }
};

/// Goes on with elements begin … end−1 of a dot: states[e − begin] takes the terms of all positions of `dot`,
/// which is a part's line, in their order. kMalformed as evaluate_all(); kInternal if it is no dot, the range
/// is not within it, or there are not as many states. Threads may take disjoint ranges at once.
[[nodiscard]] Status resume_dots(const CompiledPrimitive& dot, const ByValue<TensorView>& values,
                                 std::span<DotState> states, std::int64_t begin, std::int64_t end);

/// Element `element` of a dot, or of a chain of f32 or i64, if bit `bit` of its running state is flipped
/// behind `position` positions, above 0 and below those of the fold: of acc, or of the first word of the dot
/// that exists there. A NaN is the canonical one. kMalformed as evaluate_all(); kInternal if there is no such
/// element, position or bit, or the primitive is another. Cost: the element's fold.
[[nodiscard]] Result<Number> flipped_fold(const CompiledPrimitive& primitive,
                                          const ByValue<TensorView>& values, std::int64_t element,
                                          std::int64_t position, int bit);

}  // namespace dgx::kernels
