#include "train/checkpointer.h"

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "dgx/bundle/state.h"
#include "dgx/core/pages.h"

namespace dgx::jobs {

Checkpointer::Checkpointer(bundle::RunWriter& run, ResumePoint& point, Pace pace, int threads)
    : run_(run), point_(point), pace_(pace), threads_(threads_of(pace, threads)), thread_([this] {
        serve();
      }) {}

Checkpointer::~Checkpointer() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Checkpointer::serve() {
  // Training's threads wait for each other at every operation: time that this thread takes from one, it takes
  // from all; and a device waits for the thread that feeds it. The threads that this one starts inherit its
  // priority.
  if (pace_ != Pace::kAlone) ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), 10);
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return work_.has_value() || stop_; });
    if (!work_) return;
    lock.unlock();
    Status status = write(*work_);
    if (pace_ == Pace::kAlone) give_back_freed();
    lock.lock();
    work_.reset();
    if (!status.ok() && status_.ok()) status_ = std::move(status);
    changed_.notify_all();
  }
}

Status Checkpointer::write(const Work& work) {
  DGX_TRY(const State state, work.state());
  if (work.kind == Kind::kResumePoint)
    return point_.write(state, run_.index(), run_.constants(), work.losses, {.threads = threads_});
  DGX_TRY(const auto digests, bundle::digests_of(state, run_.constants(), threads_));
  DGX_CHECK(run_.append(state, digests, work.losses));
  point_.remove();
  return {};
}

Status Checkpointer::wait(std::unique_lock<std::mutex>& lock) {
  const auto begin = std::chrono::steady_clock::now();
  changed_.wait(lock, [this] { return !work_.has_value(); });
  waited_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return status_;
}

Status Checkpointer::commit(exec::StepExecutor& executor, std::vector<float> losses) {
  return begin(Kind::kCheckpoint, executor, std::move(losses));
}

Status Checkpointer::save(exec::StepExecutor& executor, std::vector<float> losses) {
  return begin(Kind::kResumePoint, executor, std::move(losses));
}

Status Checkpointer::begin(Kind kind, exec::StepExecutor& executor, std::vector<float> losses) {
  std::unique_lock lock(mutex_);
  DGX_CHECK(wait(lock));
  // Constant entries, which the run stores once, are neither copied nor hashed again.
  const auto is_constant = [this](std::string_view name) { return run_.constants().find(name) != nullptr; };
  DGX_TRY(exec::PendingState state, executor.snapshot(is_constant));
  work_ = Work{kind, std::move(state), std::move(losses)};
  changed_.notify_all();
  return pace_ == Pace::kAlone ? wait(lock) : Status();
}

Status Checkpointer::finish() {
  std::unique_lock lock(mutex_);
  return wait(lock);
}

}  // namespace dgx::jobs
