#include "lower_optimizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "dgx/program/averages.h"
#include "lowering.h"

namespace dgx::lowering {

using kernels::Kind;
using kernels::ScalarOp;
using kernels::ValueIndex;
using program::OptimizerSpec;

namespace {

constexpr const char* kAdamRate = "lr/(1-b1^t)";
constexpr const char* kAdamScale = "1/sqrt(1-b2^t)";

/// Names of the scheduled numbers that the optimiser reads. 1-lr*wd cannot be multiplied by plateau's factor.
std::vector<std::string> schedule_names(const OptimizerSpec& spec, bool has_factor) {
  const char* const decay = has_factor ? kMinusRate : kDecay;
  const bool shrinks = spec.weight_decay != 0;
  switch (spec.kind) {
    case OptimizerSpec::Kind::kSgd:
    case OptimizerSpec::Kind::kRmsProp: return {kMinusRate};
    case OptimizerSpec::Kind::kAdagrad: return {spec.rate_decay == 0 ? kMinusRate : kMinusDecayedRate};
    case OptimizerSpec::Kind::kAdam: return {kAdamRate, kAdamScale};
    case OptimizerSpec::Kind::kAdamW:
      return shrinks ? std::vector<std::string>{kAdamRate, kAdamScale, decay}
                     : std::vector<std::string>{kAdamRate, kAdamScale};
    case OptimizerSpec::Kind::kLion:
    case OptimizerSpec::Kind::kDgc:
      return shrinks ? std::vector<std::string>{kMinusRate, decay} : std::vector<std::string>{kMinusRate};
  }
  return {};
}

/// A rate's name for a group; what does not depend on the rate has one name for all.
std::string name_in_group(const std::string& name, std::size_t group) {
  return group == 0 || name == kAdamScale ? name : fmt::format("{}:{}", name, group);
}

TensorForm sum_of_squares(Builder& builder, const TensorForm& gradient) {
  LineWriter line(builder, "clip norm", Kind::kSum, {}, gradient.shape);
  std::vector<kernels::Coordinate> indices;
  for (std::size_t n = 0; n < gradient.shape.size(); ++n) indices.push_back(fold_index(n));
  const Expression item = line.read(without_splat(builder, gradient), indices);
  return line.finish(DType::kF32, item * item);
}

/// The sum of scalars, added five at a time, so that no line opens more leaves than a referee takes.
TensorForm total_of(Builder& builder, const std::vector<TensorForm>& scalars) {
  TensorForm total = scalars.front();
  for (std::size_t begin = 1; begin < scalars.size(); begin += 5) {
    LineWriter line(builder, "clip norm", Shape{});
    Expression sum = line.read(total);
    for (std::size_t n = begin; n < std::min(begin + 5, scalars.size()); ++n)
      sum = sum + line.read(scalars[n]);
    total = line.finish(DType::kF32, sum);
  }
  return total;
}

}  // namespace

TensorForm form_at(const Builder& builder, ValueIndex value) {
  return value_form(value, builder.values()[value].dtype, builder.values()[value].shape);
}

OptimizerLowering::OptimizerLowering(Builder& builder, const TrainingRecipe& recipe,
                                     const std::optional<TensorForm>& factor)
    : builder_(builder),
      specs_{recipe.optimizer},
      accumulate_(recipe.update.accumulate),
      ema_(recipe.update.ema) {
  const OptimizerSpec& spec = recipe.optimizer;
  for (const program::ParameterGroup& group : recipe.update.groups) {
    specs_.push_back(spec);
    specs_.back().weight_decay = group.weight_decay.value_or(spec.weight_decay);
  }
  if (spec.kind == OptimizerSpec::Kind::kDgc) workers_.emplace(builder, recipe.batch, recipe.update.workers);
  for (std::size_t group = 0; group < specs_.size(); ++group) {
    for (const std::string& name : schedule_names(specs_[group], factor.has_value())) {
      const std::string own = name_in_group(name, group);
      if (std::find(names_.begin(), names_.end(), own) == names_.end()) names_.push_back(own);
    }
  }
  schedule_ = builder.schedule(names_);
  if (factor) {
    LineWriter line(builder, "plateau rates", builder.values()[schedule_].shape);
    const Expression rate = line.read(form_at(builder, schedule_));
    rates_ = line.finish(DType::kF32, rate * line.read(*factor, {}));
  }
  if (accumulate_ == 1) return;
  LineWriter line(builder, "accumulate", Shape{});
  const Expression step_number =
      line.read(value_form(builder.state("step", DType::kI64, {}), DType::kI64, {}));
  const Expression place = step(ScalarOp::kImod, {step_number + std::int64_t{1}, accumulate_});
  updates_ = line.finish(DType::kI64, compare(ScalarOp::kEq, place, std::int64_t{0}));
}

Result<TensorForm> OptimizerLowering::seen(const std::string& name, ValueIndex state,
                                           const TensorForm& gradient) {
  if (workers_) return workers_->of(name, gradient);
  return accumulated(name, state, gradient);
}

TensorForm OptimizerLowering::accumulated(const std::string& name, ValueIndex state,
                                          const TensorForm& gradient) {
  if (accumulate_ == 1) return gradient;
  const std::string provenance = "accumulate " + name;
  const Shape shape = builder_.values()[state].shape;
  const TensorForm fitting = reshaped(builder_, "gradient " + name, gradient, shape);
  const ValueIndex entry = builder_.state("optimizer/gradient/" + name, DType::kF32, shape);
  LineWriter sum(builder_, provenance, shape);
  const Expression before = sum.read(form_at(builder_, entry));
  const auto share = static_cast<float>(1.0 / static_cast<double>(accumulate_));
  const TensorForm mean = sum.finish(DType::kF32, fma(sum.read(fitting), share, before));
  LineWriter line(builder_, provenance, shape);
  const Expression is_update = line.read(updates_);
  builder_.set_next(entry, line.finish(DType::kF32, select(is_update, 0.0F, line.read(mean))).value);
  return mean;
}

void OptimizerLowering::become(ValueIndex entry, const std::string& provenance, const TensorForm& value) {
  if (accumulate_ == 1) return builder_.set_next(entry, value.value);
  LineWriter line(builder_, provenance, value.shape);
  const Expression is_update = line.read(updates_), updated = line.read(value);
  const Expression kept = line.read(form_at(builder_, entry));
  builder_.set_next(entry, line.finish(DType::kF32, select(is_update, updated, kept)).value);
}

Expression OptimizerLowering::scheduled(LineWriter& line, const std::string& name) const {
  const auto at = std::find(names_.begin(), names_.end(), name_in_group(name, group_)) - names_.begin();
  const bool is_rate = name != kAdamScale;
  return line.read(rates_ && is_rate ? *rates_ : form_at(builder_, schedule_), {constant_index(at)});
}

Expression OptimizerLowering::shrunk(LineWriter& line, const Expression& parameter) const {
  if (spec_.weight_decay == 0) return parameter;
  if (!rates_) return parameter * scheduled(line, kDecay);
  return parameter * fma(scheduled(line, kMinusRate), static_cast<float>(spec_.weight_decay), 1.0F);
}

/// The gradient with L2 decay: fma(wd, parameter, gradient).
Expression OptimizerLowering::decayed(LineWriter& line, const TensorForm& gradient,
                                      const TensorForm& parameter) const {
  const Expression g = line.read(gradient);
  if (spec_.weight_decay == 0 || spec_.kind == OptimizerSpec::Kind::kAdamW) return g;
  return fma(static_cast<float>(spec_.weight_decay), line.read(parameter), g);
}

void OptimizerLowering::update(const std::string& name, ValueIndex state, const TensorForm& gradient,
                               std::size_t group) {
  group_ = group;
  spec_ = specs_[group];
  Shape shape = builder_.values()[state].shape;
  if (workers_) shape.insert(shape.begin(), workers_->workers());
  write(name, state, reshaped(builder_, "gradient " + name, gradient, shape));
  if (ema_) average(name, state);
}

void OptimizerLowering::write(const std::string& name, ValueIndex state, const TensorForm& gradient) {
  switch (spec_.kind) {
    case OptimizerSpec::Kind::kSgd: return sgd(name, state, gradient);
    case OptimizerSpec::Kind::kAdam:
    case OptimizerSpec::Kind::kAdamW: return adam(name, state, gradient);
    case OptimizerSpec::Kind::kLion: return lion(name, state, gradient);
    case OptimizerSpec::Kind::kRmsProp: return rmsprop(name, state, gradient);
    case OptimizerSpec::Kind::kAdagrad: return adagrad(name, state, gradient);
    case OptimizerSpec::Kind::kDgc: return dgc(name, state, gradient);
  }
}

/// e' = e + (1−δ)(p' − e), p' the parameter after the update.
void OptimizerLowering::average(const std::string& name, ValueIndex state) {
  const std::string provenance = "ema " + name;
  const TensorForm updated = form_at(builder_, *builder_.values()[state].next);
  const ValueIndex entry =
      builder_.state(std::string(program::kAveragePrefix) + name, DType::kF32, updated.shape);
  LineWriter line(builder_, provenance, updated.shape);
  const Expression e = line.read(form_at(builder_, entry));
  become(entry, provenance,
         line.finish(DType::kF32, fma(static_cast<float>(1 - *ema_), line.read(updated) - e, e)));
}

/// d = g + wd·p; b' = μ·b + d; u = b', or d + μ·b' (Nesterov); p' = p − lr·u.
void OptimizerLowering::sgd(const std::string& name, ValueIndex state, const TensorForm& gradient) {
  const std::string g = "sgd " + name;
  const TensorForm parameter = form_at(builder_, state);
  const auto mu = static_cast<float>(spec_.momentum);
  TensorForm buffer;
  if (spec_.momentum != 0) {
    const ValueIndex entry = builder_.state("optimizer/momentum/" + name, DType::kF32, parameter.shape);
    LineWriter line(builder_, g, parameter.shape);
    const Expression old = line.read(form_at(builder_, entry));
    buffer = line.finish(DType::kF32, fma(mu, old, decayed(line, gradient, parameter)));
    become(entry, g, buffer);
  }
  LineWriter line(builder_, g, parameter.shape);
  const Expression p = line.read(parameter);
  Expression u = 0.0F;
  if (spec_.momentum == 0) {
    u = decayed(line, gradient, parameter);
  } else {
    u = spec_.nesterov ? fma(mu, line.read(buffer), decayed(line, gradient, parameter)) : line.read(buffer);
  }
  become(state, g, line.finish(DType::kF32, fma(scheduled(line, kMinusRate), u, p)));
}

/// m' = m + (1−β₁)(d − m);
/// v' = β₂·v + (1−β₂)·d²;
/// p' = p·(1−lr·wd) (AdamW) − lr/(1−β₁ᵗ) · m' / (√v'/√(1−β₂ᵗ) + ε).
void OptimizerLowering::adam(const std::string& name, ValueIndex state, const TensorForm& gradient) {
  const std::string g = (spec_.kind == OptimizerSpec::Kind::kAdam ? "adam " : "adamw ") + name;
  const TensorForm parameter = form_at(builder_, state);
  const ValueIndex mean_entry = builder_.state("optimizer/exp_avg/" + name, DType::kF32, parameter.shape);
  const ValueIndex square_entry =
      builder_.state("optimizer/exp_avg_sq/" + name, DType::kF32, parameter.shape);

  LineWriter mean_line(builder_, g, parameter.shape);
  const Expression m = mean_line.read(form_at(builder_, mean_entry));
  const Expression step_of_mean = decayed(mean_line, gradient, parameter) - m;
  const TensorForm mean =
      mean_line.finish(DType::kF32, fma(static_cast<float>(1 - spec_.beta1), step_of_mean, m));
  become(mean_entry, g, mean);

  LineWriter square_line(builder_, g, parameter.shape);
  const Expression v = square_line.read(form_at(builder_, square_entry));
  const Expression d = decayed(square_line, gradient, parameter);
  const Expression kept = v * static_cast<float>(spec_.beta2);
  const TensorForm square =
      square_line.finish(DType::kF32, fma(d * d, static_cast<float>(1 - spec_.beta2), kept));
  become(square_entry, g, square);

  LineWriter line(builder_, g, parameter.shape);
  Expression p = line.read(parameter);
  const Expression root = sqrt(line.read(square));
  const Expression denominator = fma(root, scheduled(line, kAdamScale), static_cast<float>(spec_.epsilon));
  const Expression direction = line.read(mean) / denominator;
  if (spec_.kind == OptimizerSpec::Kind::kAdamW) p = shrunk(line, p);
  become(state, g, line.finish(DType::kF32, fma(-scheduled(line, kAdamRate), direction, p)));
}

std::vector<TensorForm> clip_gradients(Builder& builder, const std::vector<TensorForm>& gradients,
                                       double bound) {
  std::vector<TensorForm> squares, clipped;
  for (const TensorForm& gradient : gradients) squares.push_back(sum_of_squares(builder, gradient));
  if (squares.empty()) return {};
  const TensorForm total = total_of(builder, squares);
  LineWriter line(builder, "clip scale", Shape{});
  const Expression norm = sqrt(line.read(total));
  const TensorForm scale = line.finish(DType::kF32, min(static_cast<float>(bound) / (norm + 1e-6F), 1.0F));
  for (const TensorForm& gradient : gradients) {
    LineWriter map(builder, "clip gradient", gradient.shape);
    const Expression item = map.read(gradient);
    clipped.push_back(map.finish(DType::kF32, item * map.read(scale)));
  }
  return clipped;
}

}  // namespace dgx::lowering
