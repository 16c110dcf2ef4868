#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

namespace dgx::exec {

/// A fixed set of threads that run one function together; the caller is member 0. Between steps and at
/// barriers members spin for 50 to 200 microseconds, then sleep: an operation of a few microseconds can be
/// shared, and an idle or overcommitted machine is not kept busy.
///
/// There is no queue and nothing is stolen: every member calls the same function with its number, from which
/// it knows its share (share() in machine_thread.h). `generation_` starts a run: members wait for it to
/// change, and the last to finish leaves `running_` at 0. A barrier counts arrivals; the last to arrive
/// resets the count before it changes `barrier_generation_`, so that a member may be at the next barrier
/// already.
class ThreadTeam {
 public:
  explicit ThreadTeam(int size);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  [[nodiscard]] int size() const { return size_; }
  /// Calls function(member) in every member and returns when all are done.
  void run(const std::function<void(int)>& function);
  /// Waits, inside run(), until every member has called it.
  void barrier(int member);
  /// Seconds that member 0 has slept waiting for the others since the last call.
  [[nodiscard]] double take_slept() { return std::exchange(slept_, 0); }

 private:
  void serve(int member);

  int size_;
  std::vector<std::thread> threads_;
  const std::function<void(int)>* function_ = nullptr;
  std::atomic<std::uint32_t> generation_{0};
  std::atomic<int> running_{0};
  std::atomic<int> arrived_{0};
  std::atomic<std::uint32_t> barrier_generation_{0};
  std::atomic<bool> stop_{false};
  double slept_ = 0;  // of member 0, in its thread
};

}  // namespace dgx::exec
