// The residual networks for small images of He, Zhang, Ren and Sun, "Deep residual learning for image
// recognition", 2015, section 4.2: 20 layers, shortcuts without parameters (option A). Entries are named as
// torchvision names its networks.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <memory>

#include "models.h"

namespace dgx::torch_bridge {
namespace {

constexpr double kMomentum = 0.1;
constexpr double kEpsilon = 1e-5;
constexpr std::int64_t kFirstChannels = 16;
constexpr std::int64_t kStages = 3;
constexpr std::int64_t kBlocksOfStage = 3;
constexpr std::int64_t kLeastSize = 16;

/// A 3×3 convolution without bias, and the batch norm after it.
struct Convolution {
  at::Tensor weight, scale, shift, mean, variance;
  std::int64_t stride = 1;

  Convolution(Model& model, const std::string& prefix, int number, std::int64_t in, std::int64_t out,
              std::int64_t stride_of_it)
      : stride(stride_of_it) {
    const std::string norm = fmt::format("{}bn{}", prefix, number);
    weight = add_zeros(model.parameters, fmt::format("{}conv{}.weight", prefix, number), {out, in, 3, 3});
    scale = add_zeros(model.parameters, norm + ".weight", {out});
    shift = add_zeros(model.parameters, norm + ".bias", {out});
    mean = add_zeros(model.buffers, norm + ".running_mean", {out});
    variance = add_zeros(model.buffers, norm + ".running_var", {out});
  }

  [[nodiscard]] at::Tensor operator()(const at::Tensor& x, bool training) const {
    const at::Tensor y = at::conv2d(x, weight, {}, stride, 1);
    return at::batch_norm(y, scale, shift, mean, variance, training, kMomentum, kEpsilon, false);
  }
};

struct Block {
  Convolution first, second;
  std::int64_t added_channels;

  [[nodiscard]] at::Tensor operator()(const at::Tensor& x, bool training) const {
    const at::Tensor y = second(at::relu(first(x, training)), training);
    return at::relu(y + shortcut(x));
  }
  /// The shortcut without parameters: every second pixel, with channels of zeros before and after.
  [[nodiscard]] at::Tensor shortcut(const at::Tensor& x) const {
    if (added_channels == 0) return x;
    const at::Tensor fewer = x.slice(2, 0, x.size(2), 2).slice(3, 0, x.size(3), 2);
    return at::constant_pad_nd(fewer, {0, 0, 0, 0, added_channels / 2, added_channels / 2}, 0);
  }
};

class ResNet {
 public:
  ResNet(std::int64_t channels, std::int64_t classes, bool training, Model& model)
      : training_(training), stem_(model, "", 1, channels, kFirstChannels, 1) {
    std::int64_t in = kFirstChannels;
    for (std::int64_t stage = 0; stage < kStages; ++stage) {
      const std::int64_t out = kFirstChannels << stage;
      for (std::int64_t n = 0; n < kBlocksOfStage; ++n) {
        const std::string prefix = fmt::format("layer{}.{}.", stage + 1, n);
        blocks_.push_back({Convolution(model, prefix, 1, in, out, out == in ? 1 : 2),
                           Convolution(model, prefix, 2, out, out, 1), out - in});
        in = out;
      }
    }
    weight_ = add_zeros(model.parameters, "fc.weight", {classes, in});
    bias_ = add_zeros(model.parameters, "fc.bias", {classes});
  }

  [[nodiscard]] at::Tensor forward(const at::Tensor& input) const {
    at::Tensor x = at::relu(stem_(input.dim() == 4 ? input : input.unsqueeze(1), training_));
    for (const Block& block : blocks_) x = block(x, training_);
    return at::linear(x.mean({2, 3}), weight_, bias_);
  }

 private:
  bool training_;
  Convolution stem_;
  std::vector<Block> blocks_;
  at::Tensor weight_, bias_;
};

Status check_input(const program::ResNetSpec& spec, const lowering::CaptureRequest& request,
                   const lowering::BatchField& x) {
  const Shape& shape = x.shape;
  const bool is_image = shape.size() == 3 || shape.size() == 4;
  if (x.dtype != DType::kF32 || !is_image || shape[shape.size() - 1] < kLeastSize ||
      shape[shape.size() - 2] < kLeastSize) {
    DGX_TRY(const std::int64_t numbers, element_count({shape.begin() + 1, shape.end()}));
    auto image = square_images(numbers, 3);
    if (!image) image = square_images(numbers, 1);
    const bool mends = image && image->back() >= kLeastSize;
    return usage_error(
        fmt::format("model '{}' takes images f32 [batch, channels, height, width] or [batch, height, width] "
                    "of at least {} by {}; "
                    "the input is {} {}",
                    request.model, kLeastSize, kLeastSize, name_of(x.dtype), to_string(shape)),
        mends ? shape_hint(*image) : "");
  }
  if (spec.classes == 0)
    return usage_error(fmt::format("model '{}': the number of classes is missing", request.model),
                       "give it, for example resnet20:classes=10");
  return {};
}

}  // namespace

Result<Model> make_resnet(const program::ResNetSpec& spec, const lowering::CaptureRequest& request,
                          const lowering::BatchField& x) {
  DGX_CHECK(check_input(spec, request, x));
  const std::int64_t channels = x.shape.size() == 4 ? x.shape[1] : 1;
  Model model;
  const auto net = std::make_shared<ResNet>(channels, spec.classes, request.training, model);
  model.forward = [net](const std::vector<at::Tensor>& inputs) { return net->forward(inputs[0]); };
  return model;
}

}  // namespace dgx::torch_bridge
