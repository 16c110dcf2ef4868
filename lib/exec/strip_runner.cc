#include <algorithm>
#include <cstring>

#include "strip_group.h"

namespace dgx::exec {

using kernels::cpu::kStripLength;
using kernels::cpu::StripType;
using Source = StripRegister::Source;

namespace {

constexpr std::size_t kRegisterBytes = static_cast<std::size_t>(kStripLength) * 8;
// Registers start at different cache sets: a stride of exactly 4 KiB would put them all into the same few.
constexpr std::size_t kRegisterStride = kRegisterBytes + 128;

/// Copies `count` elements that lie `stride` apart, widening bytes to integers.
void gather(void* out, const void* from, DType dtype, std::int64_t stride, std::int64_t count) {
  if (dtype == DType::kF32) {
    auto* to = static_cast<float*>(out);
    const auto* x = static_cast<const float*>(from);
    for (std::int64_t i = 0; i < count; ++i) to[i] = x[i * stride];
  } else if (dtype == DType::kI64) {
    auto* to = static_cast<std::int64_t*>(out);
    const auto* x = static_cast<const std::int64_t*>(from);
    for (std::int64_t i = 0; i < count; ++i) to[i] = x[i * stride];
  } else {
    auto* to = static_cast<std::int64_t*>(out);
    const auto* x = static_cast<const std::uint8_t*>(from);
    for (std::int64_t i = 0; i < count; ++i) to[i] = x[i * stride];
  }
}

}  // namespace

void StripScratch::prepare(std::size_t registers, std::size_t values) {
  const std::size_t bytes = registers * kRegisterStride + 64;
  if (memory_.size() < bytes) memory_.resize(bytes);
  if (pointers_.size() < registers) {
    pointers_.resize(registers);
    splatted_.resize(registers);
  }
  if (flags_.size() < values) flags_.resize(values);
}

StripRunner::StripRunner(const StripProgram& program, void* const* values, const std::int64_t* offsets,
                         StripScratch& scratch)
    : program_(program), values_(values), offsets_(offsets), scratch_(scratch), row_base_(program.registers.size()) {
  auto address = reinterpret_cast<std::uintptr_t>(scratch.memory_.data());
  auto* memory = scratch.memory_.data() + (64 - address % 64) % 64;
  for (std::size_t r = 0; r < program.registers.size(); ++r) {
    const StripRegister& reg = program.registers[r];
    void* own = memory + r * kRegisterStride;
    if (reg.source == Source::kLiteral) own = const_cast<std::uint8_t*>(program.literals[r].data());
    if (reg.source == Source::kFlag) own = &scratch.flags_[static_cast<std::size_t>(reg.value)];
    scratch.pointers_[r] = own;
    scratch.splatted_[r] = nullptr;
  }
}

std::int64_t StripRunner::unit_count(const StripProgram& program) {
  const std::int64_t inner = program.nest.inner_extent();
  return program.nest.rows() * ((inner + kStripLength - 1) / kStripLength);
}

void StripRunner::set_row(std::int64_t row) {
  row_ = row;
  for (std::size_t r = 0; r < program_.registers.size(); ++r) {
    const StripRegister& reg = program_.registers[r];
    const bool reads = reg.source == Source::kMemory || reg.source == Source::kSplat || reg.source == Source::kGather;
    if (!reads) continue;
    row_base_[r] = reg.base + program_.nest.row_offset(reg.map, row) + (offsets_ != nullptr ? offsets_[reg.map] : 0);
  }
}

void StripRunner::run_strip(std::int64_t start, std::int64_t count, void* result) {
  const std::int64_t width = std::min(kStripLength, program_.nest.inner_extent());
  for (std::size_t r = 0; r < program_.registers.size(); ++r) {
    const StripRegister& reg = program_.registers[r];
    void*& pointer = scratch_.pointers_[r];
    if (reg.source == Source::kScratch || reg.source == Source::kLiteral || reg.source == Source::kFlag) continue;
    if (reg.source == Source::kIndex) {
      auto* to = static_cast<std::int64_t*>(pointer);
      const std::size_t last = program_.nest.extents.size() - 1;
      const std::int64_t fixed = reg.map == last ? start : program_.nest.row_index(reg.map, row_);
      for (std::int64_t i = 0; i < count; ++i) to[i] = reg.map == last ? fixed + i : fixed;
      continue;
    }
    auto* base = static_cast<std::uint8_t*>(values_[reg.value]);
    const std::int64_t stride = program_.nest.strides[reg.map].back();
    const auto size = static_cast<std::int64_t>(size_of(reg.dtype));
    std::uint8_t* from = base + (row_base_[r] + start * stride) * size;
    if (reg.source == Source::kMemory) {
      pointer = from;
    } else if (reg.source == Source::kGather) {
      gather(pointer, from, reg.dtype, stride, count);
    } else if (scratch_.splatted_[r] != from) {
      gather(pointer, from, reg.dtype, 0, width);
      scratch_.splatted_[r] = from;
    }
  }
  if (result != nullptr && program_.result >= 0) {
    void*& pointer = scratch_.pointers_[static_cast<std::size_t>(program_.result)];
    const StripRegister& reg = program_.registers[static_cast<std::size_t>(program_.result)];
    void* own = pointer;
    if (reg.source == Source::kScratch) pointer = result;
    kernels::cpu::run_strip(program_.instructions, scratch_.pointers_.data(), count);
    if (reg.source != Source::kScratch) {
      std::memcpy(result, own, static_cast<std::size_t>(count * kernels::cpu::bytes_of(reg.type)));
    }
    pointer = own;
    return;
  }
  kernels::cpu::run_strip(program_.instructions, scratch_.pointers_.data(), count);
}

void StripRunner::run(std::int64_t begin, std::int64_t end) {
  const std::int64_t inner = program_.nest.inner_extent();
  const std::int64_t per_row = (inner + kStripLength - 1) / kStripLength;
  std::int64_t row = -1;
  for (std::int64_t unit = begin; unit < end; ++unit) {
    if (unit / per_row != row) set_row(row = unit / per_row);
    const std::int64_t start = unit % per_row * kStripLength;
    run_strip(start, std::min(kStripLength, inner - start), nullptr);
  }
}

void StripRunner::fill(void* out) {
  const std::int64_t inner = program_.nest.inner_extent();
  const StripType type = program_.registers[static_cast<std::size_t>(program_.result)].type;
  auto* to = static_cast<std::uint8_t*>(out);
  for (std::int64_t row = 0, rows = program_.nest.rows(); row < rows; ++row) {
    set_row(row);
    for (std::int64_t start = 0; start < inner; start += kStripLength) {
      const std::int64_t count = std::min(kStripLength, inner - start);
      run_strip(start, count, to);
      to += count * kernels::cpu::bytes_of(type);
    }
  }
}

}  // namespace dgx::exec
