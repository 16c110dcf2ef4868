#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dgx/core/result.h"
#include "place.h"
#include "stack.h"

namespace dgx::kernels::cuda::emulated {

/// The place of the running thread.
extern Place place;

/// __syncthreads() at a line: the thread waits until all others of its block wait there too.
void barrier(const char* file, int line);

/// The order in which threads and blocks take turns. A kernel that lets one thread read what another writes
/// without a barrier in between gives different results, or may, when the order changes.
enum class Order { kForward, kReversed, kShuffled };

/// Runs kernels block by block. The threads of a block are fibers on one thread of the host: each runs until
/// it comes to a barrier, then the next. Threads that never wait run one after another on the same fiber, so
/// that kernels without barriers cost no switches.
///
/// Its purpose is to really execute geometry, index arithmetic, barriers and shared memory, with every access
/// visible to the sanitizers. It has no warps (no shuffles, no votes), no delay until writes are visible, and
/// runs one block at a time.
class BlockRunner {
 public:
  explicit BlockRunner(Order order);
  ~BlockRunner();
  BlockRunner(const BlockRunner&) = delete;

  /// Runs `body` for every thread of every block. kInternal if the geometry is impossible, or some threads of
  /// a block end, or wait elsewhere, while others wait at a barrier.
  [[nodiscard]] Status run(std::int64_t blocks, unsigned threads, const std::function<void()>& body);

 private:
  struct Fiber;
  friend void barrier(const char* file, int line);
  static void enter();
  void live(Fiber& fiber);
  void resume(Fiber& fiber);
  void wait(const char* file, int line);
  [[nodiscard]] Fiber& idle_fiber();
  [[nodiscard]] Status run_block(unsigned threads);
  [[nodiscard]] Status check_barrier(const std::vector<Fiber*>& waiting, unsigned threads) const;
  void order(std::vector<std::uint32_t>& numbers, std::uint32_t count);

  Order order_;
  std::uint64_t random_ = 1;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<std::uint32_t> threads_;  // of the block, in the order in which they start
  std::size_t next_thread_ = 0;         // in threads_
  const std::function<void()>* body_ = nullptr;
  Fiber* running_ = nullptr;
  Stack home_;  // the host's
};

}  // namespace dgx::kernels::cuda::emulated
