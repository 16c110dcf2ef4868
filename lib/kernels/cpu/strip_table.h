#pragma once

#include <array>
#include <cstdint>

#include "dgx/kernels/cpu/dispatch.h"
#include "dgx/kernels/cpu/strip.h"

namespace dgx::kernels::cpu {

/// One instruction on `count` elements. Operands that the operation does not have are ignored.
using StripFunction = void (*)(void* out, const void* a, const void* b, const void* c, std::int64_t count);

/// Runs a chain of `instructions` instructions from `first` on.
using ChainFunction = void (*)(const StripInstruction* first, std::int64_t instructions,
                               void* const* registers, std::int64_t count);

struct StripTable {
  std::array<StripFunction, kStripOpCount> functions{};
  ChainFunction chain = nullptr;

  constexpr StripFunction& operator[](StripOp op) { return functions[static_cast<std::size_t>(op)]; }
  StripFunction operator[](StripOp op) const { return functions[static_cast<std::size_t>(op)]; }
};

const StripTable& scalar_strip_table();
/// The table of a set that this build has.
const StripTable& strip_table_of(InstructionSet set);

}  // namespace dgx::kernels::cpu
