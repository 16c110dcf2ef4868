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

/// The type of running results: float or integer. An argmax's is its terms'.
[[nodiscard]] NumberType running_type(const CompiledPrimitive& primitive);

/// What the fold of an element starts from: +0 or 0 (a dot's block, a sum's lane); minus infinity or −2^63; a
/// chain's init as read.
[[nodiscard]] Running fold_start(const CompiledPrimitive& primitive, ValueSource& source,
                                 std::int64_t element);

/// What one position does.
struct PositionTrace {
  Running after;
  /// The position's last scalar operation, with its index among those of the position (from 0): a dot's fma,
  /// the addition to the lane, the comparison, the last step of `do`, or of `when` if that says no. None
  /// where nothing is computed.
  std::optional<ScalarRecord> last;
};

/// The running result after `position` from that before it: of a dot's block after the fma; of a sum's lane
/// after the addition; the best; acc, which `when` may keep. Of `before` only what the fold's kind has is
/// looked at.
[[nodiscard]] PositionTrace trace_position(const CompiledPrimitive& primitive, ValueSource& source,
                                           std::int64_t element, std::int64_t position,
                                           const Running& before);

/// The running results after each of the positions begin … end−1, from values in memory; `before` is that
/// before `begin`. Where a dot's block of 256 begins after `begin`, its running result begins at +0. Of a
/// sum, the result of the position's own lane; lanes start at +0 where a block of 2,048 begins, and `begin`
/// must be such a place; `before` does not count. kMalformed as evaluate_element; kInternal if the range is
/// not the fold's, or a sum's begins within a block.
[[nodiscard]] Result<std::vector<Running>> running_results(const CompiledPrimitive& primitive,
                                                           std::span<const TensorView> values,
                                                           std::int64_t element, std::int64_t begin,
                                                           std::int64_t end, const Running& before);

/// A sum's block from its lanes.
struct LaneSum {
  Number result;
  /// Lane 0 + lane 1, number 30 of the 31 additions. Its level and block are not known here and given as 0.
  ScalarRecord last;
};
/// The 32 lanes combined at distance 16, 8, 4, 2, 1.
[[nodiscard]] LaneSum combine_lanes(NumberType type, std::span<const Number, 32> lanes);

}  // namespace dgx::kernels
