#include "device/device_memory.h"

#include <algorithm>

#include "device/device_dots.h"
#include "dgx/kernels/cuda/device.h"

namespace dgx::exec {

using kernels::Kind;
using kernels::Primitive;
using kernels::Source;
using kernels::ValueIndex;
using Where = Placement::Where;
namespace cuda = kernels::cuda;

namespace {

constexpr std::int64_t kAlignment = 256;

/// Hands out consecutive offsets, each a multiple of 256 bytes.
class Stretch {
 public:
  std::int64_t take(std::int64_t size_bytes) {
    const std::int64_t offset = end_;
    end_ = (end_ + size_bytes + kAlignment - 1) / kAlignment * kAlignment;
    return offset;
  }
  [[nodiscard]] std::int64_t end() const { return end_; }

 private:
  std::int64_t end_ = 0;
};

bool is_staged(const Source& source) {
  return source.kind == Source::Kind::kBatch || source.kind == Source::Kind::kSchedule;
}

DeviceEntry entry_of(const program::Program& program, ValueIndex v) {
  const Primitive& input = program.values[v];
  return {input.source.name, v, input.next, bytes_of(input), 0, {}, false};
}

/// Gives all entries that steps change, or all others, their place.
void place_entries(DeviceMemory& out, bool changed, Stretch& memory) {
  for (DeviceEntry& entry : out.entries) {
    if (entry.changes() != changed) continue;
    entry.current = memory.take(entry.size_bytes);
    out.inputs[entry.input] = entry.current;
  }
}

/// Adds second buffers for next values that the plan does not put over the entry, or that are inputs. They
/// are copied to the entry when the step ends.
void add_spares(const program::Program& program, const Plan& plan, std::vector<DeviceEntry>& entries,
                Stretch& memory) {
  for (std::size_t e = 0; e < entries.size(); ++e) {
    DeviceEntry& entry = entries[e];
    if (!entry.changes()) continue;
    const Placement& placement = plan.placements[*entry.next];
    entry.before = program.values[*entry.next].kind == Kind::kInput;
    const bool own = placement.where == Where::kNext && placement.entry == e;
    if (own || entry.before) entry.spare = memory.take(entry.size_bytes);
  }
}

std::int64_t piece_bytes(const cuda::TileWanted& wanted, const cuda::TileForm& form) {
  return cuda::piece_numbers(wanted, form) * static_cast<std::int64_t>(sizeof(float));
}

/// Scratch bytes of an operation: the numbers that its launches pass on to each other.
struct ScratchBytes {
  std::int64_t operator()(const ColumnSum& sum) const {
    return sum.columns * cuda::dot_groups(sum.rows) * static_cast<std::int64_t>(sizeof(float));
  }
  std::int64_t operator()(const TiledProduct& tiled) const {
    return piece_bytes(wanted_of(tiled.product), tiled.form);
  }
  std::int64_t operator()(const TiledDot& tiled) const {
    return piece_bytes(wanted_of(tiled.dot), tiled.dot.form);
  }
  std::int64_t operator()(const TeamFold& fold) const { return fold.scratch_bytes(); }
  template <class Alone>
  std::int64_t operator()(const Alone& /*other*/) const {
    return 0;
  }
};

std::int64_t place_of(const Placement& placement, const DeviceMemory& memory, ValueIndex v) {
  switch (placement.where) {
    case Where::kInput: return memory.inputs[v];
    case Where::kArena: return memory.arena + placement.offset;
    case Where::kInPlace: return memory.entries[placement.entry].current;
    case Where::kNext: return *memory.entries[placement.entry].spare;
    default: return -1;
  }
}

}  // namespace

DeviceMemory plan_device_memory(const Plan& plan) {
  const program::Program& program = *plan.program;
  DeviceMemory out;
  Stretch memory;
  out.inputs.assign(program.values.size(), -1);
  out.step = memory.take(sizeof(std::int64_t));
  const auto add_inputs = [&](bool staged) {
    for (const ValueIndex v : program.values.indices()) {
      const Primitive& value = program.values[v];
      const bool other = value.kind != Kind::kInput || value.source.kind == Source::Kind::kState;
      if (!other && is_staged(value.source) == staged) out.inputs[v] = memory.take(bytes_of(value));
    }
  };
  add_inputs(true);
  out.staged_bytes = memory.end();
  add_inputs(false);
  out.state = memory.end();
  for (const ValueIndex v : plan.entries) out.entries.push_back(entry_of(program, v));
  place_entries(out, true, memory);
  out.changed_bytes = memory.end() - out.state;
  place_entries(out, false, memory);
  out.state_bytes = memory.end() - out.state;
  add_spares(program, plan, out.entries, memory);
  out.results_bytes = static_cast<std::int64_t>((out.entries.size() + 1) * sizeof(std::int32_t));
  out.flags = memory.take(out.results_bytes);
  out.arena = memory.take(plan.arena_bytes);
  std::int64_t scratch = 0;
  for (const Operation& operation : plan.operations)
    scratch = std::max(scratch, std::visit(ScratchBytes{}, std::get<DeviceOperation>(operation.work)));
  out.scratch = memory.take(scratch);
  out.size_bytes = memory.end();
  for (const ValueIndex v : program.values.indices())
    out.values.push_back(place_of(plan.placements[v], out, v));
  return out;
}

}  // namespace dgx::exec
