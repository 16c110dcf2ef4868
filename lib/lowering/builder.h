#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "dgx/core/result.h"
#include "dgx/program/program.h"

namespace dgx::lowering {

/// Appends values to a program. A value equal to an earlier one, but for its provenance, becomes that one,
/// since equal lines compute equal values. Kinds and shapes are the caller's responsibility; check_program
/// judges the result.
class Builder {
 public:
  /// Returns the value's number: a new one, or that of an equal earlier value.
  kernels::ValueIndex append(kernels::Primitive primitive);

  /// `state NAME`. set_next() sets its `next` once that value is known.
  kernels::ValueIndex state(std::string name, DType dtype, Shape shape);
  /// `batch x` or `batch y`.
  kernels::ValueIndex batch(std::string field, DType dtype, Shape shape);
  /// `schedule` with these names, f32 [names].
  kernels::ValueIndex schedule(std::vector<std::string> names);
  /// A constant input of shape [1].
  kernels::ValueIndex constant(float value);
  /// A constant input with these numbers in text form (line.h), as many as `shape` has elements.
  kernels::ValueIndex constant(DType dtype, Shape shape, std::vector<std::string> numbers);
  /// Random numbers of the next dropout stream: 0 for the first such input of the program, then 1, 2, ….
  kernels::ValueIndex uniform(Shape shape);
  /// Number of uniform() inputs made.
  [[nodiscard]] std::int64_t random_inputs() const { return random_inputs_; }
  void set_next(kernels::ValueIndex state, kernels::ValueIndex next);

  /// The values so far, with the numbers that append() returned.
  [[nodiscard]] const kernels::ByValue<kernels::Primitive>& values() const { return program_.values; }
  [[nodiscard]] const program::Program& program() const { return program_; }

  /// The program: values that neither a state entry's `next` nor one of `outputs` needs are dropped, inputs
  /// come first (state entries by name, batch, schedule, constants, random inputs), the rest keeps its order,
  /// and values are renumbered. `outputs` are last, in their order, when given.
  [[nodiscard]] program::Program finish(const std::vector<kernels::ValueIndex>& outputs = {}) const;

 private:
  std::int64_t random_inputs_ = 0;
  program::Program program_;
  std::unordered_map<std::string, kernels::ValueIndex> by_text_;
};

}  // namespace dgx::lowering
