#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dgx/exec/profile.h"
#include "dgx/kernels/compiled.h"
#include "dgx/program/program.h"
#include "plan/operation.h"

namespace dgx::exec {

/// Operations [begin, end), with a barrier after them. Member 0 runs a serial section alone; a parallel
/// section is one operation, or one SlicedOperations, that all members share.
struct Section {
  std::size_t begin = 0, end = 0;
  bool serial = false;
  std::optional<std::size_t> sliced;  ///< index into Plan::sliced, if they run slice by slice
};

/// Operations [begin, end) that run slice by slice. Every output consists of `slices` equal parts; a
/// thread takes `chunk` neighbouring ones at a time through all of them. Only they read the values
/// in `inside`, so each thread has memory for just one chunk of them.
struct SlicedOperations {
  std::size_t begin = 0, end = 0;
  std::int64_t slices = 1, chunk = 1;
  std::vector<kernels::ValueIndex> inside;
};

/// The place of a value while a step runs.
struct Placement {
  enum class Where : std::uint8_t {
    kNowhere,  ///< in registers only
    kInput,    ///< a state entry, batch field, schedule or constant: memory of its own
    kArena,    ///< at `offset` of the arena
    kSlice,    ///< at `offset` of each thread's slice memory
    kInPlace,  ///< over the state entry `entry`, whose next value it is
    kNext,     ///< in a second buffer, exchanged with entry `entry`'s when the step ends
  };
  Where where = Where::kNowhere;
  std::int64_t offset = 0;
  std::size_t entry = 0;
};

/// kFused fuses maps, shares memory between values and updates state in place. kEveryValue keeps one
/// operation per value, in program order, and writes no state in place: for traces, faults and disputes.
enum class Fusion : std::uint8_t { kFused, kEveryValue };

/// A step program, decided: which operations run, in which order, who shares them, and where every value
/// lies.
///
/// The program says what each number is, never how or when it is made. A plan chooses that, and whatever it
/// chooses, the bits are the same: each operation keeps the definition and the fold order of its values
/// (dgx-numerics(7)). So plans may differ between machines, between numbers of threads, and between the CPU
/// and a device.
///
/// A plan is data. make_plan() and make_device_plan() make it in passes over an OperationGraph
/// (operation_graph.h), of which it is what remains; explain() prints it. A Machine (machine.h) runs a plan
/// for the CPU: section by section, with a barrier after each. On a device, DeviceMemory (device_memory.h)
/// turns placements into addresses and make_device_step() (device_launches.h) operations into launches;
/// sections, slices and scratch are the CPU's alone.
///
/// A value is in one of three states: an operation stores it where `placements` says; or it stays in the
/// registers of the operation that makes it, the only one to read it; or nothing needs it and none makes it.
struct Plan {
  /// The program as the passes have rewritten it: shapes may have their channels last (channels_last.h).
  std::shared_ptr<const program::Program> program;
  kernels::ByValue<kernels::CompiledPrimitive> compiled;  ///< one per value; inputs are left empty
  std::vector<Operation> operations;                      ///< in execution order
  std::vector<Section> sections;
  std::vector<SlicedOperations> sliced;
  kernels::ByValue<Placement> placements;
  kernels::ByValue<bool> checked;  ///< one per value: it becomes f32 state, which must be finite
  kernels::ByValue<Layout> layouts;
  std::vector<kernels::ValueIndex> entries;  ///< the state inputs, in order of entry name
  std::int64_t arena_bytes = 0;
  std::int64_t slice_bytes = 0;  ///< slice memory of one thread
  std::size_t most_registers = 0;
  std::int64_t longest_fold = 0;   ///< floats of fold scratch of one thread
  std::int64_t window_floats = 0;  ///< scratch of one thread for its share of windows
};

/// kMayMove lets a plan move channels last (channels_last.h). kLieRight: whoever made the program has
/// decided.
enum class Channels : std::uint8_t { kMayMove, kLieRight };

/// Plans a step on the CPU. `keep`: values that must be in memory when it ends, besides the entries' next
/// values. `resumed`: dots that go on with a running state (Machine::resume): each is a Matmul, a ColumnSum
/// or Generic, and lies in rows; it must be an entry's next value.
[[nodiscard]] Result<Plan> make_plan(std::shared_ptr<const program::Program> program, Fusion fusion,
                                     int threads, const std::vector<kernels::ValueIndex>& keep,
                                     const std::vector<kernels::ValueIndex>& resumed = {},
                                     Channels channels = Channels::kMayMove);
/// Plans a fused step on a device (device_executor.h), `keep` as above. All values lie in rows, none in
/// slices.
[[nodiscard]] Result<Plan> make_device_plan(std::shared_ptr<const program::Program> program,
                                            const std::vector<kernels::ValueIndex>& keep = {});

/// Bytes that a plan needs besides its inputs: intermediate values, and the scratch of `threads` threads.
[[nodiscard]] std::int64_t planned_bytes(const Plan& plan, int threads);

/// Bytes of the inputs, which planned_bytes() does not count: state twice where its next value has a buffer
/// of its own.
[[nodiscard]] std::int64_t input_bytes(const Plan& plan);

/// Bytes of a value in rows.
[[nodiscard]] std::int64_t bytes_of(const kernels::Primitive& value);

/// One profile per operation. `seconds`: the time that each has taken; if empty, so is the result.
[[nodiscard]] std::vector<OperationProfile> operation_profiles(const Plan& plan,
                                                               std::span<const double> seconds);

/// One line per operation.
[[nodiscard]] std::string explain(const Plan& plan);

}  // namespace dgx::exec
