#include "pooling.h"

#include <algorithm>

namespace dgx::lowering {

using kernels::Coordinate;
using kernels::ScalarOp;

namespace {

Expression times(const Expression& a, std::int64_t factor) { return factor == 1 ? a : a * factor; }
Expression plus(const Expression& a, std::int64_t term) { return term == 0 ? a : a + term; }
Expression quotient(const Expression& a, std::int64_t divisor) {
  return divisor == 1 ? a : step(ScalarOp::kIdiv, {a, divisor});
}
std::int64_t rounded_up(std::int64_t a, std::int64_t divisor) { return (a + divisor - 1) / divisor; }

}  // namespace

PoolAxis::PoolAxis(std::int64_t input, std::int64_t output) : input_(input), output_(output) {
  adaptive_ = input % output != 0;
  if (!adaptive_) window_ = {input / output, input / output, 0, 1};
}

bool PoolAxis::is_filled() const {
  for (std::int64_t o = 0; o < output_ && !adaptive_; ++o) {
    const std::int64_t start = window_.stride * o - window_.padding;
    // The first of the window's positions that is not before the input.
    const std::int64_t skipped = start < 0 ? rounded_up(-start, window_.dilation) : 0;
    if (skipped >= window_.size || start + skipped * window_.dilation >= input_) return false;
  }
  return true;
}

std::int64_t PoolAxis::span() const {
  if (!adaptive_) return window_.size;
  std::int64_t most = 1;
  for (std::int64_t o = 0; o < output_; ++o) most = std::max(most, count_at(o, false));
  return most;
}

std::int64_t PoolAxis::back_span() const {
  if (!adaptive_) return window_.size;
  std::int64_t most = 1;
  for (std::int64_t i = 0; i < input_; ++i)
    most = std::max(most, rounded_up((i + 1) * output_, input_) - i * output_ / input_);
  return most;
}

Coordinate PoolAxis::input_at(std::size_t i, std::size_t k) const {
  if (!adaptive_) return window_.position(output_term(i), fold_term(k));
  return floor_divided(affine({output_term(i, input_), fold_term(k, output_)}, 0), output_);
}

Coordinate PoolAxis::output_at(std::size_t i, std::size_t k) const {
  if (!adaptive_) return window_.output_of(i, k);
  return floor_divided(affine({output_term(i, output_), fold_term(k, input_)}, 0), input_);
}

Coordinate PoolAxis::only_output_at(std::size_t i) const {
  return floor_divided(affine({output_term(i)}, window_.padding), window_.stride);
}

std::optional<Expression> PoolAxis::covers(const Expression& i, const Expression& k) const {
  if (!adaptive_) return std::nullopt;
  return compare(ScalarOp::kLt, k, count(i, false));
}

std::optional<Expression> PoolAxis::is_covered(const Expression& i, const Expression& k) const {
  if (!adaptive_) return std::nullopt;
  const Expression first = times(quotient(times(i, output_), input_) + k, input_);
  const Expression starts = compare(ScalarOp::kLe, quotient(first, output_), i);
  const Expression ends = compare(ScalarOp::kGt, quotient(first + (input_ + output_ - 1), output_), i);
  return step(ScalarOp::kAnd, {starts, ends});
}

std::optional<Expression> PoolAxis::is_in_only(const Expression& i) const {
  if (window_.size == window_.stride) return std::nullopt;
  const Expression offset = step(ScalarOp::kImod, {plus(i, window_.padding), window_.stride});
  return compare(ScalarOp::kLt, offset, window_.size);
}

Expression PoolAxis::position(const Expression& i, const Expression& k) const {
  if (adaptive_) return quotient(times(i, input_), output_) + k;
  return plus(times(i, window_.stride) + times(k, window_.dilation), -window_.padding);
}

std::optional<std::int64_t> PoolAxis::same_count(bool with_padding) const {
  const std::int64_t first = count_at(0, with_padding);
  for (std::int64_t o = 1; o < output_; ++o) {
    if (count_at(o, with_padding) != first) return std::nullopt;
  }
  return first;
}

Expression PoolAxis::count(const Expression& i, bool with_padding) const {
  if (adaptive_) {
    const Expression start = times(i, input_);
    return quotient(start + (input_ + output_ - 1), output_) - quotient(start, output_);
  }
  const Expression start = plus(times(i, window_.stride), -window_.padding);
  const Expression end = min(start + window_.size, input_ + (with_padding ? window_.padding : 0));
  return end - (with_padding ? start : max(start, std::int64_t{0}));
}

std::int64_t PoolAxis::count_at(std::int64_t o, bool with_padding) const {
  if (adaptive_) return rounded_up((o + 1) * input_, output_) - o * input_ / output_;
  const std::int64_t start = window_.stride * o - window_.padding;
  const std::int64_t end = std::min(start + window_.size, input_ + (with_padding ? window_.padding : 0));
  return end - (with_padding ? start : std::max(start, std::int64_t{0}));
}

}  // namespace dgx::lowering
