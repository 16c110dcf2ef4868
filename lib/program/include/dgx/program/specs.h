#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "dgx/core/json.h"
#include "dgx/core/result.h"
#include "dgx/kernels/schedule.h"

namespace dgx::program {

/// Specs: a model, an optimiser, a schedule and a loss as a user types them (dgx-submit(1), "SPEC"), as
/// values.
///
/// parse_* gives kUsage with the word that is wrong. to_json writes every field, floats as hex
/// (number_text.h), and from_json accepts exactly that (kMalformed with the field).

enum class Activation { kRelu, kGelu, kGeluTanh, kTanh, kSigmoid };
[[nodiscard]] std::string_view name_of(
    Activation activation);  ///< "relu", "gelu", "gelu-tanh", "tanh", "sigmoid"

/// `mlp:784-256-128-10[,activation=gelu]`: fully connected layers with biases, and the activation (by default
/// ReLU) between them.
struct MlpSpec {
  std::vector<std::int64_t> sizes;  ///< at least two: inputs, hidden …, outputs
  Activation activation = Activation::kRelu;
  bool operator==(const MlpSpec&) const = default;
};

/// `resnet20[:classes=10]`: the residual network for small images of He, Zhang, Ren and Sun (2015), section
/// 4.2.
struct ResNetSpec {
  std::int64_t classes = 0;  ///< 0: taken from the labels
  bool operator==(const ResNetSpec&) const = default;
};

/// `gpt:layers=6,width=384,heads=6,context=256,vocab=256,dropout=0[,tied]`: a decoder in GPT-2's layout.
struct GptSpec {
  std::int64_t layers = 6;
  std::int64_t width = 384;  ///< a multiple of heads
  std::int64_t heads = 6;
  std::int64_t context = 0;  ///< positions; 0: as many as a sample has tokens
  std::int64_t vocab = 256;
  double dropout = 0;  ///< from 0 to below 1
  bool tied = false;   ///< the head's weight is the token embedding
  bool operator==(const GptSpec&) const = default;
};

using ModelSpec = std::variant<MlpSpec, ResNetSpec, GptSpec>;
enum class ModelKind { kMlp, kResNet20, kGpt };
/// The built-in model that `text` names (rather than a TorchScript file), by its part before `:`.
[[nodiscard]] std::optional<ModelKind> model_kind(std::string_view text);
[[nodiscard]] bool is_model_spec(std::string_view text);
[[nodiscard]] Result<ModelSpec> parse_model_spec(std::string_view text);
/// A hint for a text that is neither a spec nor a file: the built-in model that was probably meant, or all.
[[nodiscard]] std::string hint_for_model(std::string_view text);
/// The canonical spec, which parses to the same value. For mlp, defaults are left out; for gpt and resnet20
/// every field that is not 0 or off is written, as a task should not depend on defaults. Numbers are the
/// shortest decimals that read back to the same binary64.
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
[[nodiscard]] json::Value to_json(const ScheduleSpec& spec);
[[nodiscard]] Result<ScheduleSpec> schedule_from_json(const json::Value& value, const std::string& where);

/// The parameters from which a step's schedule input is computed. kUsage if they do not fit together
/// (kernels::check_schedule).
[[nodiscard]] Result<kernels::ScheduleParameters> schedule_parameters(const OptimizerSpec& optimizer,
                                                                      const ScheduleSpec& schedule,
                                                                      std::int64_t total_steps);

enum class LossKind {
  kCrossEntropy,
  kMeanSquaredError,
  kOutput,  ///< computed by the model itself
};
[[nodiscard]] std::string_view name_of(LossKind loss);  ///< "cross-entropy", "mse", "output"

inline constexpr std::size_t kMaxClassWeights = 128;

/// Bytes of the name of a model's output.
inline constexpr std::size_t kMaxOutputName = 128;

/// `mse`, `cross-entropy[:label-smoothing=0.1,ignore=255,weights=1/2/0.5]`, with the meaning of torch's
/// cross_entropy and reduction "mean"; `output`, `output=loss`. As JSON a loss without options is its name
/// alone.
struct LossSpec {
  LossSpec(LossKind which = LossKind::kCrossEntropy)
      : kind(which) {}  // NOLINT: a kind is a loss without options
  LossKind kind;
  double label_smoothing = 0;          ///< 0 to 1
  std::optional<std::int64_t> ignore;  ///< label of targets that do not count
  std::vector<double> weights;         ///< one per class, at most kMaxClassWeights; empty: all 1
  std::string output;                  ///< output: which of several outputs of the model; empty: the only one
  [[nodiscard]] bool is_plain() const {
    return label_smoothing == 0 && !ignore && weights.empty() && output.empty();
  }
  bool operator==(const LossSpec&) const = default;
};
[[nodiscard]] Result<LossSpec> parse_loss_spec(std::string_view text);
[[nodiscard]] json::Value to_json(const LossSpec& spec);
[[nodiscard]] Result<LossSpec> loss_from_json(const json::Value& value, const std::string& where);

}  // namespace dgx::program
