// Activations and their gradients against binary64: lowerings/*.cases compare with libtorch, whose own
// roundings could hide a wrong constant.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <numbers>

#include "lowering.h"
#include "run_program.h"

using namespace dgx;
using namespace dgx::lowering;
using namespace dgx::program;
using namespace dgx::test;

namespace {

using Arguments = std::vector<std::pair<std::string, AtenArgument>>;
using Function = std::function<long double(long double)>;

constexpr std::int64_t kCount = 1'601;

/// Points from -8 to 8 that avoid the kinks of the activations below.
float point(std::int64_t n) { return static_cast<float>(n - 800) / 100 + 0.003F; }

/// The results of `aten::NAME` at each point. The argument `of` is the tensor of `numbers`; "grad_output", if
/// the call has it, is all ones.
std::vector<float> lowered(const std::string& name, const std::string& of, const std::vector<float>& numbers,
                           const Arguments& more) {
  CapturedGraph graph;
  graph.tensors.assign(3, {DType::kF32, {kCount}});
  AtenCall call;
  call.name = "aten::" + name;
  call.argument_names = {"grad_output", of};
  call.arguments = {std::optional<TensorId>(1), std::optional<TensorId>(0)};
  if (name.find("backward") == std::string::npos) {
    call.argument_names.erase(call.argument_names.begin());
    call.arguments.erase(call.arguments.begin());
  }
  for (const auto& [key, argument] : more) {
    call.argument_names.push_back(key);
    call.arguments.push_back(argument);
  }
  call.results = {2};
  graph.calls = {call};
  LoweringState lowering(graph);
  State state(2);
  for (std::size_t n = 0; n < 2; ++n) {
    state[n] = {n == 0 ? "model/a" : "model/b", Tensor(DType::kF32, {kCount})};
    for (std::size_t i = 0; i < numbers.size(); ++i)
      state[n].tensor.as<float>()[i] = n == 0 ? numbers[i] : 1.0F;
    lowering.forms[n] =
        value_form(lowering.builder.state(state[n].name, DType::kF32, {kCount}), DType::kF32, {kCount});
  }
  const Status status = lower_call(lowering, 0);
  if (!status.ok()) FAIL(name << ": " << status.error().message);
  const TensorForm whole = materialise(lowering.builder, "result", *lowering.forms[2]);
  const Tensor value = run_program(lowering.builder.finish({whole.value}), state, {}).back();
  return {value.as<float>().begin(), value.as<float>().end()};
}

/// The derivative by central differences; with 64 bits of precision it is accurate to about 2^-36.
Function derivative(const Function& f) {
  return [f](long double x) { return (f(x + 1e-6L) - f(x - 1e-6L)) / 2e-6L; };
}

/// The largest error of two roundings. A value is at most as large as x; a gradient multiplies x, or x times
/// x, by 1 minus a rounded number.
long double value_bound(long double x) { return 2 * 0x1p-24L * std::max(1.0L, std::abs(x)); }
long double gradient_bound(long double x) { return 2 * 0x1p-24L * std::max(1.0L, x * x); }

/// Checks that every number is within `bound` of `right`.
void check(const std::string& name, const std::vector<float>& ours, const Function& right,
           const Function& bound) {
  long double worst = 0;
  std::int64_t where = 0;
  for (std::int64_t n = 0; n < kCount; ++n) {
    const auto x = static_cast<long double>(point(n));
    const long double off =
        std::abs(static_cast<long double>(ours[static_cast<std::size_t>(n)]) - right(x)) / bound(x);
    if (off > worst) worst = off, where = n;
  }
  INFO(name << " at " << point(where) << ": " << ours[static_cast<std::size_t>(where)] << ", not "
            << static_cast<double>(right(static_cast<long double>(point(where)))));
  CHECK(static_cast<double>(worst) <= 1.0);
}

struct Activation {
  std::string name, gradient;
  Arguments arguments;
  Function value;
};

long double logistic(long double x) { return 1 / (1 + std::exp(-x)); }
long double normal(long double x) { return std::erfc(-x / std::numbers::sqrt2_v<long double>) / 2; }
long double softplus(long double x) { return std::log1p(std::exp(x)); }

const std::vector<Activation>& activations() {
  static const AtenArgument kTanh = std::string("tanh");
  static const std::vector<Activation> kAll = {
      {"gelu", "gelu_backward", {}, [](auto x) { return x * normal(x); }},
      {"gelu",
       "gelu_backward",
       {{"approximate", kTanh}},
       [](auto x) {
         return x / 2 *
                (1 + std::tanh(std::sqrt(2 / std::numbers::pi_v<long double>) * (x + 0.044715L * x * x * x)));
       }},
      {"silu", "silu_backward", {}, [](auto x) { return x * logistic(x); }},
      {"mish", "mish_backward", {}, [](auto x) { return x * std::tanh(softplus(x)); }},
      {"softplus",
       "softplus_backward",
       {{"beta", 2.0}, {"threshold", 20.0}},
       [](auto x) { return softplus(2 * x) / 2; }},
      {"elu",
       "elu_backward",
       {{"alpha", 0.75}, {"scale", 1.25}, {"input_scale", 0.5}},
       [](auto x) { return 1.25L * (x > 0 ? x : 0.75L * std::expm1(x / 2)); }},
      {"leaky_relu",
       "leaky_relu_backward",
       {{"negative_slope", 0.125}},
       [](auto x) { return x > 0 ? x : x / 8; }},
      {"hardtanh",
       "hardtanh_backward",
       {{"min_val", -0.5}, {"max_val", 2.0}},
       [](auto x) { return std::clamp(x, -0.5L, 2.0L); }},
      {"hardsigmoid", "hardsigmoid_backward", {}, [](auto x) { return std::clamp(x + 3, 0.0L, 6.0L) / 6; }},
      {"hardswish", "hardswish_backward", {}, [](auto x) { return x * std::clamp(x + 3, 0.0L, 6.0L) / 6; }},
      {"log_sigmoid_forward", "log_sigmoid_backward", {}, [](auto x) { return -softplus(-x); }},
  };
  return kAll;
}

std::vector<float> points() {
  std::vector<float> out;
  for (std::int64_t n = 0; n < kCount; ++n) out.push_back(point(n));
  return out;
}

}  // namespace

TEST_CASE("an activation is its formula to a few roundings") {
  for (const Activation& one : activations())
    check(one.name, lowered(one.name, "self", points(), one.arguments), one.value, value_bound);
}

TEST_CASE("an activation's gradient is the derivative of its formula to a few roundings") {
  for (const Activation& one : activations()) {
    const std::string of = one.gradient == "elu_backward" ? "self_or_result" : "self";
    check(one.gradient, lowered(one.gradient, of, points(), one.arguments), derivative(one.value),
          gradient_bound);
  }
}

TEST_CASE("gradients that come from the result are those of its formula to a few roundings") {
  for (const auto& [name, f] :
       {std::pair<std::string, Function>{"tanh_backward", [](auto x) { return std::tanh(x); }},
        {"sigmoid_backward", logistic}}) {
    std::vector<float> results;
    for (const float x : points()) results.push_back(static_cast<float>(f(static_cast<long double>(x))));
    check(name, lowered(name, "output", results, {}), derivative(f), gradient_bound);
  }
}
