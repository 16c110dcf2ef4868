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
#include "dgx/program/update_spec.h"

namespace dgx::program {

/// Specs: a model, an optimiser, a schedule and a loss as a user types them (dgx-submit(1), "SPEC"), as
/// values.
///
/// parse_* gives kUsage with the word that is wrong. to_json writes every field, floats as hex
/// (number_text.h), and from_json accepts exactly that (kMalformed with the field).

/// The most steps of a task, and so of all that counts them.
inline constexpr std::int64_t kMostTaskSteps = std::int64_t{1} << 40;

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

/// `switch:layers=6,width=384,heads=6,context=256,vocab=256,experts=4,capacity=1.25,balance=0.01,every=2`: a
/// mixture of experts (Fedus, Zoph and Shazeer, "Switch Transformers", 2021), a decoder in which some blocks
/// have experts for their perceptron. The fields of gpt are there, too.
struct SwitchSpec {
  GptSpec decoder;
  std::int64_t experts = 4;  ///< of a block that has some; at most kMaxExperts in all blocks
  double capacity = 1.25;    ///< slots of an expert, in multiples of a sample's tokens over experts; above 0
  double balance = 0.01;     ///< factor of the balance loss; 0: none
  std::int64_t every = 2;    ///< the last of so many blocks has experts; at most layers
  bool operator==(const SwitchSpec&) const = default;
};
/// A program's lines would not do for more.
inline constexpr std::int64_t kMaxExperts = 1024;

using ModelSpec = std::variant<MlpSpec, ResNetSpec, GptSpec, SwitchSpec>;
enum class ModelKind { kMlp, kResNet20, kGpt, kSwitch };
/// The decoder that a spec describes, which takes tokens; null: it takes numbers.
[[nodiscard]] GptSpec* decoder_of(ModelSpec& spec);
[[nodiscard]] const GptSpec* decoder_of(const ModelSpec& spec);
/// The built-in model that `text` names (rather than a TorchScript file), by its part before `:`.
[[nodiscard]] std::optional<ModelKind> model_kind(std::string_view text);
[[nodiscard]] bool is_model_spec(std::string_view text);
[[nodiscard]] Result<ModelSpec> parse_model_spec(std::string_view text);
/// A hint for a text that is neither a spec nor a file: the built-in model that was probably meant, or all.
[[nodiscard]] std::string hint_for_model(std::string_view text);
/// The canonical spec, which parses to the same value. For mlp, defaults are left out; for all others
/// every field that is not 0 or off, and balance, is written, as a task should not depend on defaults.
/// Numbers are the shortest decimals that read back to the same binary64.
[[nodiscard]] std::string print_model_spec(const ModelSpec& spec);

/// `sgd:lr=0.1,momentum=0.9,nesterov,weight-decay=5e-4`,
/// `adam:lr=1e-3,betas=0.9/0.999,eps=1e-8,weight-decay=0`, `adamw:…`,
/// `lion:lr=1e-4,betas=0.9/0.99,weight-decay=0`,
/// `rmsprop:lr=1e-2,alpha=0.99,eps=1e-8,momentum=0,centered,weight-decay=0`,
/// `adagrad:lr=1e-2,lr-decay=0,weight-decay=0,eps=1e-10,initial=0`,
/// `dgc:lr=1e-3,momentum=0.9,density=0.001,warmup=0,clip=1,bits=8,weight-decay=0`. Defaults are torch's. A
/// field that the kind does not have keeps its default.
struct OptimizerSpec {
  enum class Kind { kSgd, kAdam, kAdamW, kLion, kRmsProp, kAdagrad, kDgc };
  Kind kind = Kind::kSgd;
  double learning_rate = 1e-3;      ///< lion: 1e-4; rmsprop, adagrad: 1e-2
  double momentum = 0;              ///< sgd, rmsprop; dgc: 0.9, below 1
  bool nesterov = false;            ///< sgd, needs momentum
  double weight_decay = 0;          ///< adamw: 0.01
  double beta1 = 0.9;               ///< adam, adamw, lion
  double beta2 = 0.999;             ///< adam, adamw; lion: 0.99
  double epsilon = 1e-8;            ///< adam, adamw, rmsprop; adagrad: 1e-10
  double alpha = 0.99;              ///< rmsprop: what a mean keeps in a step, below 1
  bool centered = false;            ///< rmsprop: takes the mean's square from the mean square
  double rate_decay = 0;            ///< adagrad
  double initial = 0;               ///< adagrad: what a sum of squares begins with
  double density = 0.001;           ///< dgc: the share of a tensor's numbers that a worker sends, above 0
  std::int64_t density_warmup = 0;  ///< dgc: steps in which it falls to that
  std::optional<double> clip;       ///< dgc: bound of a gradient's norm, above 0
  std::int64_t bits = 0;            ///< dgc: significant bits of what is sent, 8; 0: all
  bool operator==(const OptimizerSpec&) const = default;
};
[[nodiscard]] Result<OptimizerSpec> parse_optimizer_spec(std::string_view text);
[[nodiscard]] json::Value to_json(const OptimizerSpec& spec);
[[nodiscard]] Result<OptimizerSpec> optimizer_from_json(const json::Value& value, const std::string& where);

/// The schedule of a task, whose fields do not depend on anything else. Unit: steps, or updates where a task
/// accumulates gradients; `minimum`, `start` and
/// `end` are learning rates. A field that the kind does not have keeps its default.
struct ScheduleSpec {
  kernels::ScheduleKind kind = kernels::ScheduleKind::kConstant;
  std::int64_t every = 30;  ///< step: steps between two decays; plateau: steps of a window, no default
  double gamma = 0.1;       ///< step: factor of a decay
  std::int64_t warmup = 0;  ///< steps of linear rise; not of one-cycle
  double minimum = 0;       ///< cosine, linear, polynomial, wsd: the last learning rate; plateau: the least
  std::int64_t cycles = 1;  ///< cosine: how often it falls
  double exponent = 1;      ///< polynomial: a multiple of 0.5
  std::int64_t decay = 1;   ///< wsd: steps of the fall
  double start = 0;         ///< one-cycle
  double end = 0;           ///< one-cycle
  double up = 0.3;          ///< one-cycle: the share of all steps in which the rate rises
  double factor = 0.1;      ///< plateau: of a fall
  double threshold = 1e-4;  ///< plateau: share of the best mean loss by which a window must be below it
  std::int64_t patience = 10;  ///< plateau: windows that may be no better before the rate falls
  std::int64_t cooldown = 0;   ///< plateau: windows after a fall that do not count
  bool operator==(const ScheduleSpec&) const = default;
};

/// A schedule as typed: `constant`, `step:every=30,gamma=0.1`, `cosine:cycles=4,min=0`, `linear:min=0`,
/// `polynomial:power=2,min=0`, `inverse-sqrt:warmup=100`, `wsd:decay=10%,min=0`,
/// `one-cycle:up=0.3,start=0.004,end=1e-6`,
/// `plateau:every=100,factor=0.1,patience=10,threshold=1e-4,cooldown=0,min=0`; all but one-cycle take
/// `warmup=100` or `warmup=5%`. What depends on the task is still open.
struct ScheduleText {
  ScheduleSpec spec;
  std::optional<double> warmup_percent;  ///< of the task's steps; then spec.warmup does not count
  std::optional<double> decay_percent;
  bool has_start = false;  ///< else it follows from the learning rate
  bool has_end = false;
};
[[nodiscard]] Result<ScheduleText> parse_schedule_text(std::string_view text);
/// Fixes what is open for a task of so many steps, or updates, with this learning rate: shares to the nearest
/// number of them, a start to a 25th of the rate, an end to a 10,000th of the start. kUsage if a share above
/// 0 is less than half a step.
[[nodiscard]] Result<ScheduleSpec> fix_schedule(const ScheduleText& text, double learning_rate,
                                                std::int64_t steps);
[[nodiscard]] json::Value to_json(const ScheduleSpec& spec);
[[nodiscard]] Result<ScheduleSpec> schedule_from_json(const json::Value& value, const std::string& where);

/// The parameters from which a step's schedule input is computed, of a task of so many steps. kUsage if they
/// do not fit together (kernels::check_schedule).
[[nodiscard]] Result<kernels::ScheduleParameters> schedule_parameters(const OptimizerSpec& optimizer,
                                                                      const ScheduleSpec& schedule,
                                                                      std::int64_t total_steps,
                                                                      const UpdateSpec& update = {});

enum class LossKind {
  kCrossEntropy,
  kMeanSquaredError,
  kBinaryCrossEntropy,
  kHuber,
  kL1,
  kOutput,  ///< computed by the model itself
};
/// "cross-entropy", "mse", "bce", "huber", "l1", "output"
[[nodiscard]] std::string_view name_of(LossKind loss);

inline constexpr std::size_t kMaxClassWeights = 128;

/// Bytes of the name of a model's output.
inline constexpr std::size_t kMaxOutputName = 128;

/// `mse`, `l1`, `huber[:delta=1]`, `bce[:pos-weights=1/2/0.5]`,
/// `cross-entropy[:label-smoothing=0.1,ignore=255,weights=1/2/0.5]`, with the meaning of torch's functions
/// and reduction "mean"; `output`, `output=loss`. As JSON a loss without options is its name alone.
struct LossSpec {
  LossSpec(LossKind which = LossKind::kCrossEntropy)
      : kind(which) {}  // NOLINT: a kind is a loss without options
  LossKind kind;
  double label_smoothing = 0;          ///< 0 to 1
  std::optional<std::int64_t> ignore;  ///< label of targets that do not count
  /// One per class, at most kMaxClassWeights; empty: all 1. bce: of targets of 1, one per number in the
  /// output's last dimension, or one for all.
  std::vector<double> weights;
  double delta = 1;    ///< huber: 1e-30 to 1e30
  std::string output;  ///< output: which of several outputs of the model; empty: the only one
  [[nodiscard]] bool is_plain() const {
    return label_smoothing == 0 && !ignore && weights.empty() && delta == 1 && output.empty();
  }
  bool operator==(const LossSpec&) const = default;
};
[[nodiscard]] Result<LossSpec> parse_loss_spec(std::string_view text);
[[nodiscard]] json::Value to_json(const LossSpec& spec);
[[nodiscard]] Result<LossSpec> loss_from_json(const json::Value& value, const std::string& where);

}  // namespace dgx::program
