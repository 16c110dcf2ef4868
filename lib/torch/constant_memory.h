#pragma once

#include <cstddef>
#include <exception>
#include <string>
#include <utility>

namespace dgx::torch_bridge {

/// Bounds on what a pass makes and what is the same in every step: on one tensor, and on all together. A few
/// bytes of a file can ask for any number of them, while parameters, buffers and inputs are in files.
inline constexpr std::size_t kMaxConstantBytes = std::size_t{256} << 20;
inline constexpr std::size_t kMaxConstantBytesTogether = std::size_t{1} << 30;

/// Thrown in place of a tensor that is beyond the bounds.
struct TooManyConstants : std::exception {
  explicit TooManyConstants(std::string what) : text(std::move(what)) {}
  [[nodiscard]] const char* what() const noexcept override { return text.c_str(); }
  std::string text;
};

/// While alive, counts what libtorch allocates for tensors on this thread, and throws TooManyConstants in
/// place of what goes beyond the bounds. `used_bytes` is the sum of a pass so far.
class ConstantMemory {
 public:
  explicit ConstantMemory(std::size_t& used_bytes);
  ~ConstantMemory();
  ConstantMemory(const ConstantMemory&) = delete;
  ConstantMemory& operator=(const ConstantMemory&) = delete;
};

}  // namespace dgx::torch_bridge
