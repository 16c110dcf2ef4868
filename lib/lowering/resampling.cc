#include "resampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace dgx::lowering {

using kernels::Coordinate;
using kernels::ScalarOp;

namespace {

constexpr std::int64_t kMaxDivisor = 4096;

std::int64_t floor_quotient(std::int64_t a, std::int64_t divisor) {
  return a / divisor - (a % divisor < 0 ? 1 : 0);
}

}  // namespace

// libtorch copies if the sizes are equal, whatever the factor, except by the exact rule.
bool Resampling::is_identity() const { return input == output && rule != Rule::kNearestExact; }

float Resampling::scale() const {
  if (rule == Rule::kLinearAligned)
    return output > 1 ? static_cast<float>(input - 1) / static_cast<float>(output - 1) : 0.0F;
  // libtorch's gradient, and its forward pass of small tensors, take every position once or twice then,
  // whatever the factor. (That of large ones goes by the factor, and does not fit the gradient.)
  const bool repeats = rule == Rule::kNearest && (output == input || output == 2 * input);
  if (factor && *factor > 0 && !repeats) return static_cast<float>(1.0 / *factor);
  return static_cast<float>(input) / static_cast<float>(output);
}

std::int64_t Resampling::position(std::int64_t o, std::int64_t tap) const {
  const auto at = static_cast<float>(o);
  float source = 0;
  switch (rule) {
    case Rule::kNearest: source = at * scale(); break;
    case Rule::kNearestExact:
      source = (at + 0.5F) * scale();  // libtorch computes it in binary64, exactly, and rounds to binary32
      break;
    case Rule::kLinear: source = std::max((at + 0.5F) * scale() - 0.5F, 0.0F); break;
    case Rule::kLinearAligned: source = at * scale(); break;
  }
  return std::min(static_cast<std::int64_t>(source) + tap, input - 1);
}

std::optional<Resampling::Ratio> Resampling::ratio() const {
  if (is_linear()) return std::nullopt;
  const auto fits = [&](const Ratio& candidate) {
    for (std::int64_t o = 0; o < output; ++o) {
      if (candidate.position(o) != position(o, 0)) return false;
    }
    return true;
  };
  const auto of = [&](std::int64_t numerator, std::int64_t denominator) {
    const std::int64_t common = std::gcd(numerator, denominator);
    const Ratio plain{numerator / common, 0, denominator / common};
    if (rule == Rule::kNearest) return plain;
    // ⌊(o + ½) n/d⌋; with an even n no halves are left.
    if (plain.factor % 2 == 0) return Ratio{plain.factor, plain.factor / 2, plain.divisor};
    return Ratio{2 * plain.factor, plain.factor, 2 * plain.divisor};
  };
  if (const Ratio exact = of(input, output); fits(exact)) return exact;
  for (std::int64_t divisor = 1; divisor <= std::min(output, kMaxDivisor); ++divisor) {
    const std::int64_t numerator = std::llround(static_cast<double>(scale()) * static_cast<double>(divisor));
    if (numerator < 1) continue;
    if (const Ratio near = of(numerator, divisor); fits(near)) return near;
  }
  return std::nullopt;
}

TensorForm Resampling::positions(Builder& builder, const std::string& provenance) const {
  LineWriter line(builder, provenance, {output, taps()});
  const Expression o = to_float(line.index(0));
  Expression source = o;
  if (rule == Rule::kNearestExact || rule == Rule::kLinear) source = o + 0.5F;
  source = source * scale();
  if (rule == Rule::kLinear) source = max(source - 0.5F, 0.0F);
  Expression position = to_integer(source);
  if (taps() > 1) position = position + line.index(1);
  return line.finish(DType::kI64, min(position, input - 1));
}

TensorForm Resampling::weights(Builder& builder, const std::string& provenance) const {
  LineWriter line(builder, provenance, {output, taps()});
  const Expression o = to_float(line.index(0));
  const Expression source = rule == Rule::kLinear ? max((o + 0.5F) * scale() - 0.5F, 0.0F) : o * scale();
  const Expression first = to_float(min(to_integer(source), input - 1));
  const Expression second = min(source - first, 1.0F);
  return line.finish(DType::kF32,
                     select(compare(ScalarOp::kEq, line.index(1), std::int64_t{0}), 1.0F - second, second));
}

Coordinate Resampling::Readers::output_at(std::size_t i, std::size_t k) const {
  return floor_divided(affine({output_term(i, factor), fold_term(k, divisor)}, shift), divisor);
}

Expression Resampling::Readers::output(const Expression& i, const Expression& k) const {
  Expression first = factor == 1 ? i : i * factor;
  if (shift != 0) first = first + shift;
  if (divisor != 1) first = step(ScalarOp::kIdiv, {first, divisor});
  return first + k;
}

Resampling::Readers Resampling::readers() const {
  const std::int64_t common = std::gcd(input, output);
  Readers result{output / common, 0, input / common, 1};
  // The least and greatest distance of a position's readers from the quotient.
  std::int64_t first = 0, last = 0;
  bool any = false;
  for (std::int64_t o = 0; o < output; ++o) {
    for (std::int64_t tap = 0; tap < taps(); ++tap) {
      const std::int64_t distance = o - floor_quotient(result.factor * position(o, tap), result.divisor);
      first = any ? std::min(first, distance) : distance;
      last = any ? std::max(last, distance) : distance;
      any = true;
    }
  }
  result.shift = first * result.divisor;
  result.span = last - first + 1;
  return result;
}

}  // namespace dgx::lowering
