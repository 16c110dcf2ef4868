#include "lower_dgc.h"
#include "lower_optimizer.h"
#include "lowering.h"

namespace dgx::lowering {

using kernels::ScalarOp;
using kernels::ValueIndex;

/// c = m + (1−β₁)(g − m);
/// m' = m + (1−β₂)(g − m);
/// p' = p·(1−lr·wd) − lr·sign(c).
void OptimizerLowering::lion(const std::string& name, ValueIndex state, const TensorForm& gradient) {
  const std::string g = "lion " + name;
  const TensorForm parameter = form_at(builder_, state);
  const ValueIndex entry = builder_.state("optimizer/exp_avg/" + name, DType::kF32, parameter.shape);
  const auto moved = [&](LineWriter& line, double beta) {
    const Expression m = line.read(form_at(builder_, entry));
    return fma(static_cast<float>(1 - beta), line.read(gradient) - m, m);
  };

  LineWriter mean(builder_, g, parameter.shape);
  become(entry, g, mean.finish(DType::kF32, moved(mean, spec_.beta2)));

  LineWriter line(builder_, g, parameter.shape);
  const Expression p = shrunk(line, line.read(parameter));
  const Expression c = moved(line, spec_.beta1);
  const Expression direction =
      to_float(compare(ScalarOp::kGt, c, 0.0F)) - to_float(compare(ScalarOp::kLt, c, 0.0F));
  become(state, g, line.finish(DType::kF32, fma(scheduled(line, kMinusRate), direction, p)));
}

/// v' = α·v + (1−α)·d²;  a' = a + (1−α)(d − a) (centered);
/// q = d / (√(v' − a'²) + ε);  b' = μ·b + q;
/// p' = p − lr·b', or p − lr·q without momentum.
void OptimizerLowering::rmsprop(const std::string& name, ValueIndex state, const TensorForm& gradient) {
  const std::string g = "rmsprop " + name;
  const TensorForm parameter = form_at(builder_, state);
  const Shape& shape = parameter.shape;
  const auto entry_of = [&](const char* kind) {
    return builder_.state(std::string("optimizer/") + kind + "/" + name, DType::kF32, shape);
  };
  const auto kept = static_cast<float>(spec_.alpha), taken = static_cast<float>(1 - spec_.alpha);

  const ValueIndex square_entry = entry_of("square_avg");
  LineWriter square_line(builder_, g, shape);
  const Expression v = square_line.read(form_at(builder_, square_entry));
  const Expression d = decayed(square_line, gradient, parameter);
  const TensorForm square = square_line.finish(DType::kF32, fma(d * d, taken, v * kept));
  become(square_entry, g, square);

  std::optional<TensorForm> mean;
  if (spec_.centered) {
    const ValueIndex mean_entry = entry_of("grad_avg");
    LineWriter mean_line(builder_, g, shape);
    const Expression a = mean_line.read(form_at(builder_, mean_entry));
    const Expression away = decayed(mean_line, gradient, parameter) - a;
    mean = mean_line.finish(DType::kF32, fma(taken, away, a));
    become(mean_entry, g, *mean);
  }

  const auto quotient = [&](LineWriter& line) {
    Expression spread = line.read(square);
    if (mean) {
      const Expression a = line.read(*mean);
      spread = max(fma(-a, a, spread), 0.0F);
    }
    return decayed(line, gradient, parameter) / (sqrt(spread) + static_cast<float>(spec_.epsilon));
  };
  TensorForm buffer;
  if (spec_.momentum != 0) {
    const ValueIndex entry = entry_of("momentum");
    LineWriter line(builder_, g, shape);
    const Expression old = line.read(form_at(builder_, entry));
    buffer = line.finish(DType::kF32, fma(static_cast<float>(spec_.momentum), old, quotient(line)));
    become(entry, g, buffer);
  }
  LineWriter line(builder_, g, shape);
  const Expression p = line.read(parameter);
  const Expression u = spec_.momentum != 0 ? line.read(buffer) : quotient(line);
  become(state, g, line.finish(DType::kF32, fma(scheduled(line, kMinusRate), u, p)));
}

/// a' = a + d²;  p' = p − lr/(1 + s·lr_decay) · d / (√(a' + initial) + ε), s the step.
void OptimizerLowering::adagrad(const std::string& name, ValueIndex state, const TensorForm& gradient) {
  const std::string g = "adagrad " + name;
  const TensorForm parameter = form_at(builder_, state);
  const ValueIndex entry = builder_.state("optimizer/sum/" + name, DType::kF32, parameter.shape);
  LineWriter sum_line(builder_, g, parameter.shape);
  const Expression a = sum_line.read(form_at(builder_, entry));
  const Expression d = decayed(sum_line, gradient, parameter);
  const TensorForm sum = sum_line.finish(DType::kF32, fma(d, d, a));
  become(entry, g, sum);

  LineWriter line(builder_, g, parameter.shape);
  const Expression p = line.read(parameter);
  Expression total = line.read(sum);
  if (spec_.initial != 0) total = total + static_cast<float>(spec_.initial);
  const Expression q = decayed(line, gradient, parameter) / (sqrt(total) + static_cast<float>(spec_.epsilon));
  const Expression rate = scheduled(line, spec_.rate_decay == 0 ? kMinusRate : kMinusDecayedRate);
  become(state, g, line.finish(DType::kF32, fma(rate, q, p)));
}

/// p' = p·(1−lr·wd) − lr·Σ s, s what the workers send.
void OptimizerLowering::dgc(const std::string& name, ValueIndex state, const TensorForm& gradients) {
  const TensorForm parameter = form_at(builder_, state);
  const auto entry_of = [&](const char* kind) {
    return builder_.state(std::string("optimizer/") + kind + "/" + name, DType::kF32, gradients.shape);
  };
  const ValueIndex residual = entry_of("residual");
  const ValueIndex velocity = spec_.momentum != 0 ? entry_of("velocity") : residual;
  const DgcStep next =
      lower_dgc(builder_, spec_, name, gradients, form_at(builder_, velocity), form_at(builder_, residual));
  if (spec_.momentum != 0) builder_.set_next(velocity, next.velocity.value);
  builder_.set_next(residual, next.residual.value);
  LineWriter line(builder_, "dgc " + name, parameter.shape);
  const Expression p = shrunk(line, line.read(parameter));
  const Expression step_of_all = line.read(next.update);
  become(state, "dgc " + name, line.finish(DType::kF32, fma(scheduled(line, kMinusRate), step_of_all, p)));
}

}  // namespace dgx::lowering
