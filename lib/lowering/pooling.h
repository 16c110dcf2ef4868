#pragma once

#include <optional>
#include <vector>

#include "line_writer.h"
#include "windows.h"

namespace dgx::lowering {

/// Pooling along one spatial dimension: output o covers the input positions start(o) + dilation·k. For a
/// window, start(o) is stride·o − padding; for an adaptive pool it is ⌊o·input/output⌋, and the last position
/// of o is below ⌈(o+1)·input/output⌉.
class PoolAxis {
 public:
  PoolAxis(std::int64_t input, std::int64_t output, const Window& window)
      : input_(input), output_(output), window_(window) {}
  /// An adaptive pool, which is a window if output divides input.
  PoolAxis(std::int64_t input, std::int64_t output);

  [[nodiscard]] std::int64_t input() const { return input_; }
  [[nodiscard]] std::int64_t output() const { return output_; }
  [[nodiscard]] bool is_adaptive() const { return adaptive_; }
  [[nodiscard]] bool is_disjoint() const { return !adaptive_ && window_.is_disjoint(); }
  [[nodiscard]] const Window& window() const { return window_; }
  /// True if every output covers a position of the input, and not the padding alone.
  [[nodiscard]] bool is_filled() const;
  /// span(): most positions that an output covers. back_span(): number of outputs to look at for those that
  /// cover a position.
  [[nodiscard]] std::int64_t span() const;
  [[nodiscard]] std::int64_t back_span() const;

  /// input_at(): position k of output i. output_at(): candidate k among the outputs that may cover position
  /// i.
  [[nodiscard]] kernels::Coordinate input_at(std::size_t i, std::size_t k) const;
  [[nodiscard]] kernels::Coordinate output_at(std::size_t i, std::size_t k) const;
  /// The one output that may cover position i; for disjoint windows.
  [[nodiscard]] kernels::Coordinate only_output_at(std::size_t i) const;

  /// True if position k belongs to output i; nullopt if every k does.
  [[nodiscard]] std::optional<Expression> covers(const Expression& i, const Expression& k) const;
  /// True if candidate k covers position i; nullopt if output_at() alone decides it.
  [[nodiscard]] std::optional<Expression> is_covered(const Expression& i, const Expression& k) const;
  /// True if position i is in the window of only_output_at(i); nullopt if every position is in one.
  [[nodiscard]] std::optional<Expression> is_in_only(const Expression& i) const;
  /// Position k of output i, as a number.
  [[nodiscard]] Expression position(const Expression& i, const Expression& k) const;

  /// The number of positions that an average divides by: same_count() if it is the same for all outputs, else
  /// nullopt; count() by output.
  [[nodiscard]] std::optional<std::int64_t> same_count(bool with_padding) const;
  [[nodiscard]] Expression count(const Expression& i, bool with_padding) const;

 private:
  [[nodiscard]] std::int64_t count_at(std::int64_t o, bool with_padding) const;

  std::int64_t input_, output_;
  Window window_;
  bool adaptive_ = false;
};

}  // namespace dgx::lowering
