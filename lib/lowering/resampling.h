#pragma once

#include <optional>
#include <string>
#include <vector>

#include "line_writer.h"
#include "windows.h"

namespace dgx::lowering {

/// Resampling along one spatial dimension: the input positions (taps) that an output reads and their weights,
/// by libtorch's formulas in binary32.
struct Resampling {
  enum class Rule { kNearest, kNearestExact, kLinear, kLinearAligned };

  Rule rule = Rule::kNearest;
  std::int64_t input = 1, output = 1;
  std::optional<double> factor = {};  ///< output/input as the model states it

  [[nodiscard]] bool is_linear() const { return rule == Rule::kLinear || rule == Rule::kLinearAligned; }
  [[nodiscard]] std::int64_t taps() const { return is_linear() ? 2 : 1; }
  /// True if the output is a copy of the input.
  [[nodiscard]] bool is_identity() const;
  /// The distance, in input positions, between two outputs, in binary32 as libtorch computes it.
  [[nodiscard]] float scale() const;
  /// The input position of tap `tap` of output o.
  [[nodiscard]] std::int64_t position(std::int64_t o, std::int64_t tap) const;

  /// Integers with position(o, 0) = ⌊(factor·o + shift) / divisor⌋ for every output; ratio() is nullopt if
  /// there are none.
  struct Ratio {
    std::int64_t factor = 1, shift = 0, divisor = 1;
    [[nodiscard]] std::int64_t position(std::int64_t o) const { return (factor * o + shift) / divisor; }
  };
  [[nodiscard]] std::optional<Ratio> ratio() const;

  /// positions(): i64 [output, taps]. weights(): f32 of the same shape.
  [[nodiscard]] TensorForm positions(Builder& builder, const std::string& provenance) const;
  [[nodiscard]] TensorForm weights(Builder& builder, const std::string& provenance) const;

  /// The outputs that may read position i: first(i) + k for k < span, first(i) = ⌊(factor·i + shift) /
  /// divisor⌋.
  struct Readers {
    std::int64_t factor = 1, shift = 0, divisor = 1, span = 1;
    /// The candidate with fold index `k`, for the position with index `i`.
    [[nodiscard]] kernels::Coordinate output_at(std::size_t i, std::size_t k) const;
    [[nodiscard]] Expression output(const Expression& i, const Expression& k) const;
  };
  [[nodiscard]] Readers readers() const;
};

}  // namespace dgx::lowering
