// GPT-2's layout: Radford and others, "Language models are unsupervised multitask learners", 2019; entries
// are named as in its published weights, but linear weights are [out, in] and the blocks have no prefix.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "experts.h"
#include "models.h"

namespace dgx::torch_bridge {
namespace {

constexpr double kEpsilon = 1e-5;

at::Tensor layer_norm(const Affine& norm, const at::Tensor& x) {
  return at::layer_norm(x, norm.weight.sizes(), norm.weight, norm.bias, kEpsilon, false);
}

struct Block {
  Affine norm_1, attention, attention_out, norm_2, up, down;
  std::optional<Experts> experts;  ///< instead of up and down
};

/// The experts that a decoder has, if it has any.
using MaybeExperts = std::optional<program::SwitchSpec>;

class Gpt {
 public:
  Gpt(const program::GptSpec& spec, MaybeExperts experts, lowering::CaptureRequest request, Model& model)
      : spec_(spec), mixture_(std::move(experts)), request_(std::move(request)), cut_(model.cut) {
    const std::int64_t width = spec.width;
    tokens_ = add_zeros(model.parameters, "wte.weight", {spec.vocab, width});
    positions_ = add_zeros(model.parameters, "wpe.weight", {spec.context, width});
    const auto linear = [&](const std::string& name, std::int64_t in, std::int64_t out) {
      return add_linear(model.parameters, name, in, out);
    };
    const auto norm = [&](const std::string& name) {
      const at::Tensor weight = add_zeros(model.parameters, name + ".weight", {width});
      return Affine{weight, add_zeros(model.parameters, name + ".bias", {width})};
    };
    for (std::int64_t n = 0; n < spec.layers; ++n) {
      const std::string h = fmt::format("h.{}.", n);
      Block& block = blocks_.emplace_back();
      block.norm_1 = norm(h + "ln_1");
      block.attention = linear(h + "attn.c_attn", width, 3 * width);
      block.attention_out = linear(h + "attn.c_proj", width, width);
      block.norm_2 = norm(h + "ln_2");
      if (mixture_ && (n + 1) % mixture_->every == 0) {
        block.experts.emplace(*mixture_, h + "mlp.", model.parameters);
      } else {
        block.up = linear(h + "mlp.c_fc", width, 4 * width);
        block.down = linear(h + "mlp.c_proj", 4 * width, width);
      }
    }
    norm_ = norm("ln_f");
    if (spec.tied) model.tied.push_back({"lm_head.weight", "wte.weight"});
    head_ = spec.tied ? tokens_ : add_zeros(model.parameters, "lm_head.weight", {spec.vocab, width});
  }

  [[nodiscard]] at::Tensor forward(const at::Tensor& input) {
    const std::int64_t length = input.size(1);
    length_ = length;
    balance_.reset();
    const at::Tensor places = length == spec_.context ? positions_ : positions_.slice(0, 0, length);
    at::Tensor x = drop(at::embedding(tokens_, input) + places);
    for (std::size_t n = 0; n < blocks_.size(); ++n) {
      const Block& block = blocks_[n];
      x = x + drop(attend(block, layer_norm(block.norm_1, x)));
      x = x + drop(perceive(block, layer_norm(block.norm_2, x)));
      x = behind_block(request_, static_cast<std::int64_t>(n) + 1, x, cut_);
    }
    return at::linear(layer_norm(norm_, x), head_);
  }

  /// The balance loss of the last forward pass, times its factor: dgx-lowerings(7), "Switch".
  [[nodiscard]] at::Tensor penalty() const {
    const auto length = static_cast<double>(length_), batch = static_cast<double>(balance_.size(0));
    const double even = mixture_->balance * static_cast<double>(mixture_->experts);
    return balance_.sum() * (even / (length * length * batch));
  }

 private:
  [[nodiscard]] at::Tensor drop(const at::Tensor& x) const {
    return spec_.dropout > 0 ? at::dropout(x, spec_.dropout, request_.training) : x;
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

  /// The perceptron, or the experts, of a block.
  [[nodiscard]] at::Tensor perceive(const Block& block, const at::Tensor& x) {
    if (!block.experts) return block.down.linear(at::gelu(block.up.linear(x), "tanh"));
    const auto [y, balance] = block.experts->forward(x);
    balance_ = balance_.defined() ? balance_ + balance : balance;
    return y;
  }

  program::GptSpec spec_;
  MaybeExperts mixture_;
  lowering::CaptureRequest request_;
  std::shared_ptr<CutTensors> cut_;
  std::int64_t length_ = 0;  ///< of the samples of the last forward pass
  at::Tensor balance_;       ///< [batch], of that pass, the sum of all blocks; undefined without experts
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

Result<Model> make_decoder(const program::GptSpec& spec, const MaybeExperts& experts,
                           const lowering::CaptureRequest& request, const lowering::BatchField& x) {
  DGX_CHECK(check_input(spec, request, x));
  Model model;
  const auto gpt = std::make_shared<Gpt>(spec, experts, request, model);
  model.forward = [gpt](const std::vector<at::Tensor>& inputs) { return gpt->forward(inputs[0]); };
  if (experts) model.index_bounds = IndexBounds::kKept;
  if (experts && experts->balance > 0) model.penalty = [gpt] { return gpt->penalty(); };
  return model;
}

}  // namespace

Result<Model> make_gpt(const program::GptSpec& spec, const lowering::CaptureRequest& request,
                       const lowering::BatchField& x) {
  return make_decoder(spec, std::nullopt, request, x);
}

Result<Model> make_switch(const program::SwitchSpec& spec, const lowering::CaptureRequest& request,
                          const lowering::BatchField& x) {
  return make_decoder(spec.decoder, spec, request, x);
}

}  // namespace dgx::torch_bridge
