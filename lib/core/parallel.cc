#include "dgx/core/parallel.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "dgx/core/process_limits.h"

namespace dgx {
namespace {

/// Starts a thread if it can: fewer threads than wanted is slower, not an error.
void start(std::vector<std::thread>& threads, const std::function<void()>& body) {
  try {
    threads.emplace_back(body);
  } catch (const std::system_error&) {
    return;
  }
}

}  // namespace

int thread_count(int asked) { return asked > 0 ? asked : cpu_limit(); }

Status for_each_index(std::size_t count, int threads, const std::function<Status(std::size_t)>& work) {
  std::atomic<std::size_t> next{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::optional<Error> first_error;
  const auto body = [&] {
    while (!failed) {
      const std::size_t index = next++;
      if (index >= count) return;
      Status status = work(index);
      if (status.ok()) continue;
      const std::lock_guard lock(mutex);
      if (!first_error) first_error = std::move(status).error();
      failed = true;
    }
  };
  std::vector<std::thread> helpers;
  const std::size_t wanted = std::min(count, static_cast<std::size_t>(std::max(threads, 1)));
  for (std::size_t i = 1; i < wanted; ++i) start(helpers, body);
  body();
  for (std::thread& helper : helpers) helper.join();
  if (first_error) return *std::move(first_error);
  return {};
}

Status Turns::take(std::size_t index, const std::function<Status()>& work) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return next_ == index || failed_; });
  if (failed_) return {};
  Status status = work();
  failed_ = !status.ok();
  ++next_;
  changed_.notify_all();
  return status;
}

Error Turns::fail(Error error) {
  const std::lock_guard lock(mutex_);
  failed_ = true;
  changed_.notify_all();
  return error;
}

}  // namespace dgx
