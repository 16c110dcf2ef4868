#pragma once

#include <optional>
#include <vector>

#include "line_writer.h"
#include "windows.h"

namespace dgx::program {

/// How one spatial dimension is pooled: output o covers the input positions start(o) + dilation·k. With a
/// window start is stride·o − padding; adaptively it is ⌊o·input/output⌋, and the last position of o is below
/// ⌈(o+1)·input/output⌉.
class PoolAxis {
 public:
  PoolAxis(std::int64_t input, std::int64_t output, const Window& window)
      : input_(input), output_(output), window_(window) {}
  /// Adaptive. Where output divides input this is a window.
  PoolAxis(std::int64_t input, std::int64_t output);

  [[nodiscard]] std::int64_t input() const { return input_; }
  [[nodiscard]] std::int64_t output() const { return output_; }
  [[nodiscard]] bool is_adaptive() const { return adaptive_; }
  [[nodiscard]] bool is_disjoint() const { return !adaptive_ && window_.is_disjoint(); }
  [[nodiscard]] const Window& window() const { return window_; }
  /// Whether every output covers a position of the input, and not the padding alone.
  [[nodiscard]] bool is_filled() const;
  /// How many positions an output covers, at most; how many outputs to look at for those that cover a
  /// position.
  [[nodiscard]] std::int64_t span() const;
  [[nodiscard]] std::int64_t back_span() const;

  /// Position k of output i, and candidate k among the outputs that may cover position i.
  [[nodiscard]] kernels::Coordinate input_at(std::size_t i, std::size_t k) const;
  [[nodiscard]] kernels::Coordinate output_at(std::size_t i, std::size_t k) const;
  /// The one output that may cover position i; for disjoint windows.
  [[nodiscard]] kernels::Coordinate only_output_at(std::size_t i) const;

  /// Whether position k belongs to output i, where not every k does.
  [[nodiscard]] std::optional<Expression> covers(const Expression& i, const Expression& k) const;
  /// Whether candidate k covers position i, where input_at does not say it.
  [[nodiscard]] std::optional<Expression> is_covered(const Expression& i, const Expression& k) const;
  /// Whether position i is in the window of only_output_at, where not every position is in one.
  [[nodiscard]] std::optional<Expression> is_in_only(const Expression& i) const;
  /// The position of k, as a number.
  [[nodiscard]] Expression position(const Expression& i, const Expression& k) const;

  /// How many positions an average divides by: the same for all outputs, or by output.
  [[nodiscard]] std::optional<std::int64_t> same_count(bool with_padding) const;
  [[nodiscard]] Expression count(const Expression& i, bool with_padding) const;

 private:
  [[nodiscard]] std::int64_t count_at(std::int64_t o, bool with_padding) const;

  std::int64_t input_, output_;
  Window window_;
  bool adaptive_ = false;
};

}  // namespace dgx::program
