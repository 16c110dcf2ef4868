#pragma once

#include <string>

#include "builder.h"
#include "dgx/core/tensor.h"
#include "tensor_form.h"

namespace dgx::lowering {

// A state must be finite, but masks hold −inf. An entry that never changes may have infinities: they are
// stored as the stand-in, a finite number of the infinity's sign, and the program puts them back where the
// entry is read (dgx-lowerings(7), "Capture").

[[nodiscard]] bool has_infinity(const Tensor& tensor);

/// The greatest finite float that the tensor holds with neither sign; a function of the tensor's numbers
/// alone.
[[nodiscard]] float stand_in_for_infinity(const Tensor& tensor);

/// The tensor with stand-ins in place of infinities.
[[nodiscard]] Tensor without_infinities(Tensor tensor);

/// The stored tensor with its infinities put back.
[[nodiscard]] TensorForm with_infinities(Builder& builder, const std::string& provenance,
                                         const TensorForm& stored, float stand_in);

}  // namespace dgx::lowering
