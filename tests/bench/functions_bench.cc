// Elementary functions, nanoseconds per element, one thread: a map over numbers that stay in the second-level
// cache, exact against libtorch. functions_bench [--json]
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <cstdlib>
#include <string_view>

#include "dgx/exec/executor.h"
#include "dgx/program/program.h"
#include "form_text.h"
#include "row.h"

namespace {

using namespace dgx;

constexpr std::int64_t kCount = 1 << 16;

struct Function {
  const char* name;
  float low, high;  ///< range of arguments in which the function is neither constant nor infinite
  at::Tensor& (*peer)(at::Tensor& out, const at::Tensor& x);
};

constexpr Function kFunctions[] = {
    {"exp", -20, 20, at::exp_out}, {"log", 1e-3F, 100, at::log_out}, {"tanh", -4, 4, at::tanh_out},
    {"erf", -3, 3, at::erf_out},   {"expm1", -5, 5, at::expm1_out},  {"log1p", -0.9F, 50, at::log1p_out},
    {"sin", -30, 30, at::sin_out}, {"cos", -30, 30, at::cos_out},    {"sqrt", 0, 100, at::sqrt_out}};

/// A program of one map.
std::unique_ptr<exec::Evaluator> exact(const Function& function, const Tensor& x) {
  const std::string line = std::string("{\"do\":[\"") + function.name + " x0\"],\"k\":\"map\",\"s\":[" +
                           std::to_string(kCount) + "],\"t\":\"f32\",\"v\":@V,\"x\":[\"0[i0]\"]}";
  auto program = program::parse_program(test::program_text({{DType::kF32, {kCount}}}, {line}));
  if (!program.ok()) {
    std::fprintf(stderr, "%s\n", program.error().message.c_str());
    std::exit(70);
  }
  auto evaluator =
      exec::Evaluator::create(std::make_shared<const program::Program>(std::move(*program)), 1).value();
  if (!evaluator->load({{"model/a", x}}).ok()) std::exit(70);
  return evaluator;
}

}  // namespace

int main(int argc, char** argv) {
  const bool json = argc > 1 && std::string_view(argv[1]) == "--json";
  at::set_num_threads(1);
  const at::NoGradGuard guard;
  for (const Function& function : kFunctions) {
    Tensor x(DType::kF32, {kCount});
    unsigned n = 1;
    for (float& number : x.as<float>()) {
      n = n * 1664525U + 1013904223U;
      number = function.low + (function.high - function.low) * static_cast<float>(n >> 8U) * 0x1p-24F;
    }
    const auto evaluator = exact(function, x);
    const at::Tensor theirs = at::from_blob(x.as<float>().data(), {kCount});
    at::Tensor out = at::empty({kCount});
    std::vector<bench::Side> sides = {{"exact",
                                       [&] {
                                         if (!evaluator->run({}).ok()) std::abort();
                                       }},
                                      {"libtorch", [&] { function.peer(out, theirs); }}};
    measure_in_turns(sides, {1, 5, 1});
    print_rows(std::string("function-") + function.name, sides, 1, "ns", 1e9 / static_cast<double>(kCount), 0,
               json);
  }
}
