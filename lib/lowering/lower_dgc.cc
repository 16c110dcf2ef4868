#include "lower_dgc.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "dgx/program/number_text.h"
#include "lower_optimizer.h"
#include "lowering.h"
#include "worker_folds.h"

namespace dgx::lowering {

using kernels::Kind;
using kernels::ScalarOp;
using kernels::ValueIndex;
using program::OptimizerSpec;

namespace {

/// A sample has so many positions, if the tensor has, and one in kMostStride at least.
constexpr std::int64_t kLeastSample = 65'536;
constexpr std::int64_t kMostStride = 100;

/// Counts up to this are exact in floats, whose sums are made fast.
constexpr std::int64_t kMostInFloat = std::int64_t{1} << 24;

constexpr std::int64_t kCandidates = 8;
/// By round: 2^(-j b) for j = 0 … 7, b = 2, 1/4, 1/32, 1/256, each rounded once.
constexpr float kFactors[][kCandidates] = {
    {0x1p0F, 0x1p-2F, 0x1p-4F, 0x1p-6F, 0x1p-8F, 0x1p-10F, 0x1p-12F, 0x1p-14F},
    {0x1p0F, 0x1.ae89fap-1F, 0x1.6a09e6p-1F, 0x1.306fep-1F, 0x1p-1F, 0x1.ae89fap-2F, 0x1.6a09e6p-2F,
     0x1.306fep-2F},
    {0x1p0F, 0x1.f50766p-1F, 0x1.ea4afap-1F, 0x1.dfc974p-1F, 0x1.d5818ep-1F, 0x1.cb720ep-1F, 0x1.c199bep-1F,
     0x1.b7f77p-1F},
    {0x1p0F, 0x1.fe9d96p-1F, 0x1.fd3c22p-1F, 0x1.fbdba4p-1F, 0x1.fa7c18p-1F, 0x1.f91d8p-1F, 0x1.f7bfdap-1F,
     0x1.f66328p-1F}};
/// One candidate further down in the last round.
constexpr float kLastFactor = 0x1.fe9d96p-1F;
/// By quarter of the warm-up.
constexpr double kWarmupDensities[] = {0.25, 0.0625, 0.015625, 0.00390625};

/// The lines of one parameter.
class DgcLines {
 public:
  DgcLines(Builder& builder, const OptimizerSpec& spec, const std::string& name, const TensorForm& gradients)
      : builder_(builder), spec_(spec), provenance_("dgc " + name), gradients_(gradients) {
    workers_ = gradients.shape.front();
    shape_.assign(gradients.shape.begin() + 1, gradients.shape.end());
    elements_ = element_count(shape_).value();
  }

  [[nodiscard]] DgcStep write(const TensorForm& velocity, const TensorForm& residual) {
    const bool has_momentum = spec_.momentum != 0;
    const std::optional<TensorForm> scale = spec_.clip ? std::optional(clip_scale()) : std::nullopt;
    const auto gradient = [&](LineWriter& line) {
      const Expression g = line.read(gradients_);
      return scale ? g * line.read(*scale, {output_index(0)}) : g;
    };
    const TensorForm moved = map([&](LineWriter& line) {
      const Expression g = gradient(line);
      return has_momentum ? fma(static_cast<float>(spec_.momentum), line.read(velocity), g) : g;
    });
    const TensorForm whole = map([&](LineWriter& line) { return line.read(residual) + line.read(moved); });
    const TensorForm bound = threshold(whole);
    const TensorForm sent = map([&](LineWriter& line) {
      const Expression v = line.read(whole);
      const Expression is_sent = compare(ScalarOp::kGe, abs(v), line.read(bound, {output_index(0)}));
      return select(is_sent, spec_.bits == 0 ? v : rounded(v), 0.0F);
    });
    DgcStep out;
    if (has_momentum) {
      out.velocity = map([&](LineWriter& line) {
        return select(compare(ScalarOp::kNe, line.read(sent), 0.0F), 0.0F, line.read(moved));
      });
    }
    out.residual = map([&](LineWriter& line) { return line.read(whole) - line.read(sent); });
    out.update = sum_of_workers(sent);
    return out;
  }

 private:
  template <class Formula>
  [[nodiscard]] TensorForm map(Formula formula) {
    LineWriter line(builder_, provenance_, gradients_.shape);
    return line.finish(DType::kF32, formula(line));
  }

  [[nodiscard]] TensorForm sum_of_workers(const TensorForm& sent) {
    kernels::Primitive sum = sum_of_rows(builder_.append(constant_one()), sent.value, workers_, shape_);
    sum.provenance = provenance_;
    return form_at(builder_, builder_.append(std::move(sum)));
  }

  /// [workers]: the factor by which a gradient becomes as short as its bound.
  [[nodiscard]] TensorForm clip_scale() {
    LineWriter squares(builder_, provenance_, Kind::kSum, {workers_}, shape_.empty() ? Shape{1} : shape_);
    std::vector<kernels::Coordinate> at = {output_index(0)};
    for (std::size_t n = 0; n < shape_.size(); ++n) at.push_back(fold_index(n));
    const Expression g = squares.read(without_splat(builder_, gradients_), at);
    const TensorForm total = squares.finish(DType::kF32, g * g);
    LineWriter line(builder_, provenance_, Shape{workers_});
    const auto bound = static_cast<float>(*spec_.clip / std::sqrt(static_cast<double>(workers_)));
    return line.finish(DType::kF32, min(bound / (sqrt(line.read(total)) + 1e-6F), 1.0F));
  }

  /// [workers]: what is at least as large is sent.
  [[nodiscard]] TensorForm threshold(const TensorForm& whole) {
    const DgcSample sample = dgc_sample(elements_);
    const TensorForm flat = *reshape(whole, {workers_, elements_});
    kernels::Coordinate position = fold_index(0);
    position.terms[0].coefficient = sample.stride;
    const std::vector<kernels::Coordinate> at = {output_index(0), position};

    LineWriter greatest(builder_, provenance_, Kind::kMax, {workers_}, {sample.count});
    TensorForm bound = greatest.finish(DType::kF32, abs(greatest.read(flat, at)));
    const TensorForm wanted = wanted_of(sample.count);
    for (const auto& factors : kFactors) {
      const TensorForm candidates = candidates_of(bound, factors);
      LineWriter counts(builder_, provenance_, Kind::kSum, {workers_, kCandidates}, {sample.count});
      const Expression size = abs(counts.read(flat, at));
      const Expression reaches = compare(ScalarOp::kGe, size, counts.read(candidates));
      const TensorForm counted =
          counts.finish(sample.count <= kMostInFloat ? DType::kF32 : DType::kI64, reaches);
      bound = last_with_too_few(candidates, counted, wanted);
    }
    LineWriter line(builder_, provenance_, Shape{workers_});
    return line.finish(DType::kF32, line.read(bound) * kLastFactor);
  }

  [[nodiscard]] TensorForm candidates_of(const TensorForm& bound, const float (&factors)[kCandidates]) {
    std::vector<std::string> numbers;
    for (const float factor : factors) numbers.push_back(program::hex_float(factor));
    const TensorForm table = form_at(builder_, builder_.constant(DType::kF32, {kCandidates}, numbers));
    LineWriter line(builder_, provenance_, Shape{workers_, kCandidates});
    const Expression from = line.read(bound, {output_index(0)});
    return line.finish(DType::kF32, from * line.read(table, {output_index(1)}));
  }

  [[nodiscard]] TensorForm last_with_too_few(const TensorForm& candidates, const TensorForm& counted,
                                             const TensorForm& wanted) {
    LineWriter line(builder_, provenance_, Kind::kChain, {workers_}, {kCandidates});
    const std::vector<kernels::Coordinate> at = {output_index(0), fold_index(0)};
    const Expression candidate = line.read(candidates, at);
    const Expression first = line.read(candidates, {output_index(0), constant_index(0)});
    const Expression is_too_few = compare(ScalarOp::kLt, line.read(counted, at), line.read(wanted, {}));
    return line.finish_chain(DType::kF32, candidate, is_too_few, first);
  }

  /// i64 []: how many positions of a sample are to reach the threshold in this step.
  [[nodiscard]] TensorForm wanted_of(std::int64_t count) {
    const std::vector<std::int64_t> by_quarter = dgc_wanted(spec_, count);
    LineWriter line(builder_, "dgc density", Shape{});
    Expression wanted = by_quarter.back();
    if (spec_.density_warmup > 0) {
      const ValueIndex counter = builder_.state("step", DType::kI64, {});
      const Expression quarters = line.read(form_at(builder_, counter)) * std::int64_t{4};
      for (std::size_t n = by_quarter.size() - 1; n-- > 0;) {
        const auto end = static_cast<std::int64_t>(n + 1) * spec_.density_warmup;
        wanted = select(compare(ScalarOp::kLt, quarters, end), by_quarter[n], wanted);
      }
    }
    return line.finish(DType::kI64, wanted);
  }

  /// The nearest number of `bits` significant bits: what Dekker's split keeps.
  [[nodiscard]] Expression rounded(const Expression& v) const {
    const Expression x = v * (std::ldexp(1.0F, static_cast<int>(24 - spec_.bits)) + 1.0F);
    return x - (x - v);
  }

  Builder& builder_;
  const OptimizerSpec& spec_;
  std::string provenance_;
  TensorForm gradients_;
  std::int64_t workers_ = 1, elements_ = 1;
  Shape shape_;  ///< the parameter's
};

}  // namespace

DgcSample dgc_sample(std::int64_t elements) {
  DgcSample out;
  out.stride = std::clamp<std::int64_t>(elements / kLeastSample, 1, kMostStride);
  while (std::gcd(out.stride, elements) != 1) --out.stride;
  out.count = (elements + out.stride - 1) / out.stride;
  return out;
}

std::vector<std::int64_t> dgc_wanted(const OptimizerSpec& spec, std::int64_t count) {
  std::vector<std::int64_t> out;
  const auto of_density = [&](double density) {
    const auto least = static_cast<std::int64_t>(std::ceil(density * static_cast<double>(count)));
    out.push_back(std::max<std::int64_t>(least, 1));
  };
  for (const double density : kWarmupDensities) of_density(std::max(density, spec.density));
  of_density(spec.density);
  return out;
}

Status check_dgc(const TrainingRecipe& recipe) {
  if (recipe.optimizer.kind != OptimizerSpec::Kind::kDgc) return {};
  if (recipe.clip_norm)
    return usage_error("dgc: clips the gradients of each worker by itself, not their norm together",
                       "dgc:clip=X instead of --clip-norm X");
  if (recipe.update.accumulate != 1)
    return usage_error("dgc: does not go with --accumulate", "its workers keep what they do not send");
  const std::int64_t workers = recipe.update.workers;
  if (workers < 1 || recipe.batch % workers != 0)
    return usage_error(fmt::format("{} workers do not divide a batch of {}", workers, recipe.batch));
  return {};
}

DgcStep lower_dgc(Builder& builder, const OptimizerSpec& spec, const std::string& name,
                  const TensorForm& gradients, const TensorForm& velocity, const TensorForm& residual) {
  return DgcLines(builder, spec, name, gradients).write(velocity, residual);
}

}  // namespace dgx::lowering
