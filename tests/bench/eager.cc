// The same models and optimisers as a user of libtorch writes them: libtorch's modules and
// scaled_dot_product_attention.
#include "eager.h"

#include <dlfcn.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <cstdlib>
#include <memory>

namespace dgx::bench {
namespace {

using namespace torch;

nn::Conv2d convolution(std::int64_t in, std::int64_t out, std::int64_t stride) {
  return nn::Conv2d(nn::Conv2dOptions(in, out, 3).stride(stride).padding(1).bias(false));
}

struct ResidualImpl : nn::Module {
  ResidualImpl(std::int64_t in, std::int64_t out) : added(out - in) {
    first = register_module("first", convolution(in, out, in == out ? 1 : 2));
    second = register_module("second", convolution(out, out, 1));
    norm_1 = register_module("norm_1", nn::BatchNorm2d(out));
    norm_2 = register_module("norm_2", nn::BatchNorm2d(out));
  }
  Tensor forward(const Tensor& x) {
    const Tensor y = norm_2(second(relu(norm_1(first(x)))));
    if (added == 0) return relu(y + x);
    const Tensor fewer = x.slice(2, 0, x.size(2), 2).slice(3, 0, x.size(3), 2);
    return relu(y + constant_pad_nd(fewer, {0, 0, 0, 0, added / 2, added / 2}, 0));
  }
  std::int64_t added;
  nn::Conv2d first{nullptr}, second{nullptr};
  nn::BatchNorm2d norm_1{nullptr}, norm_2{nullptr};
};
TORCH_MODULE(Residual);

struct PoolImpl : nn::Module {
  Tensor forward(const Tensor& x) { return x.mean({2, 3}); }  // not static: Sequential needs a member
};
TORCH_MODULE(Pool);

nn::Sequential resnet20() {
  nn::Sequential net(convolution(1, 16, 1), nn::BatchNorm2d(16), nn::ReLU());
  std::int64_t in = 16;
  for (const std::int64_t out : {16, 16, 16, 32, 32, 32, 64, 64, 64}) {
    net->push_back(Residual(in, out));
    in = out;
  }
  net->push_back(Pool());
  net->push_back(nn::Linear(64, 10));
  return net;
}

nn::Sequential mlp() {
  return nn::Sequential(nn::Linear(784, 256), nn::ReLU(), nn::Linear(256, 128), nn::ReLU(),
                        nn::Linear(128, 10));
}

struct DecoderImpl : nn::Module {
  DecoderImpl(std::int64_t of_width, std::int64_t of_heads) : width(of_width), heads(of_heads) {
    norm_1 = register_module("norm_1", nn::LayerNorm(nn::LayerNormOptions({width})));
    norm_2 = register_module("norm_2", nn::LayerNorm(nn::LayerNormOptions({width})));
    attention = register_module("attention", nn::Linear(width, 3 * width));
    out = register_module("out", nn::Linear(width, width));
    up = register_module("up", nn::Linear(width, 4 * width));
    down = register_module("down", nn::Linear(4 * width, width));
  }
  Tensor forward(const Tensor& input) {
    const std::int64_t batch = input.size(0), length = input.size(1);
    const Tensor parts =
        attention(norm_1(input)).view({batch, length, 3, heads, width / heads}).permute({2, 0, 3, 1, 4});
    const Tensor mixed = at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0.0, true);
    const Tensor x = input + out(mixed.transpose(1, 2).reshape({batch, length, width}));
    return x + down(gelu(up(norm_2(x)), "tanh"));
  }
  std::int64_t width, heads;
  nn::LayerNorm norm_1{nullptr}, norm_2{nullptr};
  nn::Linear attention{nullptr}, out{nullptr}, up{nullptr}, down{nullptr};
};
TORCH_MODULE(Decoder);

struct EmbedImpl : nn::Module {
  EmbedImpl(std::int64_t vocab, std::int64_t context, std::int64_t width) {
    tokens = register_module("tokens", nn::Embedding(vocab, width));
    places = register_module("places", nn::Embedding(context, width));
  }
  Tensor forward(const Tensor& x) { return tokens(x) + places(torch::arange(x.size(1), x.device())); }
  nn::Embedding tokens{nullptr}, places{nullptr};
};
TORCH_MODULE(Embed);

/// Builds a spec such as `gpt:layers=6,width=384,heads=6,vocab=256`, for samples of `length` tokens.
nn::Sequential gpt(const std::string& spec, std::int64_t length) {
  const auto field = [&](const std::string& name) {
    const std::size_t at = spec.find(name + "=");
    if (at == std::string::npos) std::exit(70);
    return std::strtoll(spec.c_str() + at + name.size() + 1, nullptr, 10);
  };
  const std::int64_t width = field("width"), vocab = field("vocab");
  nn::Sequential net((Embed(vocab, length, width)));
  for (std::int64_t n = 0; n < field("layers"); ++n) net->push_back(Decoder(width, field("heads")));
  net->push_back(nn::LayerNorm(nn::LayerNormOptions({width})));
  net->push_back(nn::Linear(nn::LinearOptions(width, vocab).bias(false)));
  return net;
}

struct Model {
  std::vector<Tensor> parameters;
  std::function<Tensor(const Tensor&)> forward;
};

Model model_of(const EagerCase& of) {
  if (of.model.ends_with(".pt")) {
    auto module = std::make_shared<jit::Module>(jit::load(of.model));
    if (of.on_gpu) module->to(kCUDA);
    Model model{{}, [module](const Tensor& x) { return module->forward({x}).toTensor(); }};
    for (const Tensor& parameter : module->parameters()) model.parameters.push_back(parameter);
    return model;
  }
  nn::Sequential net = of.model.starts_with("gpt")      ? gpt(of.model, of.sample[0])
                       : of.model.starts_with("resnet") ? resnet20()
                                                        : mlp();
  if (of.on_gpu) net->to(kCUDA);
  for (Tensor parameter : net->parameters()) {
    if (of.channels_last && parameter.dim() == 4)
      parameter.set_data(parameter.contiguous(MemoryFormat::ChannelsLast));
  }
  return {net->parameters(), [net](const Tensor& x) mutable { return net->forward(x); }};
}

/// The fused optimisers of torch.optim (fused=True), which libtorch's own C++ classes lack.
class FusedOptimizer {
 public:
  FusedOptimizer(const EagerCase& of, std::vector<Tensor> parameters)
      : parameters_(std::move(parameters)),
        rate_(std::strtod(of.optimizer.c_str() + of.optimizer.find("lr=") + 3, nullptr)),
        kind_(of.optimizer) {
    for (const Tensor& parameter : parameters_) {
      first_.push_back(at::zeros_like(parameter));
      second_.push_back(at::zeros_like(parameter));
      steps_.push_back(torch::zeros({}, parameter.options()));
    }
  }

  void forget_gradients() {
    for (Tensor& parameter : parameters_) parameter.mutable_grad().reset();
  }

  void step() {
    NoGradGuard none;
    std::vector<Tensor> gradients;
    for (const Tensor& parameter : parameters_) gradients.push_back(parameter.grad());
    if (kind_.starts_with("sgd")) {
      at::_fused_sgd_(parameters_, gradients, first_, 0, 0.9, rate_, 0, false, false, is_first_);
      is_first_ = false;
      return;
    }
    at::_foreach_add_(steps_, 1);
    if (kind_.starts_with("adamw")) {
      at::_fused_adamw_(parameters_, gradients, first_, second_, {}, steps_, rate_, 0.9, 0.999, 0.01, 1e-8,
                        false, false);
    } else {
      at::_fused_adam_(parameters_, gradients, first_, second_, {}, steps_, rate_, 0.9, 0.999, 0, 1e-8, false,
                       false);
    }
  }

 private:
  std::vector<Tensor> parameters_, first_, second_, steps_;
  double rate_;
  std::string kind_;
  bool is_first_ = true;
};

/// The batches of an epoch, resident: [batches, batch, ...] and their targets.
struct Batches {
  Tensor x, y;
};

Batches batches_of(const EagerCase& of) {
  std::vector<std::int64_t> shape = of.sample;
  shape.insert(shape.begin(), {1, of.batch});
  if (of.tokens) return {torch::randint(256, shape), torch::randint(256, {1, of.batch * of.sample[0]})};
  Tensor x = torch::rand(shape), y = torch::randint(10, {1, of.batch});
  if (of.x != nullptr) {
    const auto samples = static_cast<std::int64_t>(of.y->size()), count = samples / of.batch;
    auto* const bytes = const_cast<std::uint8_t*>(of.x->data());
    auto* const classes = const_cast<std::uint8_t*>(of.y->data());
    shape[0] = count;
    x = at::from_blob(bytes, {static_cast<std::int64_t>(of.x->size())}, kUInt8)
            .narrow(0, 0, c10::multiply_integers(shape))
            .view(shape)
            .to(kFloat)
            .div_(255);
    y = at::from_blob(classes, {samples}, kUInt8)
            .narrow(0, 0, count * of.batch)
            .view({count, of.batch})
            .to(kLong);
  }
  if (of.model.starts_with("resnet")) x = x.unsqueeze(2);
  return {x, y};
}

}  // namespace

std::string libtorch_name() { return std::string("libtorch ") + TORCH_VERSION; }

void set_libtorch_threads(int threads) { at::set_num_threads(threads); }

bool libtorch_has_gpu() {
  // libtorch_cuda.so is opened and not linked, since most libtorches lack it. It registers itself.
  if (dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) == nullptr) return false;
  if (!torch::cuda::is_available()) return false;
  at::globalContext().setAllowTF32CuBLAS(false);
  at::globalContext().setAllowTF32CuDNN(false);
  at::globalContext().setBenchmarkCuDNN(true);
  return true;
}

std::function<void()> eager_step(const EagerCase& of) {
  const Model model = model_of(of);
  auto optimizer = std::make_shared<FusedOptimizer>(of, model.parameters);
  const Device device(of.on_gpu ? kCUDA : kCPU);
  Batches batches = batches_of(of);
  std::vector<Tensor> x, y;
  for (std::int64_t n = 0; n < batches.x.size(0); ++n) {
    x.push_back(
        (of.channels_last ? batches.x[n].contiguous(MemoryFormat::ChannelsLast) : batches.x[n]).to(device));
    y.push_back(batches.y[n].to(device));
  }
  return [=, on_gpu = of.on_gpu, next = std::size_t{0}]() mutable {
    optimizer->forget_gradients();
    const Tensor output = model.forward(x[next]);
    at::cross_entropy_loss(output.view({-1, output.size(-1)}), y[next]).backward();
    optimizer->step();
    next = (next + 1) % x.size();
    if (on_gpu) torch::cuda::synchronize();
  };
}

}  // namespace dgx::bench
