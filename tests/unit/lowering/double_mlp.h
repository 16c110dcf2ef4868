#pragma once

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "dgx/lowering/lower.h"

namespace dgx::test {

/// A perceptron and its optimisers in plain double arithmetic, written from their definitions, to which a
/// lowering must come close.
class DoubleMlp {
 public:
  using Numbers = std::vector<double>;
  struct Sample {
    double loss;
    bool hit;
  };

  DoubleMlp(const lowering::CapturedGraph& graph, std::vector<std::int64_t> sizes,
            program::Activation activation, lowering::TrainingRecipe recipe)
      : sizes_(std::move(sizes)), activation_(activation), recipe_(std::move(recipe)) {
    for (const auto& source : graph.sources) {
      const auto numbers = source.value.as<float>();
      parameters_[source.name] = Numbers(numbers.begin(), numbers.end());
    }
  }

  [[nodiscard]] const std::map<std::string, Numbers>& parameters() const { return parameters_; }

  std::vector<Sample> evaluate(const Tensor& x, const Tensor& y) {
    std::vector<Sample> samples;
    for (std::int64_t n = 0; n < recipe_.batch; ++n) samples.push_back(sample(x, y, n));
    return samples;
  }

  /// Trains on the batch; returns the mean loss before that.
  double step(const Tensor& x, const Tensor& y) {
    gradients_.clear();
    for (const auto& [name, numbers] : parameters_) gradients_[name] = Numbers(numbers.size(), 0);
    double loss = 0;
    for (std::int64_t n = 0; n < recipe_.batch; ++n) {
      loss += sample(x, y, n).loss / static_cast<double>(recipe_.batch);
      backward();
    }
    clip();
    ++steps_;
    for (auto& [name, numbers] : parameters_) {
      for (std::size_t n = 0; n < numbers.size(); ++n) update(name, n, numbers[n]);
    }
    return loss;
  }

 private:
  [[nodiscard]] std::string layer_name(std::size_t layer, const char* what) const {
    return std::to_string(2 * layer) + what;
  }
  [[nodiscard]] double batch() const { return static_cast<double>(recipe_.batch); }

  [[nodiscard]] double activate(double v) const {
    switch (activation_) {
      case program::Activation::kRelu: return v > 0 ? v : 0;
      case program::Activation::kTanh: return std::tanh(v);
      case program::Activation::kSigmoid: return 1 / (1 + std::exp(-v));
      case program::Activation::kGelu: return v / 2 * (1 + std::erf(v / std::sqrt(2.0)));
      case program::Activation::kGeluTanh:
        return v / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
    }
    return v;
  }
  /// A central difference, which depends on no formula for the derivative.
  [[nodiscard]] double slope(double v) const {
    constexpr double kStep = 1e-5;
    return (activate(v + kStep) - activate(v - kStep)) / (2 * kStep);
  }

  Sample sample(const Tensor& x, const Tensor& y, std::int64_t n) {
    Numbers a;
    for (std::int64_t i = 0; i < sizes_[0]; ++i) {
      a.push_back(static_cast<double>(x.bytes()[static_cast<std::size_t>(n * sizes_[0] + i)]) *
                      static_cast<double>(recipe_.scale) +
                  static_cast<double>(recipe_.shift));
    }
    inputs_.assign(1, a);
    sums_.clear();
    for (std::size_t layer = 0; layer + 1 < sizes_.size(); ++layer) {
      const Numbers &w = parameters_[layer_name(layer, ".weight")],
                    &b = parameters_[layer_name(layer, ".bias")];
      Numbers z = b;
      for (std::size_t o = 0; o < z.size(); ++o) {
        for (std::size_t i = 0; i < a.size(); ++i) z[o] += w[o * a.size() + i] * a[i];
      }
      sums_.push_back(z);
      a = z;
      if (layer + 2 < sizes_.size()) {
        for (double& v : a) v = activate(v);
        inputs_.push_back(a);
      }
    }
    return recipe_.loss == program::LossKind::kCrossEntropy
               ? cross_entropy(a, y.bytes()[static_cast<std::size_t>(n)])
               : squares(a, y, n);
  }

  Sample cross_entropy(const Numbers& output, std::size_t label) {
    double total = 0;
    std::size_t best = 0;
    for (std::size_t o = 0; o < output.size(); ++o) {
      total += std::exp(output[o]);
      if (output[o] > output[best]) best = o;
    }
    delta_.clear();
    for (std::size_t o = 0; o < output.size(); ++o)
      delta_.push_back((std::exp(output[o]) / total - (o == label)) / batch());
    return {std::log(total) - output[label], best == label};
  }

  Sample squares(const Numbers& output, const Tensor& y, std::int64_t n) {
    double loss = 0;
    delta_.clear();
    const auto count = static_cast<double>(output.size());
    for (std::size_t o = 0; o < output.size(); ++o) {
      const double error =
          output[o] - static_cast<double>(y.as<float>()[static_cast<std::size_t>(n) * output.size() + o]);
      loss += error * error / count;
      delta_.push_back(2 * error / (count * batch()));
    }
    return {loss, false};
  }

  void backward() {
    Numbers delta = delta_;
    for (std::size_t layer = sizes_.size() - 1; layer-- > 0;) {
      const Numbers &w = parameters_[layer_name(layer, ".weight")], &a = inputs_[layer];
      Numbers below(a.size(), 0);
      for (std::size_t o = 0; o < delta.size(); ++o) {
        gradients_[layer_name(layer, ".bias")][o] += delta[o];
        for (std::size_t i = 0; i < a.size(); ++i) {
          gradients_[layer_name(layer, ".weight")][o * a.size() + i] += delta[o] * a[i];
          below[i] += delta[o] * w[o * a.size() + i];
        }
      }
      if (layer > 0) {
        for (std::size_t i = 0; i < below.size(); ++i) below[i] *= slope(sums_[layer - 1][i]);
      }
      delta = below;
    }
  }

  void clip() {
    if (!recipe_.clip_norm) return;
    double squares = 0;
    for (const auto& [name, numbers] : gradients_) {
      for (const double g : numbers) squares += g * g;
    }
    const double scale = std::min(1.0, *recipe_.clip_norm / (std::sqrt(squares) + 1e-6));
    for (auto& [name, numbers] : gradients_) {
      for (double& g : numbers) g *= scale;
    }
  }

  void update(const std::string& name, std::size_t n, double& p) {
    const auto& o = recipe_.optimizer;
    const auto slot = [&](const char* kind) -> double& {
      return moments_[kind + name].try_emplace(n, 0.0).first->second;
    };
    double g = gradients_[name][n];
    if (o.kind != program::OptimizerSpec::Kind::kAdamW) g += o.weight_decay * p;
    if (o.kind == program::OptimizerSpec::Kind::kSgd) {
      double& b = slot("b");
      b = o.momentum * b + g;
      const double u = o.momentum == 0 ? g : o.nesterov ? g + o.momentum * b : b;
      p -= o.learning_rate * u;
      return;
    }
    if (o.kind == program::OptimizerSpec::Kind::kAdamW) p *= 1 - o.learning_rate * o.weight_decay;
    double &m = slot("m"), &v = slot("v");
    m = o.beta1 * m + (1 - o.beta1) * g;
    v = o.beta2 * v + (1 - o.beta2) * g * g;
    const double unbiased_m = m / (1 - std::pow(o.beta1, steps_)),
                 unbiased_v = v / (1 - std::pow(o.beta2, steps_));
    p -= o.learning_rate * unbiased_m / (std::sqrt(unbiased_v) + o.epsilon);
  }

  std::vector<std::int64_t> sizes_;
  program::Activation activation_;
  lowering::TrainingRecipe recipe_;
  std::map<std::string, Numbers> parameters_, gradients_;
  std::map<std::string, std::map<std::size_t, double>> moments_;
  std::vector<Numbers> inputs_, sums_;
  Numbers delta_;
  int steps_ = 0;
};

}  // namespace dgx::test
