#pragma once

#include <cstddef>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace dgx::kernels::cuda::emulated {

/// A stack to run on, and where what ran on it left off. The host's own stack is one too, without memory of its own.
class Stack {
 public:
  Stack() = default;
  /// Takes memory, on which `entry` begins when it is first switched to. It must never return.
  explicit Stack(void (*entry)());
  ~Stack();
  Stack(const Stack&) = delete;

  /// Goes on with `to`; returns when something switches back.
  void switch_to(Stack& to);
  /// What an entry says first, with the stack that it was switched to from.
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
