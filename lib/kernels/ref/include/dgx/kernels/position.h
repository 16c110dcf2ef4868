#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "dgx/core/result.h"
#include "dgx/core/tensor.h"
#include "dgx/kernels/evaluate.h"

namespace dgx::kernels {

/// One position of a fold evaluated alone, from the running result before it: what the parties to a dispute
/// and its referee recompute (dgx-dispute(7), "Numbers"). The formulas are evaluate_element's own. Nothing
/// here costs more than the positions asked for, however long the fold. Elements and positions must be within
/// the primitive's: asserted.

/// A fold's running result: a dot's block, a sum's lane, the best so far and where it is, acc. Its number has
/// the type that the fold computes in (running_type); integers have 64 bits, also where the value is u8, and
/// a NaN is the canonical one.
struct Running {
  Number value;
  std::int64_t where = 0;  ///< max and argmax: the position of the last replacement
  bool operator==(const Running&) const = default;
};

/// The type of running results: float or integer. For an argmax it is the type of the terms.
[[nodiscard]] NumberType running_type(const CompiledPrimitive& primitive);

/// The running result before the first position of an element's fold: +0 or 0 (a dot's block, a sum's lane);
/// minus infinity or −2^63 (max, argmax); a chain's init as read.
[[nodiscard]] Running fold_start(const CompiledPrimitive& primitive, ValueSource& source,
                                 std::int64_t element);

/// The effect of one position.
struct PositionTrace {
  Running after;
  /// The position's last scalar operation, with its index among those of the position (from 0): a dot's fma,
  /// the addition to the lane, the comparison, the last step of `do`, or of `when` if that gives 0. None if
  /// nothing is computed.
  std::optional<ScalarRecord> last;
};

/// Computes the running result after `position` from the one before it: a dot's block after the fma, a sum's
/// lane after the addition, the best, or acc, which `when` may keep. Of `before` only the members that the
/// fold's kind has are read.
[[nodiscard]] PositionTrace trace_position(const CompiledPrimitive& primitive, ValueSource& source,
                                           std::int64_t element, std::int64_t position,
                                           const Running& before);

/// The running results after each of the positions begin … end−1, from values in memory; `before` is the one
/// before `begin`. A dot's running result restarts at +0 where a block of 256 begins after `begin`. For a sum
/// each result is that of the position's own lane; lanes start at +0 where a block of 2,048 begins, `begin`
/// must be such a position, and `before` is ignored. kMalformed as for evaluate_element; kInternal if the
/// range is not within the fold, or a sum's begins within a block.
[[nodiscard]] Result<std::vector<Running>> running_results(const CompiledPrimitive& primitive,
                                                           const ByValue<TensorView>& values,
                                                           std::int64_t element, std::int64_t begin,
                                                           std::int64_t end, const Running& before);

/// The result of a sum's block from its lanes.
struct LaneSum {
  Number result;
  /// Lane 0 + lane 1, number 30 of the 31 additions. Its level and block are not known here and are 0.
  ScalarRecord last;
};
/// Combines the 32 lanes at distance 16, 8, 4, 2, 1.
[[nodiscard]] LaneSum combine_lanes(NumberType type, std::span<const Number, 32> lanes);

}  // namespace dgx::kernels
