#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dgx/exec/executor.h"
#include "plan.h"

namespace dgx::exec {

/// An entry of the state on a device.
struct DeviceEntry {
  std::string name;
  kernels::ValueIndex input = 0;
  std::optional<kernels::ValueIndex> next;
  std::int64_t size_bytes = 0;
  std::int64_t current = 0;            ///< offset of its number
  std::optional<std::int64_t> spare;   ///< of a second buffer, from which the next value is copied when the step ends
  bool before = false;                 ///< the next value is an input that may be gone by then: it is put aside when the step begins

  /// That the step makes something else of it.
  [[nodiscard]] bool changes() const { return next && *next != input; }
};

/// Where everything lies in a device's memory, as offsets from one address. What a step gets from the host is one stretch, so that one copy
/// brings it: the step's number, schedule inputs and the batch.
struct DeviceMemory {
  std::int64_t step = 0;                 ///< i64: the step's number
  std::int64_t staged_bytes = 0;         ///< from the start: what is copied for every step
  std::int64_t flags = 0;                ///< i32 by entry: its next value is not finite; then the loss
  std::int64_t results_bytes = 0;        ///< from `flags` on: what is read back after every step
  std::int64_t state = 0;                ///< where the entries' numbers begin
  std::int64_t state_bytes = 0;          ///< of all, and what lies between them
  std::int64_t arena = 0;
  std::int64_t scratch = 0;              ///< what one launch leaves for the next of its task
  std::int64_t size_bytes = 0;
  std::vector<std::int64_t> inputs;      ///< by value: offset of a batch field, schedule, constant or uniform input, or -1
  std::vector<DeviceEntry> entries;      ///< by name
  std::vector<std::int64_t> values;      ///< by value: its offset, or -1 if it lies nowhere

  [[nodiscard]] std::int64_t loss() const { return flags + static_cast<std::int64_t>(entries.size() * sizeof(std::int32_t)); }
};

/// Whether a sum, max or argmax is folded by teams of threads (kernels::cuda::Fold) rather than by one thread an output: operands are many, and
/// neighbours along the fold, or outputs too few for all threads.
[[nodiscard]] bool folds_by_teams(const kernels::CompiledPrimitive& primitive);

[[nodiscard]] DeviceMemory plan_device_memory(const program::Program& program, const Plan& plan);

}  // namespace dgx::exec
