#include "dgx/kernels/primitive_view.h"

#include <cassert>
#include <limits>
#include <new>
#include <span>

namespace dgx::kernels {
namespace {

// A block while it is made. Objects in it are known by their offset, because it moves while it grows.
class Block {
 public:
  // Appends `count` new objects with their default values, and returns the offset of the first.
  template <class T>
  std::size_t append(std::size_t count) {
    static_assert(alignof(T) <= kBlockAlignment);
    const std::size_t offset = bytes_.size();
    bytes_.resize(offset + (count * sizeof(T) + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment);
    for (std::size_t n = 0; n < count; ++n) new (bytes_.data() + offset + n * sizeof(T)) T;
    return offset;
  }
  template <class T>
  [[nodiscard]] T& at(std::size_t offset, std::size_t n = 0) {
    return reinterpret_cast<T*>(bytes_.data() + offset)[n];
  }

  // Gives the array at `array` `count` new objects, and returns the offset of the first.
  template <class T>
  std::size_t allot(std::size_t array, std::size_t count) {
    const std::size_t items = append<T>(count);
    assert(items - array <= std::numeric_limits<std::uint32_t>::max());
    at<BlockArray<T>>(array).place(static_cast<std::uint32_t>(items - array),
                                   static_cast<std::uint32_t>(count));
    return items;
  }
  template <class T>
  void copy(std::size_t array, const std::vector<T>& from) {
    const std::size_t items = allot<T>(array, from.size());
    for (std::size_t n = 0; n < from.size(); ++n) at<T>(items, n) = from[n];
  }
  // The offset in the block of a member of one of its objects.
  [[nodiscard]] std::size_t offset_of(const void* member) const {
    return static_cast<std::size_t>(static_cast<const std::uint8_t*>(member) - bytes_.data());
  }
  std::vector<std::uint8_t> take() { return std::move(bytes_); }

 private:
  std::vector<std::uint8_t> bytes_;
};

void put(Block& block, std::size_t at, const CompiledCoordinate& from) {
  auto& to = block.at<CoordinateView>(at);
  to.constant = from.constant;
  to.division = from.division;
  to.divisor = from.divisor;
  to.size = from.size;
  to.stride = from.stride;
  block.copy(block.offset_of(&to.terms), from.terms);
}

void put(Block& block, std::size_t at, const CompiledAccess& from) {
  auto& to = block.at<AccessView>(at);
  to.value = from.value;
  to.dtype = from.dtype;
  to.is_linear = from.is_linear;
  to.count = from.count;
  to.fill = from.fill;
  to.offset = from.offset;
  const std::size_t coordinates = block.offset_of(&to.coordinates);
  block.copy(block.offset_of(&to.linear), from.linear);
  const std::size_t items = block.allot<CoordinateView>(coordinates, from.coordinates.size());
  for (std::size_t n = 0; n < from.coordinates.size(); ++n) {
    put(block, items + n * sizeof(CoordinateView), from.coordinates[n]);
  }
}

void put(Block& block, std::size_t at, const CompiledSteps& from) {
  auto& to = block.at<StepsView>(at);
  to.always = from.always;
  to.result = from.result;
  block.copy(block.offset_of(&to.steps), from.steps);
}

}  // namespace

std::vector<std::uint8_t> flatten(const CompiledPrimitive& primitive) {
  Block block;
  const std::size_t root = block.append<PrimitiveView>(1);
  auto& to = block.at<PrimitiveView>(root);
  to.kind = primitive.kind;
  to.dtype = primitive.dtype;
  to.has_when = primitive.has_when;
  to.count = primitive.count;
  to.fold_count = primitive.fold_count;
  to.init = primitive.init;
  const std::size_t shape = block.offset_of(&to.shape);
  const std::size_t iteration = block.offset_of(&to.iteration);
  const std::size_t fold = block.offset_of(&to.fold);
  const std::size_t accesses = block.offset_of(&to.accesses);
  const std::size_t steps = block.offset_of(&to.steps);
  const std::size_t when = block.offset_of(&to.when);
  block.copy(shape, primitive.shape);
  block.copy(iteration, primitive.iteration);
  block.copy(fold, primitive.fold);
  const std::size_t items = block.allot<AccessView>(accesses, primitive.accesses.size());
  for (std::size_t n = 0; n < primitive.accesses.size(); ++n) {
    put(block, items + n * sizeof(AccessView), primitive.accesses[n]);
  }
  put(block, steps, primitive.steps);
  put(block, when, primitive.when);
  return block.take();
}

}  // namespace dgx::kernels
