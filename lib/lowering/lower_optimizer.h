#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dgx/lowering/lower.h"
#include "dgx/program/specs.h"
#include "line_writer.h"
#include "worker_gradients.h"

namespace dgx::lowering {

/// Names of scheduled scalars (dgx-numerics(7), "Schedules").
inline constexpr const char* kMinusRate = "-lr";
inline constexpr const char* kMinusDecayedRate = "-lr/(1+s*ld)";
inline constexpr const char* kDecay = "1-lr*wd";

/// All of a value of the program.
[[nodiscard]] TensorForm form_at(const Builder& builder, kernels::ValueIndex value);

/// Writes the updates of parameters, one after another (dgx-lowerings(7), "Optimisers"). The step's scheduled
/// scalars come from one vector.
class OptimizerLowering {
 public:
  /// `factor`, f32 [], is that of the learning rate in this step, with the schedule plateau; else nullopt.
  OptimizerLowering(Builder& builder, const TrainingRecipe& recipe, const std::optional<TensorForm>& factor);

  /// `state` is the input `model/NAME`, a parameter of this group (0: none), `gradient` what seen() gave.
  /// Sets the input's `next`; makes the optimiser's entries for it and sets theirs.
  void update(const std::string& name, kernels::ValueIndex state, const TensorForm& gradient,
              std::size_t group);

  /// The gradient as an update sees it: this step's; or its mean with those of the steps before it since
  /// the last update, as far as they are done, for which this makes the entry that holds their sum and sets
  /// its `next`; or, for dgc, [workers, shape], each worker's (errors of WorkerGradients).
  [[nodiscard]] Result<TensorForm> seen(const std::string& name, kernels::ValueIndex state,
                                        const TensorForm& gradient);

 private:
  [[nodiscard]] TensorForm accumulated(const std::string& name, kernels::ValueIndex state,
                                       const TensorForm& gradient);
  void write(const std::string& name, kernels::ValueIndex state, const TensorForm& gradient);
  void average(const std::string& name, kernels::ValueIndex state);
  /// Sets the entry's `next`: this value in a step that updates, else the entry.
  void become(kernels::ValueIndex entry, const std::string& provenance, const TensorForm& value);
  void sgd(const std::string& name, kernels::ValueIndex state, const TensorForm& gradient);
  void adam(const std::string& name, kernels::ValueIndex state, const TensorForm& gradient);
  void lion(const std::string& name, kernels::ValueIndex state, const TensorForm& gradient);
  void rmsprop(const std::string& name, kernels::ValueIndex state, const TensorForm& gradient);
  void adagrad(const std::string& name, kernels::ValueIndex state, const TensorForm& gradient);
  void dgc(const std::string& name, kernels::ValueIndex state, const TensorForm& gradients);
  /// The scheduled scalar `name` of the parameter's group.
  Expression scheduled(LineWriter& line, const std::string& name) const;
  /// The parameter after decoupled decay: p (1 - lr wd).
  Expression shrunk(LineWriter& line, const Expression& parameter) const;
  Expression decayed(LineWriter& line, const TensorForm& gradient, const TensorForm& parameter) const;

  Builder& builder_;
  /// By group, 0 for parameters without one: the optimiser with the group's decay.
  std::vector<program::OptimizerSpec> specs_;
  program::OptimizerSpec spec_;  ///< that of the parameter being updated
  std::size_t group_ = 0;        ///< its group
  std::int64_t accumulate_;
  std::optional<double> ema_;
  std::optional<WorkerGradients> workers_;  ///< dgc
  TensorForm updates_;                      ///< i64 []: not 0 in a step that updates, if not all do
  std::vector<std::string> names_;
  kernels::ValueIndex schedule_;
  std::optional<TensorForm> rates_;  ///< with plateau: the schedule's numbers times the factor
};

/// Writes the schedule plateau (dgx-lowerings(7), "Plateau"): makes its four entries and sets their `next`.
/// `loss` is the step's, f32 []. The result, f32 [], is the factor of the learning rate in this step.
[[nodiscard]] TensorForm lower_plateau(Builder& builder, const TrainingRecipe& recipe,
                                       const TensorForm& loss);

/// The gradients scaled by min(1, bound / (norm + 1e-6)), where the norm is that of all of them together.
[[nodiscard]] std::vector<TensorForm> clip_gradients(Builder& builder,
                                                     const std::vector<TensorForm>& gradients, double bound);

}  // namespace dgx::lowering
