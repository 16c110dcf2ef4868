#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "dgx/core/host_device.h"
#include "dgx/kernels/compiled.h"

namespace dgx::kernels {

/// A compiled primitive as plain data in one block of bytes, for a GPU or for many threads: the members of
/// CompiledPrimitive under the same names, so that ElementEvaluator (element.h) takes either.
///
/// A block may be copied as bytes to any address aligned to kBlockAlignment, on host or device, and is then
/// read in place (view_of): arrays are found from their own address. The structs below must not be copied out
/// of their block.

inline constexpr std::size_t kBlockAlignment = 8;

/// An array in the block, found from its own address.
template <class T>
class BlockArray {
 public:
  BlockArray() = default;
  BlockArray(const BlockArray&) = delete;
  BlockArray& operator=(const BlockArray&) = delete;

  [[nodiscard]] DGX_HOST_DEVICE const T* begin() const {
    return reinterpret_cast<const T*>(reinterpret_cast<const std::uint8_t*>(this) + offset_);
  }
  [[nodiscard]] DGX_HOST_DEVICE const T* end() const { return begin() + size_; }
  [[nodiscard]] DGX_HOST_DEVICE std::size_t size() const { return size_; }
  [[nodiscard]] DGX_HOST_DEVICE bool empty() const { return size_ == 0; }
  [[nodiscard]] DGX_HOST_DEVICE const T& operator[](std::size_t n) const { return begin()[n]; }

  /// For flatten(): `offset` in bytes from this.
  void place(std::uint32_t offset, std::uint32_t size) {
    offset_ = offset;
    size_ = size;
  }

 private:
  std::uint32_t offset_ = 0;
  std::uint32_t size_ = 0;
};

struct CoordinateView {
  BlockArray<CompiledTerm> terms;
  std::int64_t constant = 0;
  Coordinate::Division division = Coordinate::Division::kNone;
  std::int64_t divisor = 1;
  std::int64_t size = 0;
  std::int64_t stride = 0;
};

struct AccessView {
  ValueIndex value = 0;
  DType dtype = DType::kF32;
  bool is_linear = false;
  std::int64_t count = 0;
  Slot fill{};
  std::int64_t offset = 0;
  BlockArray<CompiledTerm> linear;
  BlockArray<CoordinateView> coordinates;
};

struct StepsView {
  BlockArray<CompiledStep> steps;
  std::uint64_t always = 0;
  CompiledOperand result;
};

struct PrimitiveView {
  Kind kind = Kind::kMap;
  DType dtype = DType::kF32;
  bool has_when = false;
  std::int64_t count = 0;
  std::int64_t fold_count = 1;
  BlockArray<std::int64_t> shape;
  BlockArray<std::int64_t> iteration;
  BlockArray<std::int64_t> fold;
  BlockArray<AccessView> accesses;
  StepsView steps;
  StepsView when;
  CompiledOperand init;
};

/// Returns the block of a primitive: some 100 bytes per access and 90 per step.
[[nodiscard]] std::vector<std::uint8_t> flatten(const CompiledPrimitive& primitive);

/// The primitive in a block that flatten() made. `block` must be aligned to kBlockAlignment.
[[nodiscard]] DGX_HOST_DEVICE inline const PrimitiveView& view_of(const void* block) {
  return *static_cast<const PrimitiveView*>(block);
}

}  // namespace dgx::kernels
