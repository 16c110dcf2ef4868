#include "memory_plan.h"
#include "dgx/core/checked.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "dgx/kernels/cpu/strip.h"

namespace dgx::exec {

using kernels::ValueIndex;
using Where = Placement::Where;

namespace {

constexpr std::int64_t kAlignment = 64;
constexpr std::int64_t kLargeBlock = std::int64_t{1} << 12U;  // from this size on, placed largest first
constexpr std::size_t kMostLarge = 4096;                      // each is compared with the others

std::int64_t aligned(std::int64_t size) { return ceil_div(size, kAlignment) * kAlignment; }

/// First-fit allocation: the offsets of blocks that live at the same time do not overlap.
class Arena {
 public:
  std::int64_t take(std::int64_t size) {
    size = aligned(size);
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
    size = aligned(size);
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

/// The memory of a value, and of those later written over it, from the task `first` that makes it to the last
/// task that reads one of them.
struct Block {
  std::vector<ValueIndex> values;
  std::int64_t size;
  std::size_t first, last;
  std::int64_t offset = 0;
  ValueIndex top = values.back();  ///< the value that lies there last
};

/// Places blocks whose lifetimes are all known: the largest first, each at the lowest offset that is free of
/// blocks living at the same time. Placing them in order of time would leave holes that nothing fits. Returns
/// the end.
std::int64_t place_largest_first(std::vector<Block>& blocks) {
  std::stable_sort(blocks.begin(), blocks.end(),
                   [](const Block& a, const Block& b) { return a.size > b.size; });
  std::vector<const Block*> placed;  // by offset
  std::int64_t end = 0;
  for (Block& block : blocks) {
    for (const Block* other : placed) {
      if (other->last < block.first || block.last < other->first) continue;
      if (block.offset + block.size <= other->offset) break;
      block.offset = std::max(block.offset, other->offset + other->size);
    }
    const auto before = [](const Block* a, const Block* b) { return a->offset < b->offset; };
    placed.insert(std::upper_bound(placed.begin(), placed.end(), &block, before), &block);
    end = std::max(end, block.offset + block.size);
  }
  return end;
}

/// By task: the last task that may run before this one is finished on all threads. Of sliced tasks, one
/// thread may be at the last while another is at the first.
std::vector<std::size_t> ends_of_sections(const Plan& plan) {
  std::vector<std::size_t> ends(plan.tasks.size());
  for (std::size_t t = 0; t < ends.size(); ++t) ends[t] = t;
  for (const SlicedTasks& sliced : plan.sliced) {
    for (std::size_t t = sliced.begin; t < sliced.end; ++t) ends[t] = sliced.end - 1;
  }
  return ends;
}

/// Places the values inside sliced tasks in a thread's slice memory.
void place_slices(const program::Program& program, Plan& plan) {
  for (const SlicedTasks& sliced : plan.sliced) {
    std::int64_t offset = 0;
    for (const ValueIndex v : sliced.inside) {
      plan.placements[static_cast<std::size_t>(v)] = {Where::kSlice, offset, 0};
      const std::int64_t size =
          bytes_of(program.values[static_cast<std::size_t>(v)]) / sliced.slices * sliced.chunk;
      offset += aligned(size) + kAlignment;
    }
    plan.slice_bytes = std::max(plan.slice_bytes, offset);
  }
}

/// True if writing `written` over `old` in a fused group would be wrong: something reads `old` later, or at
/// another place. Only the last instruction that reads a value may overwrite it.
bool reads_after_write(const StripProgram& program, ValueIndex written, ValueIndex old) {
  bool done = false;
  for (const auto& instruction : program.instructions) {
    for (const std::int32_t in : instruction.in) {
      const StripRegister& reg = program.registers[static_cast<std::size_t>(in)];
      if (done && reg.value == old) return true;
    }
    const StripRegister& out = program.registers[static_cast<std::size_t>(instruction.out)];
    done = done || (out.source == StripRegister::Source::kMemory && out.value == written);
  }
  // Elements read at other places than they are written (broadcast, permuted, of another size) may be gone
  // already.
  return std::any_of(program.registers.begin(), program.registers.end(), [&](const StripRegister& reg) {
    if (reg.value != old) return false;
    if (reg.source == StripRegister::Source::kGuarded) return true;
    const auto same = [&](const StripRegister& other) {
      return other.value == written && other.source == StripRegister::Source::kMemory &&
             other.dtype == reg.dtype && program.nest.strides[other.map] == program.nest.strides[reg.map] &&
             other.base == reg.base;
    };
    return std::none_of(program.registers.begin(), program.registers.end(), same);
  });
}

/// The tasks [begin, end) that may run at the same time as task t: all sliced ones together.
std::pair<std::size_t, std::size_t> section_of(const Plan& plan, std::size_t t) {
  for (const SlicedTasks& sliced : plan.sliced) {
    if (t >= sliced.begin && t < sliced.end) return {sliced.begin, sliced.end};
  }
  return {t, t + 1};
}

/// A block of the same size that value v of map t may be written over: of all tasks from t's section on, only
/// t reads it. Or null.
Block* block_under(const Plan& plan, std::size_t t, ValueIndex v, std::int64_t size,
                   std::vector<Block>& blocks) {
  const auto* map = std::get_if<MapTask>(&plan.tasks[t].work);
  if (map == nullptr || map->strips) return nullptr;
  const auto section = section_of(plan, t);
  const auto found = std::find_if(
      blocks.begin(), blocks.end(), [&, begin = section.first, end = section.second](const Block& block) {
        if (block.size != size || block.first >= begin || block.last + 1 != end ||
            reads_after_write(map->program, v, block.top))
          return false;
        for (std::size_t other = begin; other < end; ++other) {
          const auto& reads = plan.tasks[other].reads;
          if ((std::find(reads.begin(), reads.end(), block.top) != reads.end()) != (other == t)) return false;
        }
        return true;
      });
  return found == blocks.end() ? nullptr : &*found;
}

/// By next value: the entry that it becomes. If there are several, the first has it, and the others copy.
std::map<ValueIndex, std::size_t> entries_by_next(const program::Program& program, const Plan& plan) {
  std::map<ValueIndex, std::size_t> entry_of;
  for (std::size_t e = 0; e < plan.entries.size(); ++e) {
    const auto next = program.values[static_cast<std::size_t>(plan.entries[e])].next;
    if (next) entry_of.emplace(*next, e);
  }
  return entry_of;
}

/// True if another entry becomes the old value of input `old`, which is then read when all tasks are done.
bool becomes_another(const program::Program& program, const Plan& plan, ValueIndex old) {
  return std::any_of(plan.entries.begin(), plan.entries.end(), [&](ValueIndex entry) {
    return entry != old && program.values[static_cast<std::size_t>(entry)].next == old;
  });
}

/// Places the large blocks at the arena's start, and moves what has a place already to after them. Returns
/// where that begins.
std::int64_t place_blocks(std::vector<Block>& large, Plan& plan) {
  const std::int64_t end = place_largest_first(large);
  for (Placement& placement : plan.placements) {
    if (placement.where == Where::kArena) placement.offset += end;
  }
  for (const Block& block : large) {
    for (const ValueIndex v : block.values)
      plan.placements[static_cast<std::size_t>(v)].offset = block.offset;
  }
  return end;
}

}  // namespace

std::vector<std::size_t> freeing_order(const program::Program& program, const Plan& plan,
                                       const std::vector<ValueIndex>& keep) {
  constexpr std::int64_t kMuch = std::int64_t{1} << 20U;
  std::vector<int> readers(program.values.size(), 0);  // by value: tasks still to run that read it
  std::vector<bool> stays(program.values.size());
  for (const Task& task : plan.tasks) {
    for (const ValueIndex v : std::set<ValueIndex>(task.reads.begin(), task.reads.end()))
      ++readers[static_cast<std::size_t>(v)];
  }
  for (std::size_t v = 0; v < program.values.size(); ++v) {
    if (program.values[v].kind == kernels::Kind::kInput) stays[v] = true;
    if (program.values[v].next) stays[static_cast<std::size_t>(*program.values[v].next)] = true;
  }
  for (const ValueIndex v : keep) stays[static_cast<std::size_t>(v)] = true;
  const auto contains = [](const std::vector<ValueIndex>& values, ValueIndex v) {
    return std::find(values.begin(), values.end(), v) != values.end();
  };
  /// Bytes that a task takes minus those that it frees; values that `other` reads are not freed.
  const auto taken = [&](const Task& task, const Task& other) {
    std::int64_t bytes = 0;
    for (const ValueIndex v : task.writes) bytes += bytes_of(program.values[static_cast<std::size_t>(v)]);
    for (const ValueIndex v : std::set<ValueIndex>(task.reads.begin(), task.reads.end())) {
      const auto value = static_cast<std::size_t>(v);
      if (readers[value] == 1 && !stays[value] && !contains(other.reads, v))
        bytes -= bytes_of(program.values[value]);
    }
    return bytes;
  };
  const auto waits = [&](const Task& later, const Task& sooner) {
    return std::any_of(sooner.writes.begin(), sooner.writes.end(),
                       [&](ValueIndex v) { return contains(later.reads, v); });
  };
  const auto becomes_state = [&](const Task& task) {
    return std::any_of(task.writes.begin(), task.writes.end(),
                       [&](ValueIndex v) { return stays[static_cast<std::size_t>(v)]; });
  };
  std::vector<std::size_t> order(plan.tasks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t at = 0; at + 1 < order.size(); ++at) {
    const Task& first = plan.tasks[order[at]];
    const Task& second = plan.tasks[order[at + 1]];
    if (!waits(second, first) && !becomes_state(second) && taken(first, second) >= kMuch &&
        taken(second, first) <= -kMuch) {
      std::swap(order[at], order[at + 1]);
    }
    const Task& passed = plan.tasks[order[at]];
    for (const ValueIndex v : std::set<ValueIndex>(passed.reads.begin(), passed.reads.end()))
      --readers[static_cast<std::size_t>(v)];
  }
  return order;
}

void plan_memory(const program::Program& program, bool in_place, const std::vector<ValueIndex>& keep,
                 Plan& plan) {
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
  const auto entry_of = entries_by_next(program, plan);
  Arena arena;  // small values, after the large ones
  std::vector<Block> large;
  std::vector<std::vector<ValueIndex>> dies(plan.tasks.size() + 1);
  for (std::size_t t = 0; t < plan.tasks.size(); ++t) {
    for (const ValueIndex v : plan.tasks[t].writes) {
      Placement& placement = plan.placements[static_cast<std::size_t>(v)];
      const auto size =
          bytes_of(program.values[static_cast<std::size_t>(v)], plan.layouts[static_cast<std::size_t>(v)]);
      if (placement.where == Where::kSlice) continue;
      if (const auto entry = entry_of.find(v); entry != entry_of.end()) {
        placement.entry = entry->second;
        const ValueIndex old = plan.entries[entry->second];
        const bool last =
            last_read[static_cast<std::size_t>(old)] <= t && !becomes_another(program, plan, old);
        const MapTask* map = map_of(plan.tasks[t]);
        const bool over = in_place && last && map != nullptr &&
                          !reads_after_write(map->program, v, plan.entries[entry->second]);
        placement.where = over ? Where::kInPlace : Where::kNext;
        continue;
      }
      placement.where = Where::kArena;
      // To be kept to the end: no later task reads it, or it is asked for.
      const bool kept =
          last_read[static_cast<std::size_t>(v)] <= t || std::find(keep.begin(), keep.end(), v) != keep.end();
      const std::size_t last = kept ? plan.tasks.size() : ends[last_read[static_cast<std::size_t>(v)]];
      if (size >= kLargeBlock && large.size() < kMostLarge) {
        if (Block* const under = in_place ? block_under(plan, t, v, aligned(size), large) : nullptr) {
          under->values.push_back(v);
          under->top = v;
          under->last = last;
        } else {
          large.push_back({{v}, aligned(size), t, last});
        }
        continue;
      }
      placement.offset = arena.take(size);
      if (!kept) dies[last].push_back(v);
    }
    for (const ValueIndex v : dies[t]) {
      arena.give_back(
          plan.placements[static_cast<std::size_t>(v)].offset,
          bytes_of(program.values[static_cast<std::size_t>(v)], plan.layouts[static_cast<std::size_t>(v)]));
    }
  }
  plan.arena_bytes = place_blocks(large, plan) + arena.end();
}

std::int64_t planned_bytes(const Plan& plan, int threads) {
  const auto registers = static_cast<std::int64_t>(plan.most_registers) * kernels::cpu::kStripLength * 8;
  return plan.arena_bytes +
         (registers + (plan.longest_fold + plan.window_floats) * 4 + plan.slice_bytes) * threads;
}

std::int64_t bytes_of(const kernels::Primitive& value) {
  std::int64_t bytes = static_cast<std::int64_t>(size_of(value.dtype));
  for (const std::int64_t extent : value.shape) bytes *= extent;
  return bytes;
}

void plan_scratch(int threads, Plan& plan) {
  const auto note = [&plan](const StripProgram& program) {
    plan.most_registers = std::max(plan.most_registers, program.registers.size());
  };
  for (const Task& task : plan.tasks) {
    if (const MapTask* map = map_of(task)) note(map->program);
    if (const auto* chain = std::get_if<ChainTask>(&task.work)) {
      note(chain->init);
      note(chain->body);
    }
    if (const auto* windows = std::get_if<WindowProductTask>(&task.work)) {
      plan.window_floats = std::max(plan.window_floats, windows->product.scratch_size());
    }
    if (const auto* windows = std::get_if<WindowGradientTask>(&task.work)) {
      const auto size = windows->gradient.scratch_size(windows->gradient.grid().planes(),
                                                       windows->groups_of(threads).value_or(1));
      plan.window_floats = std::max(plan.window_floats, size);
    }
    if (const auto* fold = std::get_if<FoldTask>(&task.work)) {
      note(fold->program);
      plan.longest_fold = std::max(plan.longest_fold, fold->floats());
    }
  }
}

}  // namespace dgx::exec
