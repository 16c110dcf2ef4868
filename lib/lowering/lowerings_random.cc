#include "pointwise.h"

namespace dgx::lowering {

using kernels::ScalarOp;

namespace {

/// A map over the call's result with fresh uniform numbers in [0, 1).
class RandomMap {
 public:
  explicit RandomMap(Call& call)
      : call_(call), line_(call.builder(), call.provenance(), call.result_shape()) {
    call.require(call.result_dtype() == DType::kF32 || call.result_dtype() == DType::kI64, "random bytes");
  }
  Expression uniform() {
    const auto& shape = call_.result_shape();
    return line_.read(value_form(call_.builder().uniform(shape), DType::kF32, shape));
  }
  Expression read(const TensorForm& form) {
    const bool fits =
        call_.require(broadcasts(form.shape, call_.result_shape()), "shapes that do not broadcast");
    return line_.read(fits ? form : splat_form(DType::kF32, {}, 0.0F));
  }
  void out(const Expression& result) { call_.give(line_, result); }

  /// Standard normal numbers by Box and Muller: sqrt(-2 log(u + 2^-24)) cos(2 pi v), of two inputs.
  Expression normal() {
    const Expression u = uniform() + 0x1p-24F;  // exact, in (0, 1]
    const Expression radius = sqrt(-2.0F * log(u));
    return radius * cos(0x1.921fb6p+2F * uniform());
  }

 private:
  Call& call_;
  LineWriter line_;
};

/// 1 where u < p: dropout's mask.
void bernoulli(Call& call) {
  const TensorForm probability = call.given("p") ? call.number_or_tensor("p") : call.tensor("self");
  if (!call.ok()) return;
  RandomMap map(call);
  if (call.ok()) map.out(to_float(compare(ScalarOp::kLt, map.uniform(), map.read(probability))));
}

void rand(Call& call) {
  RandomMap map(call);
  if (call.ok()) map.out(map.uniform());
}

/// from + (to − from) u.
void uniform(Call& call) {
  const double from = call.number("from", 0), to = call.number("to", 1);
  RandomMap map(call);
  if (call.ok()) map.out(fma(map.uniform(), static_cast<float>(to - from), static_cast<float>(from)));
}

void randn(Call& call) {
  RandomMap map(call);
  if (call.ok()) map.out(map.normal());
}

/// mean + std · normal.
void normal(Call& call) {
  const TensorForm mean =
      call.given("mean") ? call.number_or_tensor("mean") : splat_form(DType::kF32, {}, 0.0F);
  const TensorForm deviation =
      call.given("std") ? call.number_or_tensor("std") : splat_form(DType::kF32, {}, 1.0F);
  if (!call.ok()) return;
  RandomMap map(call);
  if (call.ok()) map.out(fma(map.normal(), map.read(deviation), map.read(mean)));
}

/// low + floor(u · (high − low)).
void randint(Call& call) {
  const std::int64_t low = call.integer("low", 0), high = call.integer("high");
  if (!call.ok() || !call.require(low < high && high - low <= (1 << 24), "a range beyond 2^24 numbers"))
    return;
  RandomMap map(call);
  if (!call.ok()) return;
  const Expression drawn = to_integer(map.uniform() * static_cast<float>(high - low)) + low;
  map.out(call.result_dtype() == DType::kF32 ? to_float(drawn) : drawn);
}

/// −log(1 − u) / rate.
void exponential(Call& call) {
  const double rate = call.number("lambd", 1);
  RandomMap map(call);
  if (call.ok()) map.out(-log(1.0F - map.uniform()) / static_cast<float>(rate));
}

/// Below 0, the slope is drawn between lower and upper in training, and is their middle in evaluation. In
/// training the slopes are the second result.
void rrelu(Call& call) {
  const TensorForm self = call.tensor("self");
  const double lower = call.number("lower", 0.125), upper = call.number("upper", 1.0 / 3);
  if (!call.ok()) return;
  LineWriter line(call.builder(), call.provenance(), self.shape);
  const Expression x = line.read(self);
  const Expression is_above = compare(ScalarOp::kGt, x, 0.0F);
  if (!call.boolean("training", false))
    return call.give(line, select(is_above, x, x * static_cast<float>((lower + upper) / 2)));
  const Expression u = line.read(value_form(call.builder().uniform(self.shape), DType::kF32, self.shape));
  const Expression drawn = fma(u, static_cast<float>(upper - lower), static_cast<float>(lower));
  const TensorForm slopes = line.finish(DType::kF32, select(is_above, 1.0F, drawn));
  Pointwise map(call);
  map.out(map.read(self, "self") * map.read(slopes, "noise"));
  call.give(slopes, 1);
}

void rrelu_backward(Call& call) {
  const double lower = call.number("lower"), upper = call.number("upper");
  Pointwise map(call);
  const Expression gradient = map.in("grad_output");
  if (call.boolean("training", false) && upper - lower > 1e-6) return map.out(gradient * map.in("noise"));
  const Expression is_above = compare(ScalarOp::kGt, map.in("self"), 0.0F);
  map.out(select(is_above, gradient, gradient * static_cast<float>((lower + upper) / 2)));
}

/// Keeps numbers where u < 1 − p, divided by 1 − p; the mask is the second result.
void native_dropout(Call& call) {
  const TensorForm input = call.tensor("input");
  const double keep = 1 - call.number("p");
  if (!call.ok()) return;
  if (!call.boolean("train", true)) return call.give(input);
  const auto& shape = input.shape;
  LineWriter mask_line(call.builder(), call.provenance(), shape);
  const Expression u = mask_line.read(value_form(call.builder().uniform(shape), DType::kF32, shape));
  const TensorForm mask = mask_line.finish(DType::kU8, compare(ScalarOp::kLt, u, static_cast<float>(keep)));
  LineWriter line(call.builder(), call.provenance(), shape);
  const auto scale = static_cast<float>(keep > 0 ? 1 / keep : 0);
  call.give(line, select(line.read(mask), line.read(input) * scale, 0.0F));
  call.give(mask, 1);
}

void native_dropout_backward(Call& call) {
  Pointwise map(call);
  map.out(select(map.in("mask"), map.in("grad_output") * map.number("scale", 1), 0.0F));
}

/// Random numbers, from the dropout streams.
constexpr LoweringRow kRows[] = {
    {"bernoulli", &bernoulli},
    {"rand rand_like", &rand},
    {"uniform", &uniform},
    {"randn randn_like", &randn},
    {"normal normal_functional", &normal},
    {"randint randint_like", &randint},
    {"exponential", &exponential},
    {"rrelu_with_noise_functional rrelu_with_noise", &rrelu},
    {"rrelu_with_noise_backward", &rrelu_backward},
    {"native_dropout", &native_dropout},
    {"native_dropout_backward", &native_dropout_backward},
};

}  // namespace

const std::span<const LoweringRow> kRandomRows = kRows;

}  // namespace dgx::lowering
