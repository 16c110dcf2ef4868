#pragma once

#include <vector>

#include "dgx/core/result.h"
#include "dgx/core/tensor.h"
#include "dgx/jobs/bisect.h"
#include "dgx/program/program.h"

namespace dgx::jobs {

/// The values that `value` reads.
[[nodiscard]] std::vector<std::int32_t> operands_of(const program::Program& program, std::int32_t value);

/// A value as results name it: its number, kind and source.
[[nodiscard]] DivergentValue describe_value(const program::Program& program, std::int32_t value);

/// Element `element`'s bits in hex: 8 digits of an f32, 16 of an i64, 2 of a u8.
[[nodiscard]] std::string bits_of(const TensorView& tensor, std::int64_t element);

/// Finds the last scalar operation of an element whose operands both sides agree on. `numbers` holds the
/// replay's value and operands, in the table's order. kInternal if the definition (kernels/ref) does not give
/// the replay's bits.
[[nodiscard]] Result<DivergentScalar> pinpoint(const program::Program& program,
                                               const std::vector<Tensor>& numbers, std::int32_t value,
                                               std::int64_t element, const TensorView& ours,
                                               const TensorView& theirs);

}  // namespace dgx::jobs
