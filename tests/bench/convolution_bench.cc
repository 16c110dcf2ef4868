// 3×3 convolutions of 32 images and their gradients, exact against eager libtorch, one thread: GF/s, both sides in turns. Text, or
// JSON with --json; `--exact` runs the exact side alone.
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string_view>

#include "dgx/exec/executor.h"
#include "dgx/program/program.h"
#include "form_text.h"

namespace {

using namespace dgx;
using test::Convolution;
using test::FormInput;

constexpr int kRounds = 15;

double seconds_of(const std::function<void()>& run) {
  run();
  const auto begin = std::chrono::steady_clock::now();
  run();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / 2;
}

/// One line over two inputs.
class Exact {
 public:
  Exact(const FormInput& a, const FormInput& b, const std::string& line) {
    auto program = program::parse_program(test::program_text({a, b}, {line}));
    if (!program.ok()) std::abort();
    evaluator_ = exec::Evaluator::create(std::make_shared<const program::Program>(std::move(*program)), 1).value();
    State state = {{"model/a", Tensor(DType::kF32, a.shape)}, {"model/b", Tensor(DType::kF32, b.shape)}};
    unsigned n = 1;
    for (Entry& entry : state) {
      for (float& number : entry.tensor.as<float>()) number = static_cast<float>((n = n * 1664525U + 1013904223U) >> 8U) * 0x1p-24F - 0.5F;
    }
    if (!evaluator_->load(state).ok()) std::abort();
  }
  void run() {
    if (!evaluator_->run({}, {}).ok()) std::abort();
  }

 private:
  std::unique_ptr<exec::Evaluator> evaluator_;
};

/// What a part of a convolution's work takes in eager libtorch.
std::function<void()> eager(const Convolution& c, std::string_view part) {
  const auto x = torch::rand(c.x().shape);
  const auto w = torch::rand(c.w().shape);
  const auto dy = torch::rand(c.dy().shape);
  if (part == "forward") return [=, &c] { at::conv2d(x, w, {}, c.stride, c.padding); };
  const bool input = part == "input-gradient";
  return [=, &c] {
    at::convolution_backward(dy, x, w, c10::nullopt, {c.stride, c.stride}, {c.padding, c.padding}, {1, 1}, false, {0, 0}, 1,
                             {input, !input, false});
  };
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view option = argc > 1 ? argv[1] : "";
  at::set_num_threads(1);
  const torch::NoGradGuard guard;
  struct Size {
    std::int64_t in, out, side, stride;
  };
  for (const Size& size : {Size{16, 16, 28, 1}, Size{32, 32, 14, 1}, Size{64, 64, 7, 1}, Size{16, 32, 28, 2}, Size{1, 16, 28, 1}}) {
    Convolution c;
    c.images = 32;
    c.in = size.in;
    c.out = size.out;
    c.stride = size.stride;
    c.height = c.width = size.side;
    const auto terms = static_cast<double>(c.in * c.out * c.images * c.out_height() * c.out_width() * 9);
    const double work = 2 * terms;
    struct Part {
      const char* name;
      Exact exact;
    };
    Part parts[] = {{"forward", {c.x(), c.w(), c.forward()}},
                    {"input-gradient", {c.dy(), c.w(), c.input_gradient()}},
                    {"weight-gradient", {c.x(), c.dy(), c.weight_gradient()}}};
    for (Part& part : parts) {
      const auto theirs = eager(c, part.name);
      double ours_best = 1e9;
      double theirs_best = 1e9;
      for (int round = 0; round < kRounds; ++round) {
        ours_best = std::min(ours_best, seconds_of([&] { part.exact.run(); }));
        if (option != "--exact") theirs_best = std::min(theirs_best, seconds_of(theirs));
      }
      const char* const format =
          option == "--json" ? "{\"bench\":\"convolution-%s-%ld-%ld-%ld-%ld\",\"exact\":%.1f,\"eager\":%.1f,\"unit\":\"GF/s\"}\n"
                             : "convolution %-15s %2ld to %2ld channels, side %2ld, stride %ld: exact %.1f, eager %.1f GF/s\n";
      std::printf(format, part.name, size.in, size.out, size.side, size.stride, work / ours_best / 1e9, work / theirs_best / 1e9);
    }
  }
  return 0;
}
