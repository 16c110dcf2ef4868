#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dgx/exec/executor.h"
#include "plan/plan.h"

namespace dgx::exec {

/// An entry of the state on a device.
struct DeviceEntry {
  std::string name;
  kernels::ValueIndex input{};
  std::optional<kernels::ValueIndex> next;
  std::int64_t size_bytes = 0;
  std::int64_t current = 0;  ///< offset of its numbers
  /// A second buffer, from which the next value is copied when the step ends.
  std::optional<std::int64_t> spare;
  /// The next value is an input that may be overwritten: copied to `spare` first.
  bool before = false;

  /// True if the step changes this entry.
  [[nodiscard]] bool changes() const { return next && *next != input; }
};

/// The layout of a device's memory, as offsets from one address. What the host sends for each step lies
/// together, so that one copy sends it: the step's number, schedule inputs and the batch.
///
/// From the start: what is sent; constants and random inputs; the state's entries, those that steps change
/// before the others, so that one copy takes a snapshot of either; second buffers for next values that cannot
/// be written over their entry; flags and the loss, read back after every step; the plan's arena; and
/// scratch, which all operations use in turn. The offsets are all decided before the memory is allocated, and
/// never change: a step's launches are recorded once, with their addresses, and replayed. So buffers are not
/// exchanged as on the CPU; a next value in a second buffer is copied to its entry when the step ends.
struct DeviceMemory {
  std::int64_t step = 0;           ///< i64: the step's number
  std::int64_t staged_bytes = 0;   ///< the bytes from 0 on: copied to the device for every step
  std::int64_t flags = 0;          ///< i32 by entry: its next value is not finite; after them the loss
  std::int64_t results_bytes = 0;  ///< the bytes from `flags` on: read back after every step
  std::int64_t state = 0;          ///< start of the entries' numbers
  std::int64_t state_bytes = 0;    ///< bytes of all entries, with the gaps between them
  std::int64_t changed_bytes = 0;  ///< of those that steps change, which come first
  std::int64_t arena = 0;
  std::int64_t scratch = 0;  ///< passed from one launch of an operation to the next
  std::int64_t size_bytes = 0;
  kernels::ByValue<std::int64_t> inputs;  ///< offset of a batch, schedule, constant or uniform input, or -1
  std::vector<DeviceEntry> entries;       ///< in order of name
  kernels::ByValue<std::int64_t> values;  ///< one per value: its offset, or -1 if it lies nowhere

  [[nodiscard]] std::int64_t loss() const {
    return flags + static_cast<std::int64_t>(entries.size() * sizeof(std::int32_t));
  }
};

[[nodiscard]] DeviceMemory plan_device_memory(const Plan& plan);

}  // namespace dgx::exec
