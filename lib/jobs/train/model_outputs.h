#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "dgx/manifest/task.h"
#include "dgx/program/program.h"

namespace dgx::jobs {

/// The outputs of a model in an evaluation program (dgx-program(5), EVALUATION PROGRAM), found by what its
/// lines compute: a submitter may have written any program. What is not found is empty.
struct ModelOutputs {
  /// f32: the numbers that the loss compares with the targets. The first dimension counts samples, or parts
  /// of them.
  std::optional<kernels::ValueIndex> values;
  /// Cross entropy only. i64, one per target: the class with the largest output.
  std::optional<kernels::ValueIndex> classes;
  std::int64_t class_count = 0;
  /// Indexed by target of a batch: the place in `values` of its output for class 0; those of the next classes
  /// follow at `class_stride`. Empty if the outputs do not lie like that.
  std::vector<std::int64_t> places;
  std::int64_t class_stride = 0;
};

/// True if the task's loss is cross entropy.
[[nodiscard]] bool classifies(const manifest::Task& task);
/// True if the evaluation program counts the targets that the output meets (dgx-program(5), "Evaluation
/// program").
[[nodiscard]] bool counts_hits(const manifest::Task& task);
/// Number of targets of one sample; 0 if the dataset has no y.
[[nodiscard]] std::int64_t targets_in(const manifest::Task& task);

/// Finds the outputs in a checked evaluation program. For losses of numbers they need not be a value of
/// it: then appends the line that computes them.
[[nodiscard]] ModelOutputs find_outputs(program::Program& program, const manifest::Task& task);

}  // namespace dgx::jobs
