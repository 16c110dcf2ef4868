#include <algorithm>
#include <cstring>

#include "cpu/strip_group.h"
#include "dgx/core/checked.h"

namespace dgx::exec {

using kernels::cpu::kStripLength;
using kernels::cpu::StripType;
using Source = StripRegister::Source;

namespace {

constexpr std::int64_t kLine = 64;
constexpr std::int64_t kAhead = 4096;  // bytes: two strips of floats
constexpr std::size_t kRegisterBytes = static_cast<std::size_t>(kStripLength) * 8;
// Registers start in different cache sets: at a stride of exactly 4 KiB all would share the same few.
constexpr std::size_t kRegisterStride = kRegisterBytes + 128;

template <class To, class From>
void gather_as(void* out, const void* from, std::int64_t stride, std::int64_t count) {
  auto* to = static_cast<To*>(out);
  const auto* x = static_cast<const From*>(from);
  if (stride == 0) {  // the compiler vectorises only this form
    std::fill(to, to + count, static_cast<To>(*x));
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) to[i] = x[i * stride];
}

/// Copies `count` elements that lie `stride` apart, widening bytes to integers.
void gather(void* out, const void* from, DType dtype, std::int64_t stride, std::int64_t count) {
  if (dtype == DType::kF32) gather_as<float, float>(out, from, stride, count);
  if (dtype == DType::kI64) gather_as<std::int64_t, std::int64_t>(out, from, stride, count);
  if (dtype == DType::kU8) gather_as<std::int64_t, std::uint8_t>(out, from, stride, count);
}

/// Two dimensions walked as one: `period` elements `inner` apart, then the next row, `outer` further.
struct Walk {
  std::int64_t outer, inner, period;

  template <class To, class From>
  void gather(void* out, const void* from, std::int64_t start, std::int64_t count) const {
    auto* to = static_cast<To*>(out);
    std::int64_t column = start % period;
    const From* row = static_cast<const From*>(from) + start / period * outer;
    for (std::int64_t done = 0; done < count; column = 0, row += outer) {
      const std::int64_t end = done + std::min(count - done, period - column);
      if (inner == 0) {
        std::fill(to + done, to + end, static_cast<To>(*row));
        done = end;
      }
      for (const From* x = row + column * inner; done < end; x += inner) to[done++] = *x;
    }
  }
};

}  // namespace

void StripScratch::prepare(std::size_t registers, std::size_t values) {
  const std::size_t bytes = registers * kRegisterStride + 64;
  if (memory_.size() < bytes) memory_.resize(bytes);
  if (pointers_.size() < registers) {
    pointers_.resize(registers);
    splatted_.resize(registers);
    held_.resize(registers);
    row_base_.resize(registers);
    row_address_.resize(registers);
  }
  if (flags_.size() < values) flags_.resize(values);
  places_.resize(static_cast<std::size_t>(kStripLength));
}

StripRunner::StripRunner(const StripProgram& program, const kernels::ByValue<void*>& values,
                         const std::int64_t* offsets, StripScratch& scratch)
    : program_(program), values_(values), offsets_(offsets), scratch_(scratch) {
  if (!program.outer.extents.empty()) {
    scratch.outer_offsets_.resize(program.outer.strides.size());
    set_outer(0);
    offsets_ = scratch.outer_offsets_.data();
  }
  auto address = reinterpret_cast<std::uintptr_t>(scratch.memory_.data());
  auto* memory = scratch.memory_.data() + (64 - address % 64) % 64;
  for (std::size_t r = 0; r < program.registers.size(); ++r) {
    const StripRegister& reg = program.registers[r];
    void* own = memory + r * kRegisterStride;
    if (reg.source == Source::kLiteral) own = const_cast<std::uint8_t*>(program.literals[r].data());
    if (reg.source == Source::kFlag) own = &scratch.flags_[reg.value];
    scratch.pointers_[r] = own;
    scratch.splatted_[r] = nullptr;
    scratch.held_[r] = {};
  }
}

void StripRunner::set_outer(std::int64_t position) {
  const LoopNest& outer = program_.outer;
  if (outer.extents.empty()) return;
  for (std::size_t d = outer.extents.size(); d-- > 0;) {
    outer_index_[d] = position % outer.extents[d];
    position /= outer.extents[d];
  }
  for (std::size_t m = 0; m < outer.strides.size(); ++m) {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < outer.extents.size(); ++d) offset += outer_index_[d] * outer.strides[m][d];
    scratch_.outer_offsets_[m] = offset;
  }
}

void StripRunner::next_outer() {
  const LoopNest& outer = program_.outer;
  for (std::size_t d = outer.extents.size(); d-- > 0;) {
    const bool wraps = ++outer_index_[d] == outer.extents[d];
    if (wraps) outer_index_[d] = 0;
    for (std::size_t m = 0; m < outer.strides.size(); ++m) {
      scratch_.outer_offsets_[m] += (wraps ? 1 - outer.extents[d] : 1) * outer.strides[m][d];
    }
    if (!wraps) return;
  }
}

void StripRunner::set_accumulator(void* memory) {
  if (program_.accumulator >= 0) scratch_.pointers_[static_cast<std::size_t>(program_.accumulator)] = memory;
}

std::int64_t StripRunner::unit_count(const StripProgram& program) {
  const std::int64_t inner = program.nest.inner_extent();
  return program.nest.rows() * ceil_div(inner, program.strip);
}

void StripRunner::set_row(std::int64_t row) {
  row_ = row;
  for (std::size_t n = 0; n < program_.pointed.size(); ++n) {
    const StripProgram::Pointed& at = program_.pointed[n];
    const std::int64_t element =
        at.base + program_.nest.row_offset(at.map, row) + (offsets_ != nullptr ? offsets_[at.map] : 0);
    scratch_.row_address_[n] = static_cast<std::uint8_t*>(values_[at.value]) + element * at.size;
  }
  for (const std::size_t r : program_.walked) {
    const StripRegister& reg = program_.registers[r];
    if (reg.source == Source::kIndex || reg.source == Source::kOuter) continue;
    scratch_.row_base_[r] =
        reg.base + program_.nest.row_offset(reg.map, row) + (offsets_ != nullptr ? offsets_[reg.map] : 0);
  }
}

/// Fills a register with a strip's indices, unless it still holds them.
void StripRunner::read_index(std::size_t r, std::int64_t start, std::int64_t count) {
  const StripRegister& reg = program_.registers[r];
  const LoopNest& nest = program_.nest;
  const std::size_t last = nest.extents.size() - 1;
  auto* const to = static_cast<std::int64_t*>(scratch_.pointers_[r]);
  StripScratch::Held& held = scratch_.held_[r];
  const bool is_outer = reg.source == Source::kOuter;
  if (is_outer || reg.map < last) {
    const std::int64_t value = is_outer ? outer_index_[reg.map] : nest.row_index(reg.map, row_);
    if (reg.single) {
      *to = value;
      return;
    }
    if (held.first == value && held.count >= count) return;
    held = {value, count};
    std::fill(to, to + count, value);
    return;
  }
  if (held.first == start && held.count >= count) return;
  held = {start, count};
  const std::int64_t period = program_.period;
  const bool inner = reg.map > last;
  std::int64_t column = period == 0 ? start : start % period;
  std::int64_t row = period == 0 ? 0 : start / period;
  for (std::int64_t i = 0; i < count; ++i) {
    to[i] = period == 0 || inner ? column : row;
    if (++column == period) column = 0, ++row;
  }
}

/// Copies the register's elements from `start` on into its scratch.
void StripRunner::read(std::size_t r, std::int64_t start, std::int64_t count) {
  const StripRegister& reg = program_.registers[r];
  void* const pointer = scratch_.pointers_[r];
  const auto& strides = program_.nest.strides[reg.map];
  const std::int64_t stride = strides.back();
  std::uint8_t* base = static_cast<std::uint8_t*>(values_[reg.value]) + scratch_.row_base_[r] * reg.size;
  if (reg.source == Source::kSplat) {
    if (scratch_.splatted_[r] == base) return;
    gather(pointer, base, reg.dtype, 0, std::min(kStripLength, program_.nest.inner_extent()));
    scratch_.splatted_[r] = base;
  } else if (program_.period == 0) {
    gather(pointer, base + start * stride * reg.size, reg.dtype, stride, count);
  } else {
    // All strips begin with a whole period, so they have the same numbers.
    const bool repeats = reg.source == Source::kPeriodic && start % program_.period == 0;
    if (repeats && scratch_.splatted_[r] == base) return;
    scratch_.splatted_[r] = repeats ? base : nullptr;
    const std::int64_t some = repeats ? std::min(program_.strip, program_.nest.inner_extent()) : count;
    const Walk walk{strides[strides.size() - 2], stride, program_.period};
    if (reg.dtype == DType::kF32) walk.gather<float, float>(pointer, base, start, some);
    if (reg.dtype == DType::kI64) walk.gather<std::int64_t, std::int64_t>(pointer, base, start, some);
    if (reg.dtype == DType::kU8) walk.gather<std::int64_t, std::uint8_t>(pointer, base, start, some);
  }
}

void StripRunner::run_strip(std::int64_t start, std::int64_t count, void* result) {
  for (std::size_t n = 0; n < program_.pointed.size(); ++n) {
    const std::int64_t step = program_.pointed[n].step;
    std::uint8_t* const at = scratch_.row_address_[n] + start * step;
    scratch_.pointers_[program_.pointed[n].reg] = at;
    for (std::int64_t byte = 0; fetches_ahead_ && byte < count * step; byte += kLine)
      __builtin_prefetch(at + kAhead + byte);
  }
  for (const std::size_t r : program_.walked) {
    const StripRegister& reg = program_.registers[r];
    if (reg.source == Source::kIndex || reg.source == Source::kOuter) {
      read_index(r, start, count);
    } else if (reg.source == Source::kGuarded) {
      read_guarded(r, start, count);
    } else {
      read(r, start, count);
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
  const std::int64_t per_row = ceil_div(inner, program_.strip);
  std::int64_t row = -1;
  for (std::int64_t unit = begin; unit < end; ++unit) {
    if (unit / per_row != row) set_row(row = unit / per_row);
    const std::int64_t start = unit % per_row * program_.strip;
    run_strip(start, std::min(program_.strip, inner - start), nullptr);
  }
}

std::int64_t StripRunner::first_element(const StripProgram& program, std::int64_t unit) {
  const std::int64_t inner = program.nest.inner_extent();
  const std::int64_t per_row = ceil_div(inner, program.strip);
  return unit / per_row * inner + unit % per_row * program.strip;
}

std::int64_t StripRunner::unit_size(const StripProgram& program, std::int64_t unit) {
  const std::int64_t inner = program.nest.inner_extent();
  const std::int64_t per_row = ceil_div(inner, program.strip);
  return std::min(program.strip, inner - unit % per_row * program.strip);
}

std::int64_t StripRunner::run_unit(std::int64_t unit, void* result) {
  const std::int64_t inner = program_.nest.inner_extent();
  const std::int64_t per_row = ceil_div(inner, program_.strip);
  const std::int64_t start = unit % per_row * program_.strip;
  const std::int64_t count = std::min(program_.strip, inner - start);
  set_row(unit / per_row);
  run_strip(start, count, result);
  return count;
}

void StripRunner::run_range(std::int64_t first, std::int64_t count, void* result) {
  const std::int64_t inner = program_.nest.inner_extent();
  const std::int64_t size =
      kernels::cpu::bytes_of(program_.registers[static_cast<std::size_t>(program_.result)].type);
  auto* to = static_cast<std::uint8_t*>(result);
  for (const std::int64_t end = first + count; first < end;) {
    const std::int64_t some = std::min({end - first, inner - first % inner, program_.strip});
    set_row(first / inner);
    run_strip(first % inner, some, to);
    to += some * size;
    first += some;
  }
}

void StripRunner::run_elements(std::int64_t begin, std::int64_t end) {
  set_row(0);
  for (std::int64_t start = begin; start < end; start += program_.strip) {
    run_strip(start, std::min(program_.strip, end - start), nullptr);
  }
}

void StripRunner::fill(void* out) {
  const std::int64_t inner = program_.nest.inner_extent();
  const StripType type = program_.registers[static_cast<std::size_t>(program_.result)].type;
  auto* to = static_cast<std::uint8_t*>(out);
  for (std::int64_t row = 0, rows = program_.nest.rows(); row < rows; ++row) {
    set_row(row);
    for (std::int64_t start = 0; start < inner; start += program_.strip) {
      const std::int64_t count = std::min(program_.strip, inner - start);
      run_strip(start, count, to);
      to += count * kernels::cpu::bytes_of(type);
    }
  }
}

}  // namespace dgx::exec
