#pragma once

#include "dgx/program/program.h"

namespace dgx::bench {

/// The least that a machine has to do for a step, whatever its plan: told from the step program alone.
struct Least {
  double flop = 0;   ///< two for each position of each dot's element, terms that are zero included
  double bytes = 0;  ///< see least_of()
};

/// The bytes are those of every state entry, read and written once; of the batch's rows, read once, as the dataset stores them;
/// and of every value before the loss that a line after it reads, written and read once: what the forward pass leaves to the
/// backward pass. `row_bytes`: of one sample, x and y.
[[nodiscard]] Least least_of(const program::Program& program, std::int64_t batch, std::int64_t row_bytes);

/// The share of the terms of all matrix products of a step of which a factor is zero, 0 to 1; `values` are those of the step,
/// in the program's order.
[[nodiscard]] double zero_terms(const program::Program& program, const std::vector<Tensor>& values);

}  // namespace dgx::bench
