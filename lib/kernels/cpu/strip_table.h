#pragma once

#include <array>
#include <cstdint>

#include "dgx/kernels/cpu/strip.h"

namespace dgx::kernels::cpu {

/// One instruction on `count` elements. Operands that the operation does not have are null.
using StripFunction = void (*)(void* out, const void* a, const void* b, const void* c, std::int64_t count);

/// Runs a chain of `instructions`.
using ChainFunction = void (*)(const StripInstruction* first, std::int64_t instructions, void* const* registers, std::int64_t count);

struct StripTable {
  std::array<StripFunction, kStripOpCount> functions{};
  ChainFunction chain = nullptr;

  StripFunction& operator[](StripOp op) { return functions[static_cast<std::size_t>(op)]; }
  StripFunction operator[](StripOp op) const { return functions[static_cast<std::size_t>(op)]; }
};

/// The integer, mask and conversion instructions in plain C++: the same for every instruction set, and what a table of
/// floating-point instructions starts from.
StripTable plain_strip_table();

/// The whole table of an instruction set; only those that the build contains are defined.
const StripTable& scalar_strip_table();
const StripTable& avx2_strip_table();
const StripTable& avx512_strip_table();
const StripTable& neon_strip_table();

}  // namespace dgx::kernels::cpu
