#pragma once

#include <optional>
#include <string>
#include <vector>

#include "line_writer.h"
#include "windows.h"

namespace dgx::program {

/// How one spatial dimension is resampled: which input positions (taps) an output reads and with what
/// weights, by libtorch's formulas in binary32.
struct Resampling {
  enum class Rule { kNearest, kNearestExact, kLinear, kLinearAligned };

  Rule rule = Rule::kNearest;
  std::int64_t input = 1, output = 1;
  std::optional<double> factor = {};  ///< output/input as the model says it

  [[nodiscard]] bool is_linear() const { return rule == Rule::kLinear || rule == Rule::kLinearAligned; }
  [[nodiscard]] std::int64_t taps() const { return is_linear() ? 2 : 1; }
  [[nodiscard]] bool is_identity() const;
  [[nodiscard]] float scale() const;
  /// The input position of tap `tap` of output o.
  [[nodiscard]] std::int64_t position(std::int64_t o, std::int64_t tap) const;

  /// position(o, 0) = ⌊(factor·o + shift) / divisor⌋ for every output, where there are such integers.
  struct Ratio {
    std::int64_t factor = 1, shift = 0, divisor = 1;
    [[nodiscard]] std::int64_t position(std::int64_t o) const { return (factor * o + shift) / divisor; }
  };
  [[nodiscard]] std::optional<Ratio> ratio() const;

  /// i64 [output, taps]: the positions; f32 of the same shape: their weights.
  [[nodiscard]] TensorForm positions(Builder& builder, const std::string& provenance) const;
  [[nodiscard]] TensorForm weights(Builder& builder, const std::string& provenance) const;

  /// The outputs that may read position i: first(i) + k, k below span, first being a quotient.
  struct Readers {
    std::int64_t factor = 1, shift = 0, divisor = 1, span = 1;
    /// Of the position with index `i` and the candidate with fold index `k`.
    [[nodiscard]] kernels::Coordinate output_at(std::size_t i, std::size_t k) const;
    [[nodiscard]] Expression output(const Expression& i, const Expression& k) const;
  };
  [[nodiscard]] Readers readers() const;
};

}  // namespace dgx::program
