#include "constant_memory.h"

#include <c10/core/CPUAllocator.h>
#include <fmt/format.h>

namespace dgx::torch_bridge {
namespace {

thread_local std::size_t* t_used_bytes = nullptr;

/// Adds a tensor to the sum of a pass.
void count(std::size_t bytes, std::size_t& used_bytes) {
  if (bytes > kMaxConstantBytes)
    throw TooManyConstants(
        fmt::format("makes a tensor of {} bytes that is the same in every step, at most {} are taken", bytes,
                    kMaxConstantBytes));
  used_bytes += bytes;
  if (used_bytes > kMaxConstantBytesTogether)
    throw TooManyConstants(
        fmt::format("with this tensor, those that are the same in every step have more than {} bytes",
                    kMaxConstantBytesTogether));
}

/// libtorch's allocator, with the bounds before it.
class BoundedAllocator final : public c10::Allocator {
 public:
  explicit BoundedAllocator(c10::Allocator* below) : below_(below) {}

  c10::DataPtr allocate(std::size_t bytes) override {
    if (t_used_bytes != nullptr) count(bytes, *t_used_bytes);
    return below_->allocate(bytes);
  }
  [[nodiscard]] c10::DeleterFnPtr raw_deleter() const override { return below_->raw_deleter(); }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    below_->copy_data(to, from, bytes);
  }

 private:
  c10::Allocator* below_;
};

void bound_allocations() {
  static BoundedAllocator bounded(c10::GetCPUAllocator());
  static const bool is_set = (c10::SetCPUAllocator(&bounded, /*priority=*/1), true);
  static_cast<void>(is_set);
}

}  // namespace

ConstantMemory::ConstantMemory(std::size_t& used_bytes) {
  bound_allocations();
  t_used_bytes = &used_bytes;
}

ConstantMemory::~ConstantMemory() { t_used_bytes = nullptr; }

}  // namespace dgx::torch_bridge
