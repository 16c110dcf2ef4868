#include "block.h"

#include <algorithm>
#include <numeric>

namespace dgx::kernels::cuda::emulated {

Place place;

namespace {

constexpr unsigned kMostThreads = 1024;
constexpr std::int64_t kMostBlocks = (std::int64_t{1} << 31) - 1;

BlockRunner* runner = nullptr;  // of the running kernel

}  // namespace

struct BlockRunner::Fiber {
  Stack stack{&BlockRunner::enter};
  std::uint32_t thread = 0;
  const char* file = nullptr;  // of the barrier it waits at; null: it is idle
  int line = 0;
};

BlockRunner::BlockRunner(Order order) : order_(order) {}
BlockRunner::~BlockRunner() = default;

void barrier(const char* file, int line) { runner->wait(file, line); }

void BlockRunner::wait(const char* file, int line) {
  Fiber& self = *running_;
  self.file = file;
  self.line = line;
  self.stack.switch_to(home_);
}

void BlockRunner::enter() {
  Stack::arrived(runner->home_);
  runner->live(*runner->running_);
}

/// Runs thread after thread, as long as some have not begun.
void BlockRunner::live(Fiber& fiber) {
  while (true) {
    while (next_thread_ < threads_.size()) {
      fiber.thread = threads_[next_thread_++];
      place.thread.x = fiber.thread;
      (*body_)();
    }
    fiber.file = nullptr;
    fiber.stack.switch_to(home_);
  }
}

void BlockRunner::resume(Fiber& fiber) {
  running_ = &fiber;
  place.thread.x = fiber.thread;
  home_.switch_to(fiber.stack);
}

BlockRunner::Fiber& BlockRunner::idle_fiber() {
  for (const auto& fiber : fibers_) {
    if (fiber->file == nullptr) return *fiber;
  }
  fibers_.push_back(std::make_unique<Fiber>());
  return *fibers_.back();
}

void BlockRunner::order(std::vector<std::uint32_t>& numbers, std::uint32_t count) {
  numbers.resize(count);
  std::iota(numbers.begin(), numbers.end(), 0U);
  if (order_ == Order::kReversed) std::reverse(numbers.begin(), numbers.end());
  if (order_ != Order::kShuffled) return;
  for (std::uint32_t n = count; n > 1; --n) {
    random_ = random_ * 6364136223846793005U + 1442695040888963407U;
    std::swap(numbers[n - 1], numbers[static_cast<std::size_t>(random_ >> 33U) % n]);
  }
}

Status BlockRunner::check_barrier(const std::vector<Fiber*>& waiting, unsigned threads) const {
  if (waiting.empty()) return {};
  const Fiber& first = *waiting.front();
  const std::string where = std::string(first.file) + ":" + std::to_string(first.line);
  if (waiting.size() != threads) {
    return internal_error(where + ": " + std::to_string(waiting.size()) + " of " + std::to_string(threads) +
                          " threads of block " + std::to_string(place.block.x) +
                          " wait, the others have ended");
  }
  for (const Fiber* fiber : waiting) {
    if (fiber->file == first.file && fiber->line == first.line) continue;
    return internal_error(where + ": a thread of block " + std::to_string(place.block.x) + " waits at line " +
                          std::to_string(fiber->line) + " meanwhile");
  }
  return {};
}

Status BlockRunner::run_block(unsigned threads) {
  order(threads_, threads);
  next_thread_ = 0;
  std::vector<Fiber*> waiting;
  while (next_thread_ < threads_.size()) {
    Fiber& fiber = idle_fiber();
    resume(fiber);
    if (fiber.file != nullptr) waiting.push_back(&fiber);
  }
  std::vector<std::uint32_t> turns;
  while (!waiting.empty()) {
    DGX_CHECK(check_barrier(waiting, threads));
    std::vector<Fiber*> still;
    order(turns, static_cast<std::uint32_t>(waiting.size()));
    for (const std::uint32_t turn : turns) {
      Fiber& fiber = *waiting[turn];
      fiber.file = nullptr;
      resume(fiber);
      if (fiber.file != nullptr) still.push_back(&fiber);
    }
    waiting = std::move(still);
  }
  return {};
}

Status BlockRunner::run(std::int64_t blocks, unsigned threads, const std::function<void()>& body) {
  if (blocks < 0 || blocks > kMostBlocks || threads < 1 || threads > kMostThreads) {
    return internal_error("a grid of " + std::to_string(blocks) + " blocks of " + std::to_string(threads) +
                          " threads is impossible");
  }
  runner = this;
  body_ = &body;
  place.threads.x = threads;
  place.blocks.x = static_cast<unsigned>(blocks);
  for (std::int64_t n = 0; n < blocks; ++n) {
    const std::int64_t block = order_ == Order::kForward ? n : blocks - 1 - n;
    place.block.x = static_cast<unsigned>(block);
    DGX_CHECK(run_block(threads));
  }
  return {};
}

}  // namespace dgx::kernels::cuda::emulated
