#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "dgx/core/checked.h"
#include "dgx/core/remote.h"
#include "dgx/core/result.h"
#include "dgx/jobs/task_files.h"

namespace dgx::jobs {

/// The sum and the product of two numbers that are not negative, or the largest number where it would be
/// more.
[[nodiscard]] inline std::int64_t add_up(std::int64_t a, std::int64_t b) {
  return checked_add(a, b).value_or(std::numeric_limits<std::int64_t>::max());
}
[[nodiscard]] inline std::int64_t multiply(std::int64_t a, std::int64_t b) {
  return checked_mul(a, b).value_or(std::numeric_limits<std::int64_t>::max());
}

/// Bounds of the memory that a process takes, on the CPU. They hold for data that are stored in any way, and
/// take what may be kept for kept. Cost: that of planning a step.

/// The memory of a program that computes nothing yet.
[[nodiscard]] std::int64_t program_memory(int threads);
/// The memory of a replay of the task's segments on opened data.
[[nodiscard]] Result<std::int64_t> replay_memory(const TaskFiles& files, int threads);
/// The memory of training, which reads all data.
[[nodiscard]] Result<std::int64_t> training_memory(const TaskFiles& files, int threads);
/// The memory of the task's data alone, which both include.
[[nodiscard]] std::int64_t data_memory(const manifest::Task& task);
/// The memory of a field of so many bytes that is read as a whole.
[[nodiscard]] std::int64_t field_memory(std::int64_t bytes);
/// The memory of a file, beside what it holds, if the path is that of a server's: else none.
[[nodiscard]] inline std::int64_t server_memory(const std::string& path) {
  return is_url(path) ? kRemoteFileBytes : 0;
}
/// The memory of a program's lines and of what computes them, keeping `keep` in memory.
[[nodiscard]] Result<std::int64_t> program_bytes(std::shared_ptr<const program::Program> program, int threads,
                                                 const std::vector<kernels::ValueIndex>& keep = {});
/// The memory of a state that is written beside all else.
[[nodiscard]] std::int64_t writer_memory(const TaskFiles& files);
/// The memory of `dgx-verify merge` of so many shards of a proof with so many states, of which as many
/// segments are drawn.
[[nodiscard]] std::int64_t merge_memory(std::int64_t states, std::int64_t drawn, std::int64_t shards);
/// The bytes of the task's state.
[[nodiscard]] std::int64_t state_bytes(const TaskFiles& files);

}  // namespace dgx::jobs
