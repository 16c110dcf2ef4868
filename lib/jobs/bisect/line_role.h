#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "dgx/core/tensor.h"
#include "dgx/kernels/primitive.h"
#include "dgx/program/program.h"

namespace dgx::jobs {

/// The roles of a step's values and numbers in the model, in words, from names that the capture left in the
/// program: "the new weight of layer 0", "minus the learning rate". For people: nothing depends on them.

/// The values of a step, some of whose lines are known: all with the program, one without.
struct StepLines {
  const program::Program* program = nullptr;
  std::int64_t opened = -1;                  ///< the value whose line a move has opened; -1: none
  const kernels::Primitive* line = nullptr;  ///< that line

  /// The line that computes `value`; null if it is not known.
  [[nodiscard]] const kernels::Primitive* find(std::int64_t value) const;
};

/// The role of a value: "the new weight of layer 0"; "value 55" if its line is not known or says nothing.
[[nodiscard]] std::string role_of_value(const StepLines& lines, std::int64_t value);
/// role_of_value() and the element: "the new weight of layer 0, number 100,000 [127, 432]".
[[nodiscard]] std::string role_of_element(const StepLines& lines, std::int64_t value, std::int64_t element);
/// "the weight of layer 0" for "model/0.weight", "the momentum of the weight of layer 0" for
/// "optimizer/momentum/0.weight".
[[nodiscard]] std::string words_of_entry(std::string_view name);
/// The role of an operand by its source in a ruling, "value 54[100000]" or "accumulator".
[[nodiscard]] std::string role_of_operand(const StepLines& lines, std::string_view from);
/// An operation of scalars in letters: "a × b + c" for "fma".
[[nodiscard]] std::string formula_of(std::string_view operation, std::size_t operands);

}  // namespace dgx::jobs
