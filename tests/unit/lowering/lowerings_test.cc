#include <catch2/catch.hpp>
#include <cmath>
#include <functional>

#include "dgx/program/check.h"
#include "lowering.h"
#include "run_program.h"

using namespace dgx;
using namespace dgx::lowering;
using namespace dgx::program;
using namespace dgx::test;

namespace {

using Arguments = std::vector<std::pair<std::string, AtenArgument>>;
using Integers = std::vector<std::int64_t>;

/// One ATen call on tensors a, b and c (f32 [2,3,4], [2,3,4] and [4]), lowered and evaluated.
class OpRun {
 public:
  OpRun() {
    add("a", {2, 3, 4}, [](std::int64_t n) { return static_cast<float>(n * 7 % 24) / 8 - 1; });
    add("b", {2, 3, 4}, [](std::int64_t n) { return static_cast<float>(n * 11 % 24) / 16 + 0.125F; });
    add("c", {4}, [](std::int64_t n) { return static_cast<float>(n) - 1.5F; });
    add("mean", {2, 3, 1}, [this](std::int64_t n) { return static_cast<float>(row_mean(n)); });
    add("rstd", {2, 3, 1}, [this](std::int64_t n) { return static_cast<float>(row_rstd(n)); });
  }

  static AtenArgument tensor(TensorId id) { return std::optional<TensorId>(id); }

  /// Elements of result `n`; the results' shapes and dtypes are given.
  std::vector<double> operator()(const std::string& name, const Arguments& arguments,
                                 const std::vector<Shape>& results, std::size_t n = 0,
                                 DType dtype = DType::kF32) {
    CapturedGraph graph = graph_;
    AtenCall call;
    call.name = "aten::" + name;
    for (const auto& [key, argument] : arguments) {
      call.argument_names.push_back(key);
      call.arguments.push_back(argument);
    }
    for (const Shape& shape : results) {
      graph.tensors.push_back({dtype, shape});
      call.results.emplace_back(static_cast<TensorId>(graph.tensors.size() - 1));
    }
    graph.calls = {call};
    LoweringState lowering(graph);
    for (std::size_t input = 0; input < state_.size(); ++input) {
      const auto value =
          lowering.builder.state(state_[input].name, DType::kF32, state_[input].tensor.shape());
      lowering.forms[input] = value_form(value, DType::kF32, state_[input].tensor.shape());
    }
    const Status status = lower_call(lowering, 0);
    if (!status.ok()) FAIL(status.error().message);
    const auto result = lowering.forms[state_.size() + n];
    REQUIRE(result);
    const TensorForm whole = materialise(lowering.builder, "result", *result);
    const Program program = lowering.builder.finish({whole.value});
    if (results[n].size() == 1 && dtype == DType::kF32)
      CHECK(check_program(program, ProgramRole::kEvaluation).ok());
    const Tensor value = run_program(program, state_, {}).back();
    std::vector<double> numbers;
    for (std::int64_t at = 0; at < value.count(); ++at) {
      const auto index = static_cast<std::size_t>(at);
      numbers.push_back(dtype == DType::kF32  ? static_cast<double>(value.as<float>()[index])
                        : dtype == DType::kU8 ? value.bytes()[index]
                                              : static_cast<double>(value.as<std::int64_t>()[index]));
    }
    return numbers;
  }

  [[nodiscard]] double a(std::int64_t i, std::int64_t j, std::int64_t k) const {
    return at(0, i * 12 + j * 4 + k);
  }
  [[nodiscard]] double b(std::int64_t i, std::int64_t j, std::int64_t k) const {
    return at(1, i * 12 + j * 4 + k);
  }
  [[nodiscard]] double c(std::int64_t k) const { return at(2, k); }
  /// The mean of row `n` of a.
  [[nodiscard]] double row_mean(std::int64_t n) const {
    return (at(0, 4 * n) + at(0, 4 * n + 1) + at(0, 4 * n + 2) + at(0, 4 * n + 3)) / 4;
  }
  [[nodiscard]] double row_rstd(std::int64_t n) const {
    double variance = 0;
    for (std::int64_t k = 0; k < 4; ++k) variance += std::pow(at(0, 4 * n + k) - row_mean(n), 2) / 4;
    return 1 / std::sqrt(variance + 1e-5);
  }

 private:
  void add(const std::string& name, const Shape& shape, const std::function<float(std::int64_t)>& number) {
    Tensor tensor(DType::kF32, shape);
    for (std::int64_t n = 0; n < tensor.count(); ++n)
      tensor.as<float>()[static_cast<std::size_t>(n)] = number(n);
    graph_.tensors.push_back({DType::kF32, shape});
    state_.push_back({"model/" + name, std::move(tensor)});
  }
  [[nodiscard]] double at(std::size_t tensor, std::int64_t n) const {
    return static_cast<double>(state_[tensor].tensor.as<float>()[static_cast<std::size_t>(n)]);
  }

  CapturedGraph graph_;
  State state_;
};

using Element = std::function<double(std::int64_t, std::int64_t, std::int64_t)>;

void compare(const std::vector<double>& got, const Shape& shape, const Element& expected) {
  REQUIRE(got.size() == static_cast<std::size_t>(shape[0] * shape[1] * shape[2]));
  for (std::int64_t n = 0; n < static_cast<std::int64_t>(got.size()); ++n) {
    const std::int64_t k = n % shape[2], j = n / shape[2] % shape[1], i = n / (shape[1] * shape[2]);
    INFO(i << ',' << j << ',' << k);
    CHECK(got[static_cast<std::size_t>(n)] == Approx(expected(i, j, k)).epsilon(1e-5).margin(1e-6));
  }
}

const AtenArgument kA = OpRun::tensor(0), kB = OpRun::tensor(1), kC = OpRun::tensor(2);

}  // namespace

TEST_CASE("views move no number to a wrong place") {
  OpRun run;
  compare(run("permute", {{"self", kA}, {"dims", Integers{2, 0, 1}}}, {{4, 2, 3}}), {4, 2, 3},
          [&](auto i, auto j, auto k) { return run.a(j, k, i); });
  compare(run("transpose_copy", {{"self", kA}, {"dim0", std::int64_t{0}}, {"dim1", std::int64_t{-1}}},
              {{4, 3, 2}}),
          {4, 3, 2}, [&](auto i, auto j, auto k) { return run.a(k, j, i); });
  compare(run("view", {{"self", kA}, {"size", Integers{6, 4}}}, {{6, 4}}), {1, 6, 4},
          [&](auto, auto j, auto k) { return run.a(j / 3, j % 3, k); });
  compare(run("slice",
              {{"self", kA},
               {"dim", std::int64_t{2}},
               {"start", std::int64_t{1}},
               {"end", std::int64_t{4}},
               {"step", std::int64_t{2}}},
              {{2, 3, 2}}),
          {2, 3, 2}, [&](auto i, auto j, auto k) { return run.a(i, j, 2 * k + 1); });
  compare(run("select", {{"self", kA}, {"dim", std::int64_t{1}}, {"index", std::int64_t{-1}}}, {{2, 4}}),
          {1, 2, 4}, [&](auto, auto j, auto k) { return run.a(j, 2, k); });
  compare(run("flip", {{"self", kA}, {"dims", Integers{1, 2}}}, {{2, 3, 4}}), {2, 3, 4},
          [&](auto i, auto j, auto k) { return run.a(i, 2 - j, 3 - k); });
  compare(run("expand", {{"self", kC}, {"size", Integers{2, 3, 4}}}, {{2, 3, 4}}), {2, 3, 4},
          [&](auto, auto, auto k) { return run.c(k); });
  compare(run("unbind", {{"self", kA}, {"dim", std::int64_t{2}}}, {{2, 3}, {2, 3}, {2, 3}, {2, 3}}, 3),
          {1, 2, 3}, [&](auto, auto j, auto k) { return run.a(j, k, 3); });
}

TEST_CASE("the gradients of slices and selections are zero elsewhere") {
  OpRun run;
  compare(run("slice_backward",
              {{"grad_output", kA},
               {"input_sizes", Integers{2, 3, 9}},
               {"dim", std::int64_t{2}},
               {"start", std::int64_t{1}},
               {"end", std::int64_t{9}},
               {"step", std::int64_t{2}}},
              {{2, 3, 9}}),
          {2, 3, 9}, [&](auto i, auto j, auto k) { return k % 2 == 1 ? run.a(i, j, k / 2) : 0; });
  compare(run("select_backward",
              {{"grad_output", kC},
               {"input_sizes", Integers{3, 4}},
               {"dim", std::int64_t{0}},
               {"index", std::int64_t{-2}}},
              {{3, 4}}),
          {1, 3, 4}, [&](auto, auto j, auto k) { return j == 1 ? run.c(k) : 0; });
}

TEST_CASE("parts are joined in order") {
  OpRun run;
  const std::vector<std::optional<TensorId>> both = {0, 1};
  compare(run("cat", {{"tensors", both}, {"dim", std::int64_t{1}}}, {{2, 6, 4}}), {2, 6, 4},
          [&](auto i, auto j, auto k) { return j < 3 ? run.a(i, j, k) : run.b(i, j - 3, k); });
  compare(run("stack", {{"tensors", both}, {"dim", std::int64_t{0}}}, {{2, 2, 3, 4}}), {4, 3, 4},
          [&](auto i, auto j, auto k) { return i < 2 ? run.a(i, j, k) : run.b(i - 2, j, k); });
}

TEST_CASE("sums, means and extremes run over the dimensions they name") {
  OpRun run;
  const auto sum_of = [&](auto f, std::int64_t n) {
    double total = 0;
    for (std::int64_t m = 0; m < n; ++m) total += f(m);
    return total;
  };
  compare(run("sum", {{"self", kA}, {"dim", Integers{0}}, {"keepdim", true}}, {{1, 3, 4}}), {1, 3, 4},
          [&](auto, auto j, auto k) { return run.a(0, j, k) + run.a(1, j, k); });
  compare(run("sum", {{"self", kA}, {"dim", Integers{-1}}, {"keepdim", false}}, {{2, 3}}), {1, 2, 3},
          [&](auto, auto j, auto k) { return sum_of([&](auto m) { return run.a(j, k, m); }, 4); });
  compare(run("sum", {{"self", kA}, {"dim", Integers{0, 2}}, {"keepdim", false}}, {{3}}), {1, 1, 3},
          [&](auto, auto, auto k) { return sum_of([&](auto m) { return run.a(m / 4, k, m % 4); }, 8); });
  compare(run("mean", {{"self", kA}}, {{}}), {1, 1, 1}, [&](auto, auto, auto) {
    return sum_of([&](auto m) { return run.a(m / 12, m / 4 % 3, m % 4); }, 24) / 24;
  });
  compare(run("amax", {{"self", kA}, {"dim", Integers{1}}}, {{2, 4}}), {1, 2, 4}, [&](auto, auto j, auto k) {
    return std::max({run.a(j, 0, k), run.a(j, 1, k), run.a(j, 2, k)});
  });
  compare(run("argmax", {{"self", kC}, {"dim", std::int64_t{0}}}, {{}}, 0, DType::kI64), {1, 1, 1},
          [](auto, auto, auto) { return 3; });
}

TEST_CASE("softmax and log-softmax and their gradients are what they are called") {
  OpRun run;
  const auto total = [&](auto i, auto j, auto value) {
    double sum = 0;
    for (std::int64_t m = 0; m < 4; ++m) sum += value(i, j, m);
    return sum;
  };
  const Element exp_a = [&](auto i, auto j, auto k) { return std::exp(run.a(i, j, k)); };
  const std::int64_t last = -1;
  compare(run("_softmax", {{"self", kA}, {"dim", last}, {"half_to_float", false}}, {{2, 3, 4}}), {2, 3, 4},
          [&](auto i, auto j, auto k) { return exp_a(i, j, k) / total(i, j, exp_a); });
  compare(run("_log_softmax", {{"self", kA}, {"dim", last}, {"half_to_float", false}}, {{2, 3, 4}}),
          {2, 3, 4}, [&](auto i, auto j, auto k) { return run.a(i, j, k) - std::log(total(i, j, exp_a)); });
  compare(run("_softmax_backward_data", {{"grad_output", kA}, {"output", kB}, {"dim", last}}, {{2, 3, 4}}),
          {2, 3, 4}, [&](auto i, auto j, auto k) {
            return (run.a(i, j, k) -
                    total(i, j, [&](auto p, auto q, auto m) { return run.a(p, q, m) * run.b(p, q, m); })) *
                   run.b(i, j, k);
          });
  compare(
      run("_log_softmax_backward_data", {{"grad_output", kA}, {"output", kB}, {"dim", last}}, {{2, 3, 4}}),
      {2, 3, 4}, [&](auto i, auto j, auto k) {
        return run.a(i, j, k) -
               std::exp(run.b(i, j, k)) * total(i, j, [&](auto p, auto q, auto m) { return run.a(p, q, m); });
      });
}

TEST_CASE("layer norm is its definition and its gradients are difference quotients") {
  OpRun run;
  const std::vector<Shape> results = {{2, 3, 4}, {2, 3, 1}, {2, 3, 1}};
  const Arguments forward = {
      {"input", kA}, {"normalized_shape", Integers{4}}, {"weight", kC}, {"bias", kC}, {"eps", 1e-5}};
  compare(run("native_layer_norm", forward, results), {2, 3, 4}, [&](auto i, auto j, auto k) {
    return (run.a(i, j, k) - run.row_mean(3 * i + j)) * run.row_rstd(3 * i + j) * run.c(k) + run.c(k);
  });
  const Arguments backward = {{"grad_out", kB},
                              {"input", kA},
                              {"normalized_shape", Integers{4}},
                              {"mean", OpRun::tensor(3)},
                              {"rstd", OpRun::tensor(4)},
                              {"weight", kC},
                              {"bias", kC}};
  const std::vector<Shape> gradients = {{2, 3, 4}, {4}, {4}};
  // d/dx[k] of sum over m of b[m] c[m] xhat[m], on one row.
  const auto objective = [&](std::int64_t i, std::int64_t j, std::int64_t moved, double by) {
    double x[4], mean = 0, variance = 0, sum = 0;
    for (std::int64_t m = 0; m < 4; ++m) x[m] = run.a(i, j, m) + (m == moved ? by : 0);
    for (const double v : x) mean += v / 4;
    for (const double v : x) variance += (v - mean) * (v - mean) / 4;
    for (std::int64_t m = 0; m < 4; ++m)
      sum += run.b(i, j, m) * run.c(m) * (x[m] - mean) / std::sqrt(variance + 1e-5);
    return sum;
  };
  compare(run("native_layer_norm_backward", backward, gradients, 0), {2, 3, 4}, [&](auto i, auto j, auto k) {
    return (objective(i, j, k, 1e-5) - objective(i, j, k, -1e-5)) / 2e-5;
  });
  const auto over_rows = [&](auto term) {
    double sum = 0;
    for (std::int64_t n = 0; n < 6; ++n) sum += term(n / 3, n % 3);
    return sum;
  };
  compare(run("native_layer_norm_backward", backward, gradients, 1), {1, 1, 4}, [&](auto, auto, auto k) {
    return over_rows([&](auto i, auto j) {
      return run.b(i, j, k) * (run.a(i, j, k) - run.row_mean(3 * i + j)) * run.row_rstd(3 * i + j);
    });
  });
  compare(run("native_layer_norm_backward", backward, gradients, 2), {1, 1, 4},
          [&](auto, auto, auto k) { return over_rows([&](auto i, auto j) { return run.b(i, j, k); }); });
}

TEST_CASE("arithmetic broadcasts and follows alpha") {
  OpRun run;
  const auto check = [&](const char* name, const Arguments& arguments, const Element& expected,
                         DType dtype = DType::kF32) {
    INFO(name);
    compare(run(name, arguments, {{2, 3, 4}}, 0, dtype), {2, 3, 4}, expected);
  };
  check("add", {{"self", kA}, {"other", kC}, {"alpha", std::int64_t{3}}},
        [&](auto i, auto j, auto k) { return run.a(i, j, k) + 3 * run.c(k); });
  check("rsub", {{"self", kA}, {"other", 2.0}, {"alpha", 0.5}},
        [&](auto i, auto j, auto k) { return 2 - 0.5 * run.a(i, j, k); });
  check("mul", {{"self", kA}, {"other", kC}},
        [&](auto i, auto j, auto k) { return run.a(i, j, k) * run.c(k); });
  check("div", {{"self", kA}, {"other", kB}},
        [&](auto i, auto j, auto k) { return run.a(i, j, k) / run.b(i, j, k); });
  for (const double power : {2.0, 3.0, -1.0, -2.0, 0.5, -0.5, 1.7}) {
    check("pow", {{"self", kB}, {"exponent", power}},
          [&](auto i, auto j, auto k) { return std::pow(run.b(i, j, k), power); });
  }
  check("rsqrt", {{"self", kB}}, [&](auto i, auto j, auto k) { return 1 / std::sqrt(run.b(i, j, k)); });
  check("clamp", {{"self", kA}, {"min", -0.5}, {"max", 0.25}},
        [&](auto i, auto j, auto k) { return std::clamp(run.a(i, j, k), -0.5, 0.25); });
  check(
      "gt", {{"self", kA}, {"other", kB}},
      [&](auto i, auto j, auto k) { return run.a(i, j, k) > run.b(i, j, k) ? 1 : 0; }, DType::kU8);
  check("where", {{"condition", kC}, {"self", kA}, {"other", kB}},
        [&](auto i, auto j, auto k) { return run.c(k) != 0 ? run.a(i, j, k) : run.b(i, j, k); });
  check("silu", {{"self", kA}},
        [&](auto i, auto j, auto k) { return run.a(i, j, k) / (1 + std::exp(-run.a(i, j, k))); });
  check("leaky_relu", {{"self", kA}, {"negative_slope", 0.1}},
        [&](auto i, auto j, auto k) { return run.a(i, j, k) * (run.a(i, j, k) > 0 ? 1 : 0.1); });
  check("lerp", {{"self", kA}, {"end", kB}, {"weight", 0.25}},
        [&](auto i, auto j, auto k) { return run.a(i, j, k) + 0.25 * (run.b(i, j, k) - run.a(i, j, k)); });
  check("sign", {{"self", kA}},
        [&](auto i, auto j, auto k) { return (run.a(i, j, k) > 0) - (run.a(i, j, k) < 0); });
}

TEST_CASE("a form that one access cannot reshape is copied first") {
  const Shape shape = {4, 3, 2};
  TensorForm form = value_form(kernels::ValueIndex{0}, DType::kF32, {2, 3, 4});
  form = remap(form, shape, {output_index(2), output_index(1), output_index(0)});
  CHECK(!is_contiguous(form));
  CHECK(!reshape(form, {12, 2}));      // merges two dimensions out of order
  CHECK(reshape(form, {2, 2, 3, 2}));  // only splits
  CHECK(reshape(form, {4, 1, 3, 2, 1}));
  CHECK(!reshape(form, {4, 3}));  // a different count
  CHECK(reshape(value_form(kernels::ValueIndex{0}, DType::kF32, {2, 3, 4}), {24}));
  const TensorForm part =
      remap(value_form(kernels::ValueIndex{0}, DType::kF32, {2, 3, 4}), {2, 3, 2}, output_indices(3));
  CHECK(!is_contiguous(part));  // identity coordinates, but not all of the value
  CHECK(!reshape(part, {12}));
}

TEST_CASE("a maximum over padding alone is refused") {
  CapturedGraph graph;
  graph.tensors = {{DType::kF32, {1, 1, 3}}, {DType::kF32, {1, 1, 1}}};
  AtenCall call;
  call.name = "aten::max_pool1d_with_indices";
  call.argument_names = {"self", "kernel_size", "stride", "padding", "dilation"};
  call.results = {1};
  // The window's two positions are `dilation` apart: -1 and 2, or -1 and 3.
  for (const std::int64_t dilation : {3, 4}) {
    call.arguments = {OpRun::tensor(0), Integers{2}, Integers{1}, Integers{1}, Integers{dilation}};
    graph.calls = {call};
    LoweringState lowering(graph);
    lowering.forms[0] =
        value_form(lowering.builder.state("model/a", DType::kF32, {1, 1, 3}), DType::kF32, {1, 1, 3});
    const Status status = lower_call(lowering, 0);
    CHECK(status.ok() == (dilation == 3));
    if (!status.ok()) CHECK(status.error().message.find("a window of padding alone") != std::string::npos);
  }
}
