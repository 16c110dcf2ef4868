#include "cpu/fault.h"

#include <fmt/format.h>

#include <cstring>

#include "dgx/kernels/dot_state.h"

namespace dgx::exec {

using kernels::Kind;
using kernels::Primitive;

namespace {

/// kUsage unless the value has a running state behind so many positions.
Status check_position(const Primitive& line, const std::string& name, std::int64_t position) {
  const bool has_state = line.kind == Kind::kDot || (line.kind == Kind::kChain && line.dtype != DType::kU8);
  if (!has_state)
    return usage_error(name + " has no running state: it is no dot, and no chain of f32 or i64");
  std::int64_t positions = 1;
  for (const std::int64_t extent : line.fold) positions *= extent;
  if (position > 0 && position < positions) return {};
  return usage_error(
      fmt::format("{} has no running state behind {} positions, its fold has {}", name, position, positions));
}

}  // namespace

Status check_fault(const program::Program& program, const Fault& fault) {
  const std::string name = "value " + std::to_string(to_number(fault.value));
  if (!program.values.contains(fault.value)) return usage_error("the program has no " + name);
  const Primitive& value = program.values[fault.value];
  const auto size = static_cast<std::int64_t>(size_of(value.dtype));
  if (fault.element < 0 || fault.element >= bytes_of(value) / size) {
    return usage_error(name + " has no element " + std::to_string(fault.element) + ", its shape is " +
                       to_string(value.shape));
  }
  if (fault.bit < 0 || fault.bit >= size * 8) {
    return usage_error("an element of " + name + " has no bit " + std::to_string(fault.bit) + ", it is " +
                       std::string(name_of(value.dtype)));
  }
  return fault.position ? check_position(value, name, *fault.position) : Status();
}

void flip_bit(std::span<std::uint8_t> bytes, DType dtype, std::int64_t element, int bit) {
  const auto size = size_of(dtype), begin = static_cast<std::size_t>(element) * size;
  const auto at = static_cast<std::size_t>(bit);
  bytes[begin + at / 8] = static_cast<std::uint8_t>(bytes[begin + at / 8] ^ (1U << at % 8));
  if (dtype != DType::kF32) return;
  float number = 0;
  std::memcpy(&number, &bytes[begin], size);
  number = kernels::canonical_nan(number);
  std::memcpy(&bytes[begin], &number, size);
}

Status commit_fault(const program::Program& program, const Machine& machine, const Fault& fault,
                    std::span<std::uint8_t> bytes) {
  const Primitive& line = program.values[fault.value];
  if (!fault.position) {
    flip_bit(bytes, line.dtype, fault.element, fault.bit);
    return {};
  }
  kernels::ByValue<kernels::ValueType> types;
  kernels::ByValue<TensorView> values;
  for (const kernels::ValueIndex v : program.values.indices()) {
    types.push_back({program.values[v].dtype, program.values[v].shape});
    values.push_back(machine.view(v));
  }
  DGX_TRY(const kernels::CompiledPrimitive compiled, kernels::compile(line, types));
  DGX_TRY(const kernels::Number number,
          kernels::flipped_fold(compiled, values, fault.element, *fault.position, fault.bit));
  const std::uint64_t bits = number.bits();  // little-endian, as values are
  const std::size_t size = size_of(line.dtype);
  std::memcpy(&bytes[static_cast<std::size_t>(fault.element) * size], &bits, size);
  return {};
}

}  // namespace dgx::exec
