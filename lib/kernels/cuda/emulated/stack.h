#pragma once

#include <cstddef>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace dgx::kernels::cuda::emulated {

/// A stack to run on, and the point at which its code left off. The host's own stack is one too, without
/// memory of its own.
class Stack {
 public:
  Stack() = default;
  /// Allocates memory, on which `entry` begins when it is first switched to. `entry` must never return.
  explicit Stack(void (*entry)());
  ~Stack();
  Stack(const Stack&) = delete;

  /// Continues on `to`; returns when something switches back.
  void switch_to(Stack& to);
  /// Must be the first call of an entry, with the stack that it was switched to from.
  static void arrived(Stack& from);

 private:
  void* memory_ = nullptr;
  const void* bottom_ = nullptr;  // for the address sanitizer
  std::size_t size_ = 0;
#if defined(__x86_64__)
  void* top_ = nullptr;
#else
  ucontext_t context_{};
#endif
};

}  // namespace dgx::kernels::cuda::emulated
