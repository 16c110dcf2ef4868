#include "dgx/kernels/cpu/strip.h"

#include <algorithm>
#include <cassert>
#include <iterator>

#include "strip_table.h"

namespace dgx::kernels::cpu {
namespace {

bool is_chainable(StripOp op) {
  switch (op) {
#define DGX_CASE(name, type) case StripOp::k##name##type:
    DGX_STRIP_CHAINED(DGX_CASE)
#undef DGX_CASE
    case StripOp::kCheckFinite: return true;
    default: return false;
  }
}

}  // namespace

StripOp strip_op(ScalarOp op, StripType type) {
  struct Row {
    ScalarOp op;
    char type;
    StripOp strip;
  };
#define DGX_ROW(name, type) {ScalarOp::k##name, #type[0], StripOp::k##name##type},
  static constexpr Row kRows[] = {DGX_STRIP_SCALAR_OPS(DGX_ROW)};
#undef DGX_ROW
  const char letter = "FIM"[static_cast<std::size_t>(type)];
  const auto* const row = std::find_if(std::begin(kRows), std::end(kRows),
                                       [&](const Row& each) { return each.op == op && each.type == letter; });
  assert(row != std::end(kRows));
  return row->strip;
}

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
  const StripTable& table = strip_table_of(current_instruction_set());
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
