// GPT-2's layout: Radford and others, "Language models are unsupervised multitask learners", 2019; entries
// are named as in its published weights, but linear weights are [out, in] and the blocks have no prefix.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <memory>

#include "models.h"

namespace dgx::torch_bridge {
namespace {

constexpr double kEpsilon = 1e-5;

struct Affine {
  at::Tensor weight, bias;
  [[nodiscard]] at::Tensor linear(const at::Tensor& x) const { return at::linear(x, weight, bias); }
  [[nodiscard]] at::Tensor layer_norm(const at::Tensor& x) const {
    return at::layer_norm(x, weight.sizes(), weight, bias, kEpsilon, false);
  }
};

struct Block {
  Affine norm_1, attention, attention_out, norm_2, up, down;
};

class Gpt {
 public:
  Gpt(const program::GptSpec& spec, bool training, Model& model) : spec_(spec), training_(training) {
    const std::int64_t width = spec.width;
    tokens_ = add_zeros(model.parameters, "wte.weight", {spec.vocab, width});
    positions_ = add_zeros(model.parameters, "wpe.weight", {spec.context, width});
    const auto linear = [&](const std::string& name, std::int64_t in, std::int64_t out) {
      const at::Tensor weight = add_zeros(model.parameters, name + ".weight", {out, in});
      return Affine{weight, add_zeros(model.parameters, name + ".bias", {out})};
    };
    const auto norm = [&](const std::string& name) {
      const at::Tensor weight = add_zeros(model.parameters, name + ".weight", {width});
      return Affine{weight, add_zeros(model.parameters, name + ".bias", {width})};
    };
    for (std::int64_t n = 0; n < spec.layers; ++n) {
      const std::string h = fmt::format("h.{}.", n);
      blocks_.push_back({norm(h + "ln_1"), linear(h + "attn.c_attn", width, 3 * width),
                         linear(h + "attn.c_proj", width, width), norm(h + "ln_2"),
                         linear(h + "mlp.c_fc", width, 4 * width),
                         linear(h + "mlp.c_proj", 4 * width, width)});
    }
    norm_ = norm("ln_f");
    if (spec.tied) model.tied.push_back({"lm_head.weight", "wte.weight"});
    head_ = spec.tied ? tokens_ : add_zeros(model.parameters, "lm_head.weight", {spec.vocab, width});
  }

  [[nodiscard]] at::Tensor forward(const at::Tensor& input) const {
    const std::int64_t length = input.size(1);
    const at::Tensor places = length == spec_.context ? positions_ : positions_.slice(0, 0, length);
    at::Tensor x = drop(at::embedding(tokens_, input) + places);
    for (const Block& block : blocks_) {
      x = x + drop(attend(block, block.norm_1.layer_norm(x)));
      x = x + drop(block.down.linear(at::gelu(block.up.linear(block.norm_2.layer_norm(x)), "tanh")));
    }
    return at::linear(norm_.layer_norm(x), head_);
  }

 private:
  [[nodiscard]] at::Tensor drop(const at::Tensor& x) const {
    return spec_.dropout > 0 ? at::dropout(x, spec_.dropout, training_) : x;
  }

  /// Attention by its definition: softmax(q kᵀ / √d, causal) v for each head.
  [[nodiscard]] at::Tensor attend(const Block& block, const at::Tensor& x) const {
    const std::int64_t batch = x.size(0), length = x.size(1), width = spec_.width, heads = spec_.heads;
    const std::int64_t size = width / heads;
    const auto parts = block.attention.linear(x).split(width, 2);
    const auto by_head = [&](const at::Tensor& part) {
      return part.view({batch, length, heads, size}).transpose(1, 2);
    };
    const at::Tensor q = by_head(parts[0]), k = by_head(parts[1]), v = by_head(parts[2]);
    const at::Tensor scores = at::matmul(q, k.transpose(2, 3)) / std::sqrt(static_cast<double>(size));
    const at::Tensor place = at::arange(length, at::kLong);
    const at::Tensor later = place > place.view({length, 1});
    const at::Tensor masked = scores.masked_fill(later, -std::numeric_limits<double>::infinity());
    const at::Tensor mixed = at::matmul(drop(at::softmax(masked, 3)), v);
    return block.attention_out.linear(mixed.transpose(1, 2).reshape({batch, length, width}));
  }

  program::GptSpec spec_;
  bool training_;
  at::Tensor tokens_, positions_, head_;
  std::vector<Block> blocks_;
  Affine norm_;
};

Status check_input(const program::GptSpec& spec, const lowering::CaptureRequest& request,
                   const lowering::BatchField& x) {
  if (x.dtype == DType::kF32 || x.shape.size() != 2)
    return usage_error(fmt::format("model '{}' takes tokens, integers [batch, positions]; the input is {} {}",
                                   request.model, name_of(x.dtype), to_string(x.shape)));
  if (spec.context < x.shape[1])
    return usage_error(fmt::format("model '{}' has a context of {}, a sample has {} tokens", request.model,
                                   spec.context, x.shape[1]));
  return {};
}

}  // namespace

Result<Model> make_gpt(const program::GptSpec& spec, const lowering::CaptureRequest& request,
                       const lowering::BatchField& x) {
  DGX_CHECK(check_input(spec, request, x));
  Model model;
  const auto gpt = std::make_shared<Gpt>(spec, request.training, model);
  model.forward = [gpt](const std::vector<at::Tensor>& inputs) { return gpt->forward(inputs[0]); };
  return model;
}

}  // namespace dgx::torch_bridge
