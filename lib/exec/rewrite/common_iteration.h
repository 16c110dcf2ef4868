#pragma once

#include <memory>

#include "dgx/program/program.h"

namespace dgx::exec {

/// Rewrites maps that read another map element by element to use its iteration shape, where their own differs
/// only in how dimensions are split or joined. The numbers are the same. Fusion takes one loop nest, so only
/// then can both maps be fused.
[[nodiscard]] std::shared_ptr<const program::Program> share_iterations(
    const std::shared_ptr<const program::Program>& program);

}  // namespace dgx::exec
