#pragma once

#include <cstdint>
#include <string>

#include "builder.h"
#include "dgx/core/result.h"
#include "dgx/program/classes.h"
#include "tensor_form.h"

namespace dgx::lowering {

/// The gradients of a step's workers, each by itself (dgx-lowerings(7), "Workers"), for an optimiser that
/// does not take their sum.
///
/// A gradient is followed back through the builder's lines to the folds over samples that it is made of.
/// These are written anew, a worker's share of the batch in each row, and so are the lines behind them, which
/// must be linear in what is folded: then the rows add up to the gradient. It does not matter whether the
/// step needs the whole fold, too, as for a batch norm.
class WorkerGradients {
 public:
  /// The batch has so many samples, which the workers divide. `builder` must outlive this.
  WorkerGradients(Builder& builder, std::int64_t samples, std::int64_t workers)
      : builder_(builder), samples_(samples), workers_(workers) {}

  /// The gradient of each worker, [workers, the gradient's shape]; of a single worker, the gradient itself.
  /// kUsage with the parameter's name and the line that stands between its gradient and a fold over samples,
  /// or that has no room for another dimension. Cost: linear in the text since the last call.
  [[nodiscard]] Result<TensorForm> of(const std::string& name, const TensorForm& gradient);

  [[nodiscard]] std::int64_t workers() const { return workers_; }

 private:
  /// The way in which a value has rows of workers.
  enum class Division : std::uint8_t { kNone, kFolds, kLinear };

  void classify_new_lines();
  [[nodiscard]] Division division_of(const kernels::Primitive& line, program::SampleClass of) const;
  /// Writes the rows of a value that has some, and of those that it is made of.
  kernels::ValueIndex rows_of(kernels::ValueIndex value);
  /// The line with a dimension of workers, reading the rows of what is divided.
  [[nodiscard]] kernels::Primitive line_of_rows(const kernels::Primitive& line) const;
  [[nodiscard]] Error refusal(const std::string& name, kernels::ValueIndex value) const;

  Builder& builder_;
  std::int64_t samples_, workers_;
  kernels::ByValue<program::SampleClass> classes_;
  kernels::ByValue<Division> divisions_;
  kernels::ByValue<kernels::ValueIndex> rows_;  // kNoValue: not written yet
};

}  // namespace dgx::lowering
