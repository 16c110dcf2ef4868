// Operations that run slice by slice (SlicedOperations).
#include "cpu/machine_thread.h"

namespace dgx::exec {

using kernels::ValueIndex;

/// Runs a member's share of the slices, a chunk at a time through all operations. Values that only these
/// operations read lie in the thread's own memory. They are addressed as if the whole value were there, but
/// only the chunk's slices are touched.
void Machine::run_slices(const SlicedOperations& sliced, int member, int members, OperationClock& clock) {
  Thread& thread = *threads_[static_cast<std::size_t>(member)];
  const Range chunks = share(ceil_div(sliced.slices, sliced.chunk), 1, member, members);
  thread.values = memory_;
  thread.memory = &thread.values;
  for (std::int64_t chunk = chunks.begin; chunk < chunks.end; ++chunk) {
    const std::int64_t begin = chunk * sliced.chunk;
    const std::int64_t end = std::min(sliced.slices, begin + sliced.chunk);
    for (const ValueIndex v : sliced.inside) {
      const std::int64_t before = bytes_of(plan_.program->values[v]) / sliced.slices * begin;
      const auto address =
          reinterpret_cast<std::uintptr_t>(thread.slice.bytes().data() + plan_.placements[v].offset);
      thread.values[v] = reinterpret_cast<void*>(address - static_cast<std::uintptr_t>(before));
    }
    for (std::size_t t = sliced.begin; t < sliced.end; ++t) {
      run_slice(plan_.operations[t], thread, sliced.slices, begin, end);
      clock.charge(t);
    }
  }
  thread.memory = &memory_;
}

/// Runs slices [begin, end) of an operation's `slices`.
void Machine::run_slice(const Operation& operation, Thread& thread, std::int64_t slices, std::int64_t begin,
                        std::int64_t end) {
  if (const auto* maps = on_cpu<Maps>(operation)) {
    const std::int64_t size = plan_.compiled[maps->members.front()].count / slices;
    StripRunner runner(maps->program, *thread.memory, nullptr, thread.strips);
    runner.fetch_ahead();
    const std::int64_t rows = maps->program.nest.rows();
    if (rows == 1) return runner.run_elements(begin * size, end * size);
    // Units are counted row by row, and slices are whole rows.
    const std::int64_t units = StripRunner::unit_count(maps->program) / rows;
    const std::int64_t inner = maps->program.nest.inner_extent();
    runner.run(begin * size / inner * units, end * size / inner * units);
  } else if (const auto* fold = on_cpu<Fold>(operation)) {
    const std::int64_t size = fold->count / slices;
    fold_elements(*fold, thread, begin * size, end * size);
  } else if (const auto* product = on_cpu<Matmul>(operation)) {
    const std::int64_t size = product->batch.count() / slices;
    for (std::int64_t n = begin * size; n < end * size; ++n) {
      multiply(*product, thread, kernels::cpu::Part::whole(product->shape), n);
    }
  }
}

}  // namespace dgx::exec
