#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cases.h"

namespace dgx::test {

/// A case's model in libtorch itself. Exposes no libtorch type; libtorch's exceptions become errors.
class Eager {
 public:
  /// Makes a module of this TorchScript with the case's parameters and buffers, filled by `seed`. If
  /// `with_draws`, random inputs are buffers, zero until set.
  [[nodiscard]] static Result<std::unique_ptr<Eager>> create(const Case& one, const std::string& source,
                                                             std::uint32_t seed, bool with_draws);
  ~Eager();

  [[nodiscard]] Status save(const std::string& path);
  void set_buffer(const std::string& name, const Tensor& value);
  [[nodiscard]] Tensor entry(const std::string& name) const;

  /// The output of forward() in evaluation mode.
  [[nodiscard]] Result<Tensor> evaluate(const Tensor& x);

  struct Step {
    float loss = 0;
    /// One per parameter; nullopt: the loss does not depend on it.
    std::vector<std::optional<Tensor>> gradients;
  };
  /// Takes one step in training mode by gradient descent on the mean squared error. Changes parameters and
  /// buffers.
  [[nodiscard]] Result<Step> train(const Tensor& x, const Tensor& y, double learning_rate);

 private:
  struct Impl;
  explicit Eager(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dgx::test
