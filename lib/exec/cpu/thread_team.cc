#include "cpu/thread_team.h"

#include <chrono>

namespace dgx::exec {
namespace {

// 50 to 200 microseconds: longer than the waits of a step that has the CPUs to itself.
constexpr int kSpins = 4000;

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/// Waits until `value` is no longer `old`. Returns the seconds slept.
template <class T>
double wait_change(const std::atomic<T>& value, T old) {
  for (int spin = 0; spin < kSpins; ++spin) {
    if (value.load(std::memory_order_acquire) != old) return 0;
    pause_briefly();
  }
  const auto begin = std::chrono::steady_clock::now();
  value.wait(old, std::memory_order_acquire);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

ThreadTeam::ThreadTeam(int size) : size_(size) {
  for (int member = 1; member < size; ++member) threads_.emplace_back([this, member] { serve(member); });
}

ThreadTeam::~ThreadTeam() {
  stop_ = true;
  ++generation_;
  generation_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadTeam::serve(int member) {
  std::uint32_t seen = 0;
  while (true) {
    wait_change(generation_, seen);
    ++seen;
    if (stop_) return;
    (*function_)(member);
    if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) running_.notify_one();
  }
}

void ThreadTeam::run(const std::function<void(int)>& function) {
  function_ = &function;
  running_.store(size_ - 1, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  function(0);
  for (int left = running_.load(std::memory_order_acquire); left != 0;
       left = running_.load(std::memory_order_acquire)) {
    slept_ += wait_change(running_, left);
  }
}

void ThreadTeam::barrier(int member) {
  if (size_ == 1) return;
  const std::uint32_t generation = barrier_generation_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == size_) {
    arrived_.store(0, std::memory_order_relaxed);
    barrier_generation_.fetch_add(1, std::memory_order_release);
    barrier_generation_.notify_all();
  } else {
    const double slept = wait_change(barrier_generation_, generation);
    if (member == 0) slept_ += slept;
  }
}

}  // namespace dgx::exec
