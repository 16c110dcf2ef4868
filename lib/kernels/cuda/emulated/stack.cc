#include "stack.h"

#include <sys/mman.h>

#include <cassert>
#include <cstdint>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#if defined(__x86_64__)
// Saves the registers that a call preserves, and restores them from the other stack. swapcontext() does the
// same with two system calls for signals, which takes a hundred times as long; a block of 256 threads
// switches 512 times at every barrier.
extern "C" void dgx_switch_stack(void** from, void* to);
asm(R"(
.text
.hidden dgx_switch_stack
.globl dgx_switch_stack
.type dgx_switch_stack, @function
dgx_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size dgx_switch_stack, .-dgx_switch_stack
)");
#endif

namespace dgx::kernels::cuda::emulated {
namespace {

constexpr std::size_t kStackBytes = std::size_t{1} << 18U;

}  // namespace

Stack::Stack(void (*entry)()) : size_(kStackBytes) {
  memory_ = ::mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
  assert(memory_ != MAP_FAILED);
  bottom_ = memory_;
#if defined(__x86_64__)
  // Six registers, the return address, and a slot that aligns the stack as a call would.
  auto** const top = reinterpret_cast<void**>(static_cast<std::uint8_t*>(memory_) + kStackBytes) - 8;
  for (int n = 0; n < 6; ++n) top[n] = nullptr;
  top[6] = reinterpret_cast<void*>(entry);
  top[7] = nullptr;
  top_ = top;
#else
  ::getcontext(&context_);
  context_.uc_stack.ss_sp = memory_;
  context_.uc_stack.ss_size = size_;
  context_.uc_link = nullptr;
  ::makecontext(&context_, entry, 0);
#endif
}

Stack::~Stack() {
  if (memory_ == nullptr) return;
#if defined(__SANITIZE_ADDRESS__)
  // The code on it has not returned: its frames stay poisoned, and would poison whatever is mapped here next.
  __asan_unpoison_memory_region(memory_, size_);
#endif
  ::munmap(memory_, size_);
}

void Stack::switch_to(Stack& to) {
#if defined(__SANITIZE_ADDRESS__)
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(&fake, to.bottom_, to.size_);
#endif
#if defined(__x86_64__)
  dgx_switch_stack(&top_, to.top_);
#else
  ::swapcontext(&context_, &to.context_);
#endif
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
}

void Stack::arrived([[maybe_unused]] Stack& from) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &from.bottom_, &from.size_);
#endif
}

}  // namespace dgx::kernels::cuda::emulated
