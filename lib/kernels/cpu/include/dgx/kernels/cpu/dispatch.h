#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "dgx/core/result.h"

namespace dgx::kernels::cpu {

/// The instructions that the kernels of this folder use. Every set gives the same bits (dgx-numerics(7));
/// sets differ in speed only. Values are indices, never stored.
enum class InstructionSet : std::uint8_t {
  kScalar,  ///< plain C++; std::fma, which the C library emulates correctly where the processor has none
  kAvx2,    ///< AVX2 and FMA
  kAvx512,  ///< AVX-512 F, VL, DQ, BW
  kNeon,    ///< AArch64
};

/// "scalar", "avx2", "avx512" or "neon".
[[nodiscard]] std::string_view name_of(InstructionSet set);

/// The instruction sets that this build contains and this processor and system can run, slowest first;
/// kScalar is always among them.
[[nodiscard]] std::vector<InstructionSet> available_instruction_sets();

/// The set that kernels called from now on use: the last of available_instruction_sets() until forced
/// otherwise.
[[nodiscard]] InstructionSet current_instruction_set();

/// Makes later calls of every thread use `set`; for tests and benchmarks. Calls already running keep theirs.
/// kUsage if the machine or the build lacks it.
[[nodiscard]] Status force_instruction_set(InstructionSet set);

/// Checks that the calling thread rounds to nearest even and keeps subnormals (dgx-numerics(7), "Ground
/// rules"). kInternal otherwise, naming what is wrong: some library of the process changed the mode. Every
/// thread that computes calls it once.
[[nodiscard]] Status check_float_mode();

}  // namespace dgx::kernels::cpu
