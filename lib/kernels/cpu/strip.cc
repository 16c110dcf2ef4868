#include "dgx/kernels/cpu/strip.h"

#include "dgx/kernels/cpu/dispatch.h"
#include "strip_table.h"

namespace dgx::kernels::cpu {
namespace {

const StripTable& current_table() {
  switch (current_instruction_set()) {
#if defined(__x86_64__)
    case InstructionSet::kAvx2: return avx2_strip_table();
    case InstructionSet::kAvx512: return avx512_strip_table();
#elif defined(__aarch64__)
    case InstructionSet::kNeon: return neon_strip_table();
#endif
    default: return scalar_strip_table();
  }
}

}  // namespace

void run_strip(const std::vector<StripInstruction>& program, void* const* registers, std::int64_t count) {
  const StripTable& table = current_table();
  const auto at = [registers](std::int32_t r) { return registers[static_cast<std::size_t>(r)]; };
  for (const StripInstruction& instruction : program) {
    table[static_cast<std::size_t>(instruction.op)](at(instruction.out), at(instruction.in[0]),
                                                    at(instruction.in[1]), at(instruction.in[2]), count);
  }
}

}  // namespace dgx::kernels::cpu
