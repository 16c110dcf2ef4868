#pragma once

#include <span>

#include "dgx/program/classes.h"
#include "dgx/program/program.h"

namespace dgx::program {

/// The lines that the loss depends on.
[[nodiscard]] kernels::ByValue<bool> needs_of_loss(const Program& program);

/// The lines that are made wherever they are read, inputs that are no entries with them: such as depend on no
/// entry. Of the body, without those of class C and those that leave it; of the tail, without those that
/// read the body, or are `wanted`. And the received lines of cuts, with their entries and what reads these.
[[nodiscard]] kernels::ByValue<bool> free_lines(const Program& program, const Classes& classes,
                                                std::span<const kernels::ValueIndex> wanted);

}  // namespace dgx::program
