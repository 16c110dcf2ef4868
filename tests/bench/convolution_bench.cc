// 3×3 convolutions of 32 images and their gradients, exact against eager libtorch, one thread, GF/s.
// convolution_bench [--json]
#include <torch/torch.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <string_view>

#include "dgx/exec/executor.h"
#include "dgx/program/program.h"
#include "form_text.h"
#include "row.h"

namespace {

using namespace dgx;
using test::Convolution;
using test::FormInput;

/// One line that reads two inputs.
class Exact {
 public:
  Exact(const FormInput& a, const FormInput& b, const std::string& line) {
    auto program = program::parse_program(test::program_text({a, b}, {line}));
    if (!program.ok()) std::abort();
    evaluator_ =
        exec::Evaluator::create(std::make_shared<const program::Program>(std::move(*program)), 1).value();
    State state = {{"model/a", Tensor(DType::kF32, a.shape)}, {"model/b", Tensor(DType::kF32, b.shape)}};
    unsigned n = 1;
    for (Entry& entry : state) {
      for (float& number : entry.tensor.as<float>())
        number = static_cast<float>((n = n * 1664525U + 1013904223U) >> 8U) * 0x1p-24F - 0.5F;
    }
    if (!evaluator_->load(state).ok()) std::abort();
  }
  void run() {
    if (!evaluator_->run({}).ok()) std::abort();
  }

 private:
  std::unique_ptr<exec::Evaluator> evaluator_;
};

/// One part of a convolution's work in eager libtorch, to be timed.
std::function<void()> eager(const Convolution& c, std::string_view part) {
  const auto x = torch::rand(c.x().shape);
  const auto w = torch::rand(c.w().shape);
  const auto dy = torch::rand(c.dy().shape);
  if (part == "forward") return [=, &c] { at::conv2d(x, w, {}, c.stride, c.padding); };
  const bool input = part == "input-gradient";
  return [=, &c] {
    at::convolution_backward(dy, x, w, c10::nullopt, {c.stride, c.stride}, {c.padding, c.padding}, {1, 1},
                             false, {0, 0}, 1, {input, !input, false});
  };
}

}  // namespace

int main(int argc, char** argv) {
  const bool json = argc > 1 && std::string_view(argv[1]) == "--json";
  at::set_num_threads(1);
  const torch::NoGradGuard guard;
  struct Size {
    std::int64_t in, out, side, stride;
  };
  for (const Size& size : {Size{16, 16, 28, 1}, Size{32, 32, 14, 1}, Size{64, 64, 7, 1}, Size{16, 32, 28, 2},
                           Size{1, 16, 28, 1}}) {
    Convolution c;
    c.images = 32;
    c.in = size.in;
    c.out = size.out;
    c.stride = size.stride;
    c.height = c.width = size.side;
    const auto terms = static_cast<double>(c.in * c.out * c.images * c.out_height() * c.out_width() * 9);
    struct Part {
      const char* name;
      Exact exact;
    };
    Part parts[] = {{"forward", {c.x(), c.w(), c.forward()}},
                    {"input-gradient", {c.dy(), c.w(), c.input_gradient()}},
                    {"weight-gradient", {c.x(), c.dy(), c.weight_gradient()}}};
    for (Part& part : parts) {
      const std::string name = std::string("convolution-") + part.name + "-" + std::to_string(size.in) + "-" +
                               std::to_string(size.out) + "-side-" + std::to_string(size.side) + "-stride-" +
                               std::to_string(size.stride);
      std::vector<bench::Side> sides = {{"exact", [&] { part.exact.run(); }},
                                        {"libtorch, eager", eager(c, part.name)}};
      measure_in_turns(sides, {1, 5, 1});
      print_rows(name, sides, 1, "GF/s", 1e-9, 2 * terms, json);
    }
  }
  return 0;
}
