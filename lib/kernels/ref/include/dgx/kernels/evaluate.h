#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dgx/core/result.h"
#include "dgx/core/tensor.h"
#include "dgx/kernels/compiled.h"
#include "dgx/kernels/place.h"

namespace dgx::kernels {

/// The definition of every element of every value (dgx-numerics(7)). All fast forms must give these bits.
///
/// One element of a map is the last step of `do`; without `do` it is what access 0 reads. A step is evaluated
/// at most once, and only if the last step needs it: `select` evaluates its condition, then the branch it
/// takes and not the other. An access computes each coordinate as (Σ coefficient · symbol + constant) in
/// wrapping 64-bit arithmetic, then divides; if the division is exact and leaves a remainder, or any
/// coordinate is outside [0, size), it gives its fill (0 if it has none).
///
/// Folds take their positions in row-major order of `f`, p = 0 … n−1. All additions and fmas below are
/// binary32.
/// - dot: positions are cut into blocks of 256, blocks into groups of 16. A block starts at +0 and takes
///   block = fma(a[p], b[p], block), p ascending. A group starts at +0 and takes group = group + block,
///   blocks ascending. The total starts at +0 and takes total = total + group, groups ascending.
///   n = 0 gives +0.
/// - sum: positions are cut into blocks of 2,048. In a block, 32 lanes start at +0; the block's position p is
///   added to lane p mod 32, p ascending (lane = lane + value). Then for d in 16, 8, 4, 2, 1:
///   lane[l] = lane[l] + lane[l + d] for l = 0 … d−1; lane[0] is the block's result. One block: its result is
///   the sum. Several: their results, in order, are summed by this same rule. n = 0 gives +0. A sum of
///   integers wraps modulo 2^64, whatever the order.
/// - max: best starts at −inf; x' = x + (+0); x' replaces best if it is a NaN and best is not, or if x' is
///   greater. The same with integers, from −2^63, without the addition.
/// - argmax: max, and the position of the last replacement; 0 if there was none. So the lowest index wins
///   ties.
/// - chain: acc starts at init; at every position where `when` is nonzero (or there is no `when`) acc becomes
///   the last step of `do`, without `do` what access 0 reads.
///
/// Storing: an f32 NaN becomes 0x7FC00000; an integer saturates to 0 … 255 in a u8 value.

/// A source of elements of earlier values, for callers that do not have all values in memory. For an element
/// that it lacks, an implementation returns zero and remembers that the evaluation is void.
class ValueSource {
 public:
  virtual ~ValueSource() = default;
  /// Element `index` (row-major) of value `value`: a float for f32, an integer otherwise.
  [[nodiscard]] virtual Number element(ValueIndex value, std::int64_t index) = 0;
  /// Called when an access to `value` is evaluated: its type and shape now count, even if the access gives
  /// its fill.
  virtual void located(ValueIndex /*value*/) {}
};

/// Returns element `element` (row-major, below primitive.count: asserted) as it is stored. Reads only what
/// the selects take.
[[nodiscard]] Number evaluate_element(const CompiledPrimitive& primitive, ValueSource& source,
                                      std::int64_t element);

/// evaluate_element() with all values in memory: values[v] is value v. Entries that no access names may be
/// empty. kMalformed if an accessed value does not have the dtype and count compiled for.
[[nodiscard]] Result<Number> evaluate_element(const CompiledPrimitive& primitive,
                                              const ByValue<TensorView>& values, std::int64_t element);

/// Stores elements begin … end−1 into `out`, which holds the whole value (primitive.count elements of its
/// dtype, row-major, aligned to the element). Threads may fill disjoint ranges at once. The generic path:
/// about 10⁸ scalar operations a second. kMalformed as above; kInternal if `out` does not have the value's
/// size or the range is not within it.
[[nodiscard]] Status evaluate_all(const CompiledPrimitive& primitive, const ByValue<TensorView>& values,
                                  std::span<std::uint8_t> out, std::int64_t begin, std::int64_t end);
/// evaluate_all() into a tensor, which must have the value's dtype and count.
[[nodiscard]] Status evaluate_all(const CompiledPrimitive& primitive, const ByValue<TensorView>& values,
                                  Tensor& out, std::int64_t begin, std::int64_t end);

// Tracing: the scalar operations behind one element.

/// One operand of a scalar operation: its number, and where that comes from.
struct OperandRecord {
  enum class Origin : std::uint8_t {
    kElement,      ///< element `element` of value `value`, read by access `index`
    kFill,         ///< the fill of access `index`: a coordinate was outside
    kStep,         ///< result of step `index` of the same list
    kIndex,        ///< iN, N = `index`
    kFold,         ///< kN, N = `index`
    kAccumulator,  ///< the fold's running result: acc, a block, a group, the total, a lane, the best so far
    kPartial,      ///< a finished part: block or group result, or lane `index`
    kLiteral,
  };
  Origin origin = Origin::kLiteral;
  std::int32_t index = 0;
  ValueIndex value{};
  std::int64_t element = 0;
  Number number;
  bool operator==(const OperandRecord&) const = default;
};

/// One scalar operation that was evaluated.
///
/// `index` is its place in the element's order of evaluation: fold positions ascending; at each position the
/// evaluated steps of `when` in ascending step number, then those of `do`, then what the fold does with the
/// result, with the closing of a block (then group, then level above) straight after the block's last
/// position. A map has one position.
struct ScalarRecord {
  std::int64_t index = 0;
  Place place = Place::kStep;
  std::int32_t step = 0;
  std::int64_t position = 0;
  ScalarOp op = ScalarOp::kAdd;
  std::int32_t operand_count = 0;
  std::array<OperandRecord, 3> operands{};  ///< a select has two: condition and branch taken
  Number result;
  bool operator==(const ScalarRecord&) const = default;
};

/// The outcome of a trace, besides its records.
struct ElementTrace {
  Number result;                ///< as stored
  std::int64_t operations = 0;  ///< number of records
  /// The element's last scalar operation; none for a copy or an empty fold.
  std::optional<ScalarRecord> last;
};

/// Evaluates one element and calls `visit` for every scalar operation behind it, in order; `visit` may be
/// empty.
[[nodiscard]] ElementTrace trace_element(const CompiledPrimitive& primitive, ValueSource& source,
                                         std::int64_t element,
                                         const std::function<void(const ScalarRecord&)>& visit);
[[nodiscard]] Result<ElementTrace> trace_element(const CompiledPrimitive& primitive,
                                                 const ByValue<TensorView>& values, std::int64_t element,
                                                 const std::function<void(const ScalarRecord&)>& visit);

// Counting operations: the price of a value.

/// Scalar operations by kind.
struct OperationCounts {
  std::array<std::int64_t, kScalarOpCount> by_op{};

  [[nodiscard]] std::int64_t operator[](ScalarOp op) const { return by_op[static_cast<std::size_t>(op)]; }
  [[nodiscard]] std::int64_t total() const;
  bool operator==(const OperationCounts&) const = default;
};

/// The operations of the whole value, counted without evaluating: every step of `do` and `when` once per
/// element and position, both branches of a select included, so it is an upper bound that does not depend on
/// data. dot: one fma per position, one add per block, one add per group. sum: one add per position, 31 per
/// block, and the same for the levels above. max and argmax: one add (not for a max that gives integers) and
/// one max (argmax: gt) per position. Inputs and copies count nothing. kMalformed if a count exceeds 2^63 − 1
/// or the shapes are not valid.
[[nodiscard]] Result<OperationCounts> count_operations(const Primitive& primitive);

/// evaluate_all() of a whole value that counts each scalar operation as it is evaluated: as many as
/// trace_element() shows for all elements together. No operation has more than count_operations() gives. Each
/// has exactly as many where every step is evaluated at every position: none that only a select's branch or
/// nothing at all needs, no `when`; and where an argmax compares floats.
[[nodiscard]] Result<OperationCounts> evaluate_and_count(const CompiledPrimitive& primitive,
                                                         const ByValue<TensorView>& values, Tensor& out);

}  // namespace dgx::kernels
