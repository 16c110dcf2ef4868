#pragma once

#include <optional>
#include <vector>

#include "dgx/kernels/compiled.h"
#include "dgx/program/program.h"
#include "plan/operation.h"

// Recognisers: each gives the operation that makes a primitive's value, or nullopt if it has another form.
namespace dgx::exec {

[[nodiscard]] std::optional<Matmul> recognise_matmul(kernels::ValueIndex value,
                                                     const kernels::CompiledPrimitive& primitive,
                                                     const std::vector<LinearAccess>& accesses);
/// A product whose left side is the constant 1.
[[nodiscard]] std::optional<ColumnSum> recognise_column_sum(const program::Program& program,
                                                            const Matmul& matmul);
/// WindowProducts or WindowGradients, whichever reads memory better.
[[nodiscard]] std::optional<CpuOperation> recognise_windows(kernels::ValueIndex value,
                                                            const kernels::CompiledPrimitive& primitive);
/// WindowGradients alone, with images of more than one output and at most 1 GiB of scratch a thread: they can
/// go on with a running state.
[[nodiscard]] std::optional<WindowGradients> recognise_window_gradients(
    kernels::ValueIndex value, const kernels::CompiledPrimitive& primitive);
[[nodiscard]] std::optional<Fold> recognise_fold(kernels::ValueIndex value,
                                                 const kernels::CompiledPrimitive& primitive,
                                                 const std::vector<StripAccess>& accesses);
[[nodiscard]] std::optional<Chain> recognise_chain(kernels::ValueIndex value,
                                                   const kernels::CompiledPrimitive& primitive,
                                                   const std::vector<StripAccess>& accesses);
/// The key by which a chain chooses its positions, if its `when` compares a number with an output's index.
[[nodiscard]] std::optional<Chain::Key> recognise_key(const kernels::CompiledPrimitive& primitive,
                                                      const std::vector<StripAccess>& accesses);

}  // namespace dgx::exec
