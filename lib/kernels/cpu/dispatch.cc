#include "dgx/kernels/cpu/dispatch.h"

#include <algorithm>
#include <atomic>
#include <string>

#include "dgx/core/processor.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace dgx::kernels::cpu {
namespace {

std::vector<InstructionSet> detect() {
  std::vector<InstructionSet> sets = {InstructionSet::kScalar};
#if defined(__x86_64__)
  if (this_processor().avx2) sets.push_back(InstructionSet::kAvx2);
  if (this_processor().avx512) sets.push_back(InstructionSet::kAvx512);
#elif defined(__aarch64__)
  sets.push_back(InstructionSet::kNeon);
#endif
  return sets;
}

std::atomic<InstructionSet>& current() {
  static std::atomic<InstructionSet> set = detect().back();
  return set;
}

}  // namespace

std::string_view name_of(InstructionSet set) {
  switch (set) {
    case InstructionSet::kScalar: return "scalar";
    case InstructionSet::kAvx2: return "avx2";
    case InstructionSet::kAvx512: return "avx512";
    case InstructionSet::kNeon: return "neon";
  }
  return "unknown";
}

std::vector<InstructionSet> available_instruction_sets() { return detect(); }

InstructionSet current_instruction_set() { return current().load(std::memory_order_relaxed); }

Status force_instruction_set(InstructionSet set) {
  const auto sets = detect();
  if (std::find(sets.begin(), sets.end(), set) == sets.end()) {
    return usage_error("instruction set " + std::string(name_of(set)) + " is not available on this machine");
  }
  current().store(set, std::memory_order_relaxed);
  return {};
}

Status check_float_mode() {
#if defined(__x86_64__)
  const unsigned mode = _mm_getcsr();
  const bool flushes = (mode & 0x8040U) != 0;  // FTZ, DAZ
  const bool rounds = (mode & 0x6000U) != 0;
#elif defined(__aarch64__)
  std::uint64_t mode = 0;
  __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
  const bool flushes = (mode >> 24 & 1U) != 0;
  const bool rounds = (mode >> 22 & 3U) != 0;
#else
#error "state how this processor's floating-point mode is read"
#endif
  if (flushes)
    return internal_error("this thread flushes subnormal numbers to zero: exact arithmetic is impossible");
  if (rounds) return internal_error("this thread does not round to nearest: exact arithmetic is impossible");
  return {};
}

}  // namespace dgx::kernels::cpu
