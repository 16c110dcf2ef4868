#include "dgx/core/checked.h"
#include "plan/operation_graph.h"

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

// The plan of memory. A value lives from the operation that writes it to the last that reads it; inputs, next
// values and values that are asked for live longer. Sizes and lifetimes are all known, so one arena is laid
// out once, and a step allocates nothing.
//
// Large values are blocks, placed largest first (place_largest_first), each at the lowest offset that is free
// for its lifetime. A map may write its value over one that it alone still reads: both are then one block.
//
// Small values follow in the order of time, first fit (Arena): there are many, and holes cost little.
//
// Values inside slices lie in each thread's slice memory, all at once: their operations run together.
//
// A next value goes over the entry that it replaces if nothing reads that later (kInPlace), else to a second
// buffer, and the two are exchanged when the step ends (kNext).

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

/// The memory of a value, and of those later written over it, from the operation `first` that makes it to the
/// last that reads one of them.
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

/// For each operation, the last that may run before this one is finished on all threads. Of sliced
/// operations, one thread may be at the last while another is at the first.
std::vector<std::size_t> ends_of_sections(const Plan& plan) {
  std::vector<std::size_t> ends(plan.operations.size());
  std::iota(ends.begin(), ends.end(), std::size_t{0});
  for (const SlicedOperations& sliced : plan.sliced) {
    for (std::size_t o = sliced.begin; o < sliced.end; ++o) ends[o] = sliced.end - 1;
  }
  return ends;
}

/// Places the values inside sliced operations in a thread's slice memory.
void place_slices(Plan& plan) {
  for (const SlicedOperations& sliced : plan.sliced) {
    std::int64_t offset = 0;
    for (const ValueIndex v : sliced.inside) {
      plan.placements[v] = {Where::kSlice, offset, 0};
      const std::int64_t size = bytes_of(plan.program->values[v]) / sliced.slices * sliced.chunk;
      offset += aligned(size) + kAlignment;
    }
    plan.slice_bytes = std::max(plan.slice_bytes, offset);
  }
}

/// True if writing `written` over `old` in a fused group would be wrong: something reads `old` later, or
/// reads another element of it. Only the last instruction that reads a value may overwrite it.
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
  // Elements that are read in another order than they are written (broadcast, permuted, of another size) may
  // be overwritten before they are read.
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

/// The operations [begin, end) that may run at the same time as operation o: all sliced ones together.
std::pair<std::size_t, std::size_t> section_of(const Plan& plan, std::size_t o) {
  for (const SlicedOperations& sliced : plan.sliced) {
    if (o >= sliced.begin && o < sliced.end) return {sliced.begin, sliced.end};
  }
  return {o, o + 1};
}

/// A block of the same size that operation o, which must be maps, may overwrite with its value v: of all
/// operations from o's section on, only o reads it. Null if there is none.
Block* block_under(const Plan& plan, std::size_t o, ValueIndex v, std::int64_t size,
                   std::vector<Block>& blocks) {
  const Maps* maps = maps_of(plan.operations[o]);
  if (maps == nullptr || maps->panels) return nullptr;  // a product's maps are in panels
  const auto section = section_of(plan, o);
  const auto found = std::find_if(
      blocks.begin(), blocks.end(), [&, begin = section.first, end = section.second](const Block& block) {
        if (block.size != size || block.first >= begin || block.last + 1 != end ||
            reads_after_write(maps->program, v, block.top))
          return false;
        for (std::size_t other = begin; other < end; ++other) {
          const auto& reads = plan.operations[other].reads;
          if ((std::find(reads.begin(), reads.end(), block.top) != reads.end()) != (other == o)) return false;
        }
        return true;
      });
  return found == blocks.end() ? nullptr : &*found;
}

/// The entry that each next value becomes. If there are several, the first has it, and the others copy.
std::map<ValueIndex, std::size_t> entries_by_next(const Plan& plan) {
  std::map<ValueIndex, std::size_t> entry_of;
  for (std::size_t e = 0; e < plan.entries.size(); ++e) {
    const auto next = plan.program->values[plan.entries[e]].next;
    if (next) entry_of.emplace(*next, e);
  }
  return entry_of;
}

/// True if `old`, the input of a state entry, is also another entry's next value, and so is read when all
/// operations are done.
bool becomes_another(const Plan& plan, ValueIndex old) {
  return std::any_of(plan.entries.begin(), plan.entries.end(), [&](ValueIndex entry) {
    return entry != old && plan.program->values[entry].next == old;
  });
}

/// Places the large blocks at the arena's start, and moves the small values, which have offsets already,
/// after them. Returns the size of the large ones.
std::int64_t place_blocks(std::vector<Block>& large, Plan& plan) {
  const std::int64_t end = place_largest_first(large);
  for (Placement& placement : plan.placements) {
    if (placement.where == Where::kArena) placement.offset += end;
  }
  for (const Block& block : large) {
    for (const ValueIndex v : block.values) plan.placements[v].offset = block.offset;
  }
  return end;
}

}  // namespace

void free_sooner(OperationGraph& graph) {
  constexpr std::int64_t kMuch = std::int64_t{1} << 20U;
  const std::vector<Operation>& operations = graph.plan.operations;
  const auto reads_of = [](const Operation& operation) {
    return std::set<ValueIndex>(operation.reads.begin(), operation.reads.end());
  };
  kernels::ByValue<int> readers(graph.types.size(), 0);  // operations still to run that read it
  for (const Operation& operation : operations) {
    for (const ValueIndex v : reads_of(operation)) ++readers[v];
  }
  const auto stays = [&](ValueIndex v) {
    return graph.wanted[v] || graph.at(v).kind == kernels::Kind::kInput;
  };
  const auto contains = [](const std::vector<ValueIndex>& values, ValueIndex v) {
    return std::find(values.begin(), values.end(), v) != values.end();
  };
  /// Bytes that an operation takes minus those that it frees; values that `other` reads are not freed.
  const auto taken = [&](const Operation& operation, const Operation& other) {
    std::int64_t bytes = 0;
    for (const ValueIndex v : operation.writes) bytes += bytes_of(graph.at(v));
    for (const ValueIndex v : reads_of(operation)) {
      if (readers[v] == 1 && !stays(v) && !contains(other.reads, v)) bytes -= bytes_of(graph.at(v));
    }
    return bytes;
  };
  const auto waits = [&](const Operation& later, const Operation& sooner) {
    return std::any_of(sooner.writes.begin(), sooner.writes.end(),
                       [&](ValueIndex v) { return contains(later.reads, v); });
  };
  std::vector<std::size_t> order(operations.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t at = 0; at + 1 < order.size(); ++at) {
    const Operation& first = operations[order[at]];
    const Operation& second = operations[order[at + 1]];
    if (!waits(second, first) && std::none_of(second.writes.begin(), second.writes.end(), stays) &&
        taken(first, second) >= kMuch && taken(second, first) <= -kMuch) {
      std::swap(order[at], order[at + 1]);
    }
    for (const ValueIndex v : reads_of(operations[order[at]])) --readers[v];
  }
  reorder(graph, order);
}

void plan_memory(OperationGraph& graph) {
  Plan& plan = graph.plan;
  const program::Program& program = *plan.program;
  const std::size_t values = program.values.size();
  const auto size_of_value = [&](ValueIndex v) { return bytes_of(graph.at(v), plan.layouts[v]); };
  plan.placements.assign(values, {});
  plan.entries = program::state_inputs(program);
  kernels::ByValue<std::size_t> last_read(values, 0);
  for (std::size_t o = 0; o < plan.operations.size(); ++o) {
    for (const ValueIndex v : plan.operations[o].reads) last_read[v] = o;
  }
  const std::vector<std::size_t> ends = ends_of_sections(plan);
  place_slices(plan);
  for (const ValueIndex v : program.values.indices()) {
    if (graph.at(v).kind == kernels::Kind::kInput) plan.placements[v].where = Where::kInput;
  }
  const auto entry_of = entries_by_next(plan);
  Arena arena;  // small values, after the large ones
  std::vector<Block> large;
  std::vector<std::vector<ValueIndex>> dies(plan.operations.size() + 1);
  for (std::size_t o = 0; o < plan.operations.size(); ++o) {
    for (const ValueIndex v : plan.operations[o].writes) {
      Placement& placement = plan.placements[v];
      const std::int64_t size = size_of_value(v);
      if (placement.where == Where::kSlice) continue;
      if (const auto entry = entry_of.find(v); entry != entry_of.end()) {
        placement.entry = entry->second;
        const ValueIndex old = plan.entries[entry->second];
        const bool last = last_read[old] <= o && !becomes_another(plan, old);
        const StripProgram* const maps = map_program_of(plan.operations[o]);
        const bool over = graph.is_fused() && last && maps != nullptr && !reads_after_write(*maps, v, old);
        placement.where = over ? Where::kInPlace : Where::kNext;
        continue;
      }
      placement.where = Where::kArena;
      // True if the value is kept to the end: no later operation reads it, or it is asked for.
      const bool kept = last_read[v] <= o || graph.wanted[v];
      const std::size_t last = kept ? plan.operations.size() : ends[last_read[v]];
      if (size >= kLargeBlock && large.size() < kMostLarge) {
        if (Block* const under = graph.is_fused() ? block_under(plan, o, v, aligned(size), large) : nullptr) {
          under->values.push_back(v);
          under->top = v;
          under->last = last;
        } else {
          large.push_back({{v}, aligned(size), o, last});
        }
        continue;
      }
      placement.offset = arena.take(size);
      if (!kept) dies[last].push_back(v);
    }
    for (const ValueIndex v : dies[o]) {
      arena.give_back(plan.placements[v].offset, size_of_value(v));
    }
  }
  plan.arena_bytes = place_blocks(large, plan) + arena.end();
}

std::int64_t planned_bytes(const Plan& plan, int threads) {
  const auto registers = static_cast<std::int64_t>(plan.most_registers) * kernels::cpu::kStripLength * 8;
  return plan.arena_bytes +
         (registers + (plan.longest_fold + plan.window_floats) * 4 + plan.slice_bytes) * threads;
}

std::int64_t input_bytes(const Plan& plan) {
  std::int64_t bytes = 0;
  for (const kernels::ValueIndex v : plan.placements.indices()) {
    const auto where = plan.placements[v].where;
    if (where == Placement::Where::kInput || where == Placement::Where::kNext)
      bytes += bytes_of(plan.program->values[v], plan.layouts[v]);
  }
  return bytes;
}

std::int64_t bytes_of(const kernels::Primitive& value) {
  std::int64_t bytes = static_cast<std::int64_t>(size_of(value.dtype));
  for (const std::int64_t extent : value.shape) bytes *= extent;
  return bytes;
}

void plan_scratch(OperationGraph& graph) {
  Plan& plan = graph.plan;
  const auto note = [&plan](const StripProgram& program) {
    plan.most_registers = std::max(plan.most_registers, program.registers.size());
  };
  for (const Operation& operation : plan.operations) {
    if (const StripProgram* const maps = map_program_of(operation)) note(*maps);
    if (const auto* chain = on_cpu<Chain>(operation)) {
      note(chain->init);
      note(chain->body);
    }
    if (const auto* windows = on_cpu<WindowProducts>(operation)) {
      plan.window_floats = std::max(plan.window_floats, windows->product.scratch_size());
    }
    if (const auto* windows = on_cpu<WindowGradients>(operation)) {
      const auto size =
          windows->gradient.scratch_size(windows->gradient.grid().planes(), windows->sets_of(graph.threads));
      plan.window_floats = std::max(plan.window_floats, size);
    }
    if (const auto* fold = on_cpu<Fold>(operation)) {
      note(fold->program);
      plan.longest_fold = std::max(plan.longest_fold, fold->floats());
    }
  }
}

}  // namespace dgx::exec
