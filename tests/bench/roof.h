#pragma once

#include "dgx/program/program.h"

namespace dgx::bench {

/// The least work that any machine must do for a step, whatever its plan; derived from the step program
/// alone.
struct Least {
  double flop = 0;   ///< two for each position of each dot's element, zero terms included
  double bytes = 0;  ///< see least_of()
};

/// Bytes counted: every state entry, read and written once; the batch's rows, read once, as the dataset
/// stores them; and every value before the loss that a line after it reads, written and read once: what the
/// forward pass leaves to the backward pass. `row_bytes`: of one sample, x and y.
[[nodiscard]] Least least_of(const program::Program& program, std::int64_t batch, std::int64_t row_bytes);

/// The share, 0 to 1, of the terms of all matrix products of a step in which a factor is zero; `values` are
/// the step's, in the program's order.
[[nodiscard]] double zero_terms(const program::Program& program, const kernels::ByValue<Tensor>& values);

}  // namespace dgx::bench
