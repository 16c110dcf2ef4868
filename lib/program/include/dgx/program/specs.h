#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dgx/core/json.h"
#include "dgx/core/result.h"
#include "dgx/kernels/schedule.h"

namespace dgx::program {

/// What a user types for a model, an optimiser, a schedule and a loss (dgx-submit(1), "SPEC"), as values.
///
/// parse_* gives kUsage with the word that is wrong. print_* gives the canonical spec: defaults are left out,
/// numbers are the shortest decimal that reads back to the same binary64, so that parse(print(x)) == x.
/// to_json writes every field, floats as hex (number_text.h), and from_json accepts exactly that (kMalformed
/// with the field).

enum class Activation { kRelu, kGelu, kGeluTanh, kTanh, kSigmoid };
[[nodiscard]] std::string_view name_of(
    Activation activation);  ///< "relu", "gelu", "gelu-tanh", "tanh", "sigmoid"

/// `mlp:784-256-128-10[,activation=gelu]`: fully connected layers with biases, the activation between them,
/// ReLU unless said. `resnet20` and `gpt:…` are known names and refused as not built yet.
struct ModelSpec {
  std::vector<std::int64_t> sizes;  ///< at least two: inputs, hidden …, outputs
  Activation activation = Activation::kRelu;
  bool operator==(const ModelSpec&) const = default;
};
/// Whether `text` names a built-in model (rather than a TorchScript file): its part before `:` is mlp,
/// resnet20 or gpt.
[[nodiscard]] bool is_model_spec(std::string_view text);
[[nodiscard]] Result<ModelSpec> parse_model_spec(std::string_view text);
[[nodiscard]] std::string print_model_spec(const ModelSpec& spec);

/// `sgd:lr=0.1,momentum=0.9,nesterov,weight-decay=5e-4`,
/// `adam:lr=1e-3,betas=0.9/0.999,eps=1e-8,weight-decay=0`, `adamw:…`. Defaults are torch's.
struct OptimizerSpec {
  enum class Kind { kSgd, kAdam, kAdamW };
  Kind kind = Kind::kSgd;
  double learning_rate = 1e-3;
  double momentum = 0;      ///< sgd
  bool nesterov = false;    ///< sgd, needs momentum
  double weight_decay = 0;  ///< adamw: 0.01
  double beta1 = 0.9;       ///< adam, adamw
  double beta2 = 0.999;
  double epsilon = 1e-8;
  bool operator==(const OptimizerSpec&) const = default;
};
[[nodiscard]] Result<OptimizerSpec> parse_optimizer_spec(std::string_view text);
[[nodiscard]] std::string print_optimizer_spec(const OptimizerSpec& spec);
[[nodiscard]] json::Value to_json(const OptimizerSpec& spec);
[[nodiscard]] Result<OptimizerSpec> optimizer_from_json(const json::Value& value, const std::string& where);

/// `constant`, `step:every=30,gamma=0.1`, `cosine:warmup=100,min=0`, `linear:warmup=100`; each takes
/// `warmup`. Unit: steps; `min` is a learning rate.
struct ScheduleSpec {
  kernels::ScheduleKind kind = kernels::ScheduleKind::kConstant;
  std::int64_t every = 30;  ///< step: steps between two decays
  double gamma = 0.1;       ///< step: factor of a decay
  std::int64_t warmup = 0;  ///< steps of linear rise
  double minimum = 0;       ///< cosine, linear: the last learning rate
  bool operator==(const ScheduleSpec&) const = default;
};
[[nodiscard]] Result<ScheduleSpec> parse_schedule_spec(std::string_view text);
[[nodiscard]] std::string print_schedule_spec(const ScheduleSpec& spec);
[[nodiscard]] json::Value to_json(const ScheduleSpec& spec);
[[nodiscard]] Result<ScheduleSpec> schedule_from_json(const json::Value& value, const std::string& where);

/// What the schedule input of a step is computed from. kUsage if they do not fit together
/// (kernels::check_schedule).
[[nodiscard]] Result<kernels::ScheduleParameters> schedule_parameters(const OptimizerSpec& optimizer,
                                                                      const ScheduleSpec& schedule,
                                                                      std::int64_t total_steps);

enum class LossKind { kCrossEntropy, kMeanSquaredError };
[[nodiscard]] std::string_view name_of(LossKind loss);  ///< "cross-entropy", "mse"
[[nodiscard]] Result<LossKind> parse_loss(std::string_view text);

}  // namespace dgx::program
