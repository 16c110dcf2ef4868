#include "memory_plan.h"

#include <algorithm>
#include <map>

#include "dgx/kernels/cpu/strip.h"

namespace dgx::exec {

using kernels::ValueIndex;
using Where = Placement::Where;

namespace {

constexpr std::int64_t kAlignment = 64;

/// Offsets of blocks that live at the same time do not overlap; first fit.
class Arena {
 public:
  std::int64_t take(std::int64_t size) {
    size = (size + kAlignment - 1) / kAlignment * kAlignment;
    for (auto it = free_.begin(); it != free_.end(); ++it) {
      if (it->second < size) continue;
      const std::int64_t offset = it->first;
      const std::int64_t rest = it->second - size;
      free_.erase(it);
      if (rest > 0) free_[offset + size] = rest;
      return offset;
    }
    const std::int64_t offset = end_;
    end_ += size;
    return offset;
  }
  void give_back(std::int64_t offset, std::int64_t size) {
    size = (size + kAlignment - 1) / kAlignment * kAlignment;
    auto next = free_.lower_bound(offset);
    if (next != free_.end() && offset + size == next->first) {
      size += next->second;
      next = free_.erase(next);
    }
    if (next != free_.begin()) {
      auto previous = std::prev(next);
      if (previous->first + previous->second == offset) {
        previous->second += size;
        return;
      }
    }
    free_[offset] = size;
  }
  [[nodiscard]] std::int64_t end() const { return end_; }

 private:
  std::map<std::int64_t, std::int64_t> free_;  // offset → size
  std::int64_t end_ = 0;
};

}  // namespace

namespace {

/// By task: the last one that may run before it is finished everywhere. Of sliced tasks one thread may be at the last while another is
/// at the first.
std::vector<std::size_t> ends_of_sections(const Plan& plan) {
  std::vector<std::size_t> ends(plan.tasks.size());
  for (std::size_t t = 0; t < ends.size(); ++t) ends[t] = t;
  for (const SlicedTasks& sliced : plan.sliced) {
    for (std::size_t t = sliced.begin; t < sliced.end; ++t) ends[t] = sliced.end - 1;
  }
  return ends;
}

/// Places in a thread's memory for slices of what lives no longer than they.
void place_slices(const program::Program& program, Plan& plan) {
  for (const SlicedTasks& sliced : plan.sliced) {
    std::int64_t offset = 0;
    for (const ValueIndex v : sliced.inside) {
      plan.placements[static_cast<std::size_t>(v)] = {Where::kSlice, offset, 0};
      const std::int64_t size = bytes_of(program.values[static_cast<std::size_t>(v)]) / sliced.slices * sliced.chunk;
      offset += (size + kAlignment - 1) / kAlignment * kAlignment + kAlignment;
    }
    plan.slice_bytes = std::max(plan.slice_bytes, offset);
  }
}

}  // namespace

void plan_memory(const program::Program& program, bool in_place, const std::vector<ValueIndex>& keep, Plan& plan) {
  const std::size_t values = program.values.size();
  plan.placements.assign(values, {});
  plan.entries = program::state_inputs(program);
  std::vector<std::size_t> last_read(values, 0);
  for (std::size_t t = 0; t < plan.tasks.size(); ++t) {
    for (const ValueIndex v : plan.tasks[t].reads) last_read[static_cast<std::size_t>(v)] = t;
  }
  const std::vector<std::size_t> ends = ends_of_sections(plan);
  place_slices(program, plan);
  for (std::size_t v = 0; v < values; ++v) {
    if (program.values[v].kind == kernels::Kind::kInput) plan.placements[v].where = Where::kInput;
  }
  std::map<ValueIndex, std::size_t> entry_of;  // next value → entry; the first entry wins, others copy
  for (std::size_t e = 0; e < plan.entries.size(); ++e) {
    const auto next = program.values[static_cast<std::size_t>(plan.entries[e])].next;
    if (next) entry_of.emplace(*next, e);
  }
  Arena arena;
  std::vector<std::vector<ValueIndex>> dies(plan.tasks.size() + 1);
  for (std::size_t t = 0; t < plan.tasks.size(); ++t) {
    for (const ValueIndex v : plan.tasks[t].writes) {
      Placement& placement = plan.placements[static_cast<std::size_t>(v)];
      const auto size = bytes_of(program.values[static_cast<std::size_t>(v)], plan.layouts[static_cast<std::size_t>(v)]);
      if (placement.where == Where::kSlice) continue;
      if (const auto entry = entry_of.find(v); entry != entry_of.end()) {
        placement.entry = entry->second;
        const bool last = last_read[static_cast<std::size_t>(plan.entries[entry->second])] <= t;
        const bool is_map = map_of(plan.tasks[t]) != nullptr;
        placement.where = in_place && last && is_map ? Where::kInPlace : Where::kNext;
        continue;
      }
      placement = {Where::kArena, arena.take(size), 0};
      // Nobody reads it, or somebody will when all is done: it is asked for.
      const bool kept = last_read[static_cast<std::size_t>(v)] <= t || std::find(keep.begin(), keep.end(), v) != keep.end();
      if (!kept) dies[ends[last_read[static_cast<std::size_t>(v)]]].push_back(v);
    }
    for (const ValueIndex v : dies[t]) {
      arena.give_back(plan.placements[static_cast<std::size_t>(v)].offset,
                      bytes_of(program.values[static_cast<std::size_t>(v)], plan.layouts[static_cast<std::size_t>(v)]));
    }
  }
  plan.arena_bytes = arena.end();
}

std::int64_t planned_bytes(const Plan& plan, int threads) {
  const auto registers = static_cast<std::int64_t>(plan.most_registers) * kernels::cpu::kStripLength * 8;
  return plan.arena_bytes + (registers + (plan.longest_fold + plan.window_floats) * 4 + plan.slice_bytes) * threads;
}

std::int64_t bytes_of(const kernels::Primitive& value) {
  std::int64_t bytes = static_cast<std::int64_t>(size_of(value.dtype));
  for (const std::int64_t extent : value.shape) bytes *= extent;
  return bytes;
}

}  // namespace dgx::exec
