#pragma once

#include <cstdint>
#include <span>

#include "cpu/machine.h"
#include "dgx/exec/executor.h"

namespace dgx::exec {

/// Flips a bit of an element. A float that becomes a NaN is the canonical one, as all in values are.
void flip_bit(std::span<std::uint8_t> bytes, DType dtype, std::int64_t element, int bit);

/// Makes the value of a machine of every value wrong that has just been made, in `bytes`. What it is made of
/// must be there. Errors of kernels::flipped_fold().
[[nodiscard]] Status commit_fault(const program::Program& program, const Machine& machine, const Fault& fault,
                                  std::span<std::uint8_t> bytes);

}  // namespace dgx::exec
