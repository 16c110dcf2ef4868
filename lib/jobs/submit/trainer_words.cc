#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "dgx/core/text.h"
#include "dgx/jobs/submit.h"

namespace dgx::jobs {
namespace {

using program::OptimizerSpec;
using Kind = OptimizerSpec::Kind;
using kernels::ScheduleKind;

/// The options of a task in the words of transformers' TrainingArguments, and in ours what these lack.
class Words {
 public:
  explicit Words(const manifest::Task& task) : task_(task) {}

  std::string all() {
    say("max_steps", task_.steps / task_.update.accumulate);
    say("per_device_train_batch_size", task_.batch);
    if (task_.update.accumulate > 1) say("gradient_accumulation_steps", task_.update.accumulate);
    optimizer(task_.optimizer);
    schedule(task_.schedule);
    say("max_grad_norm", decimal(task_.clip_norm.value_or(0)));
    if (task_.loss.label_smoothing > 0) say("label_smoothing_factor", decimal(task_.loss.label_smoothing));
    say("seed", task_.seed);
    said_.emplace_back("--dataloader_drop_last True");
    updates();
    const std::string rest = fmt::format("{}", fmt::join(rest_, ", "));
    return fmt::format("{}{}{}", fmt::join(said_, " "), rest.empty() ? "" : "; without words there: ", rest);
  }

 private:
  template <class T>
  void say(const char* name, const T& value) {
    said_.push_back(fmt::format("--{} {}", name, value));
  }
  void lacks(std::string words) { rest_.push_back(std::move(words)); }
  /// Says a number that TrainingArguments cannot change.
  void fixed(const char* name, double value, double theirs) {
    if (value != theirs) lacks(fmt::format("{}={}", name, decimal(value)));
  }

  void optimizer(const OptimizerSpec& spec) {
    // Adam without decay is AdamW without decay.
    const bool is_plain_adam = spec.kind == Kind::kAdam && spec.weight_decay == 0;
    switch (spec.kind) {
      case Kind::kSgd: say("optim", "sgd"); break;
      case Kind::kAdam: is_plain_adam ? say("optim", "adamw_torch") : lacks("optimizer adam"); break;
      case Kind::kAdamW: say("optim", "adamw_torch"); break;
      case Kind::kLion: say("optim", "lion_32bit"); break;
      case Kind::kRmsProp: say("optim", "rmsprop"); break;
      case Kind::kAdagrad: say("optim", "adagrad"); break;
      case Kind::kDgc: lacks(fmt::format("optimizer dgc, density={}", decimal(spec.density))); break;
    }
    say("learning_rate", decimal(spec.learning_rate));
    say("weight_decay", decimal(spec.weight_decay));
    const bool is_adam = spec.kind == Kind::kAdam || spec.kind == Kind::kAdamW;
    if (is_adam || spec.kind == Kind::kLion) {
      say("adam_beta1", decimal(spec.beta1));
      say("adam_beta2", decimal(spec.beta2));
    }
    if (is_adam) say("adam_epsilon", decimal(spec.epsilon));
    if (spec.nesterov) lacks("nesterov");
    if (spec.centered) lacks("centered");
    const OptimizerSpec theirs;
    fixed("momentum", spec.momentum, theirs.momentum);
    fixed("alpha", spec.alpha, theirs.alpha);
    fixed("lr-decay", spec.rate_decay, theirs.rate_decay);
    fixed("initial", spec.initial, theirs.initial);
    if (spec.kind == Kind::kRmsProp) fixed("eps", spec.epsilon, 1e-8);
    if (spec.kind == Kind::kAdagrad) fixed("eps", spec.epsilon, 1e-10);
  }

  void schedule(const program::ScheduleSpec& spec) {
    const auto named = [&](const char* type, const std::string& more = {}) {
      say("lr_scheduler_type", type);
      if (!more.empty()) said_.push_back(fmt::format("--lr_scheduler_kwargs '{{{}}}'", more));
      if (spec.warmup > 0) say("warmup_steps", spec.warmup);
    };
    const std::string least = decimal(spec.minimum);
    switch (spec.kind) {
      case ScheduleKind::kConstant: return named(spec.warmup > 0 ? "constant_with_warmup" : "constant");
      case ScheduleKind::kLinear:
        if (spec.minimum == 0) return named("linear");
        return named("polynomial", fmt::format(R"("power": 1, "lr_end": {})", least));
      case ScheduleKind::kPolynomial:
        return named("polynomial",
                     fmt::format(R"("power": {}, "lr_end": {})", decimal(spec.exponent), least));
      case ScheduleKind::kCosine:
        if (spec.cycles > 1) {
          named("cosine_with_restarts", fmt::format(R"("num_cycles": {})", spec.cycles));
          return fixed("min", spec.minimum, 0);
        }
        if (spec.minimum == 0) return named("cosine");
        return named("cosine_with_min_lr", fmt::format(R"("min_lr": {})", least));
      case ScheduleKind::kInverseSqrt: return named("inverse_sqrt");
      case ScheduleKind::kWsd:
        return named("warmup_stable_decay",
                     fmt::format(R"("num_decay_steps": {}, "decay_type": "linear", "min_lr_ratio": {})",
                                 spec.decay, decimal(spec.minimum / task_.optimizer.learning_rate)));
      default: return lacks(fmt::format("schedule {}", kernels::name_of(spec.kind)));
    }
  }

  void updates() {
    const program::UpdateSpec& update = task_.update;
    for (const program::ParameterGroup& group : update.groups) lacks("--group " + group.match);
    for (const std::string& pattern : update.frozen) lacks("--freeze " + pattern);
    if (task_.cut) lacks(fmt::format("--cut {}", task_.cut->block));
    if (update.ema) lacks("--ema " + decimal(*update.ema));
    const bool spares = std::ranges::any_of(update.groups, [](const program::ParameterGroup& group) {
      return group.match.starts_with("rank<") && group.weight_decay == 0.0;
    });
    if (task_.optimizer.weight_decay != 0 && !spares) lacks("weight decay of biases and norms");
  }

  const manifest::Task& task_;
  std::vector<std::string> said_, rest_;
};

}  // namespace

std::string trainer_words(const manifest::Task& task) { return Words(task).all(); }

}  // namespace dgx::jobs
