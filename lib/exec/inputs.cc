#include "inputs.h"

#include <cstdlib>
#include <cstring>

#include "dgx/kernels/cpu/dispatch.h"

namespace dgx::exec {
namespace {

/// One number in its text form (dgx-program(5), "Inputs").
void store_constant(const std::string& text, DType dtype, std::uint8_t* to) {
  if (dtype == DType::kF32) {
    const float value = std::strtof(text.c_str(), nullptr);
    std::memcpy(to, &value, sizeof value);
  } else {
    const std::int64_t value = std::strtoll(text.c_str(), nullptr, 10);
    std::memcpy(to, &value, size_of(dtype));  // little-endian: the low byte of a u8
  }
}

}  // namespace

Tensor constant_tensor(const kernels::Primitive& input) {
  Tensor tensor(input.dtype, input.shape);
  const std::size_t size = size_of(input.dtype);
  for (std::size_t i = 0; i < input.source.of.size(); ++i) {
    store_constant(input.source.of[i], input.dtype, tensor.bytes().data() + i * size);
  }
  return tensor;
}

Status check_float_mode(ThreadTeam& team) {
  std::vector<Status> modes(static_cast<std::size_t>(team.size()));
  team.run([&](int member) { modes[static_cast<std::size_t>(member)] = kernels::cpu::check_float_mode(); });
  for (Status& mode : modes) DGX_CHECK(std::move(mode));
  return {};
}

}  // namespace dgx::exec
