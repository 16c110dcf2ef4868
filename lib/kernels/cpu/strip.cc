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

bool is_chainable(StripOp op) {
  switch (op) {
    case StripOp::kAddF:
    case StripOp::kSubF:
    case StripOp::kMulF:
    case StripOp::kDivF:
    case StripOp::kFmaF:
    case StripOp::kSqrtF:
    case StripOp::kNegF:
    case StripOp::kAbsF:
    case StripOp::kMaxF:
    case StripOp::kMinF:
    case StripOp::kFloorF:
    case StripOp::kTruncF:
    case StripOp::kRintF:
    case StripOp::kEqF:
    case StripOp::kNeF:
    case StripOp::kLtF:
    case StripOp::kLeF:
    case StripOp::kGtF:
    case StripOp::kGeF:
    case StripOp::kEqI:
    case StripOp::kNeI:
    case StripOp::kLtI:
    case StripOp::kLeI:
    case StripOp::kGtI:
    case StripOp::kGeI:
    case StripOp::kSelectF:
    case StripOp::kAndM:
    case StripOp::kOrM:
    case StripOp::kNotM:
    case StripOp::kCheckFinite: return true;
    default: return false;
  }
}

}  // namespace

void link_chains(std::vector<StripInstruction>& program, const std::vector<StripUse>& uses) {
  const auto use_of = [&uses](std::int32_t r) { return uses[static_cast<std::size_t>(r)]; };
  const auto mark = [](std::uint8_t& bits, int operand) {
    bits = static_cast<std::uint8_t>(bits | 1 << operand);
  };
  std::vector<std::size_t> last_use(uses.size(), 0);
  for (std::size_t n = 0; n < program.size(); ++n) {
    for (const std::int32_t r : program[n].in) last_use[static_cast<std::size_t>(r)] = n;
  }
  std::size_t first = 0, maker = 0;  // first of the chain; last instruction with a result
  for (std::size_t n = 0; n < program.size(); ++n) {
    if (!is_chainable(program[n].op)) continue;
    for (int operand = 0; operand < 3; ++operand) {
      if (use_of(program[n].in[operand]).uniform) mark(program[n].uniform, operand);
    }
    if (n == 0 || program[n - 1].chain == 0) first = maker = n;
    program[n].chain = 1;
    if (n == first) continue;
    program[first].chain = static_cast<std::int16_t>(n - first + 1);
    if (program[n - 1].op != StripOp::kCheckFinite) maker = n - 1;
    const std::int32_t made = program[maker].out;
    for (int operand = 0; operand < 3; ++operand) {
      if (program[n].in[operand] == made) mark(program[n].held, operand);
    }
    const bool used_later = last_use[static_cast<std::size_t>(made)] != n || program[n].held == 0;
    if (maker + 1 == n) program[maker].stores = use_of(made).stored || used_later;
  }
}

void run_strip(const std::vector<StripInstruction>& program, void* const* registers, std::int64_t count) {
  const StripTable& table = current_table();
  const auto at = [registers](std::int32_t r) { return registers[static_cast<std::size_t>(r)]; };
  for (std::size_t n = 0; n < program.size();) {
    const StripInstruction& instruction = program[n];
    if (instruction.chain > 0) {
      table.chain(&instruction, instruction.chain, registers, count);
      n += static_cast<std::size_t>(instruction.chain);
    } else {
      table[instruction.op](at(instruction.out), at(instruction.in[0]), at(instruction.in[1]),
                            at(instruction.in[2]), count);
      ++n;
    }
  }
}

}  // namespace dgx::kernels::cpu
