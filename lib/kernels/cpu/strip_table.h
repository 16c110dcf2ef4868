#pragma once

#include <array>
#include <cstdint>

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

  StripFunction& operator[](StripOp op) { return functions[static_cast<std::size_t>(op)]; }
  StripFunction operator[](StripOp op) const { return functions[static_cast<std::size_t>(op)]; }
};

/// All instructions in plain C++. The tables of other instruction sets start from it and replace what they
/// have vector forms for.
StripTable plain_strip_table();

/// The whole table of an instruction set; only those that the build contains are defined.
const StripTable& scalar_strip_table();
const StripTable& avx2_strip_table();
const StripTable& avx512_strip_table();
const StripTable& neon_strip_table();

}  // namespace dgx::kernels::cpu
