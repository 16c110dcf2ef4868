#pragma once

#include <cstdint>
#include <vector>

#include "dgx/core/result.h"
#include "dgx/core/tensor.h"
#include "dgx/program/pieces.h"

namespace dgx::test {

/// Numbers for a program's inputs, from a seed: small floats, above 0 where an entry holds squares or
/// variances; labels and indices from 0; the numbers of constants. Others are empty.
[[nodiscard]] kernels::ByValue<Tensor> invented_inputs(const program::Program& program, std::uint64_t seed);

/// Every value of a step by its definition (kernels/evaluate.h), from those of its inputs.
[[nodiscard]] Result<kernels::ByValue<Tensor>> evaluate_whole(const program::Program& program,
                                                              const kernels::ByValue<Tensor>& inputs);

/// The same, computed by local programs of the parts between neighbouring `bounds` (slices, from 0 to all)
/// and the tail, as dgx-placement(7) says: values of class S are the parts' one behind the other, of class C
/// what the last part leaves. kInternal if two parts make different numbers of a value of class W.
[[nodiscard]] Result<kernels::ByValue<Tensor>> evaluate_in_parts(const program::Program& program,
                                                                 const program::Classes& classes,
                                                                 const std::vector<std::int64_t>& bounds,
                                                                 const kernels::ByValue<Tensor>& inputs);

/// The first value of which two evaluations have different bits; kNoValue if all are equal.
[[nodiscard]] kernels::ValueIndex first_difference(const kernels::ByValue<Tensor>& a,
                                                   const kernels::ByValue<Tensor>& b);

}  // namespace dgx::test
