#pragma once

#include <cstdint>

#include "dgx/core/result.h"
#include "dgx/jobs/task_files.h"

namespace dgx::jobs {

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
/// The bytes of the task's state.
[[nodiscard]] std::int64_t state_bytes(const TaskFiles& files);

}  // namespace dgx::jobs
