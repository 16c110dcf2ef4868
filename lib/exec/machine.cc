#include "machine.h"

#include <algorithm>

#include "dgx/kernels/cpu/column_sum.h"
#include "dgx/kernels/cpu/dispatch.h"
#include "dgx/kernels/evaluate.h"

namespace dgx::exec {

using kernels::Kind;
using kernels::ValueIndex;
namespace cpu = kernels::cpu;

struct Machine::Thread {
  cpu::Scratch matmul;
  StripScratch strips;
  std::vector<float> fold;
  Status status;
};

namespace {

struct Range {
  std::int64_t begin, end;
};

/// Member `member`'s share of [0, count), in multiples of `grain`.
Range share(std::int64_t count, std::int64_t grain, int member, int members) {
  const std::int64_t grains = (count + grain - 1) / grain;
  const auto bound = [&](int m) { return std::min(count, grains * m / members * grain); };
  return {bound(member), bound(member + 1)};
}

template <class T>
T* typed(void* memory) {
  return static_cast<T*>(memory);
}

}  // namespace

Machine::~Machine() = default;

Machine::Machine(std::shared_ptr<const program::Program> program, Plan plan, std::shared_ptr<ThreadTeam> team)
    : program_(std::move(program)),
      plan_(std::move(plan)),
      team_(std::move(team)),
      arena_(DType::kU8, {plan_.arena_bytes}),
      memory_(program_->values.size()),
      checked_(program_->values.size()) {
  for (std::size_t v = 0; v < memory_.size(); ++v) {
    const kernels::Primitive& value = program_->values[v];
    views_.push_back({value.dtype, value.shape, {}});
    if (plan_.placements[v].where == Placement::Where::kArena) {
      set_memory(static_cast<ValueIndex>(v), arena_.bytes().data() + plan_.placements[v].offset);
    }
  }
  for (const Task& task : plan_.tasks) {
    const auto* map = std::get_if<MapTask>(&task.work);
    for (std::size_t r = 0; map != nullptr && r < map->program.registers.size(); ++r) {
      const StripRegister& reg = map->program.registers[r];
      if (reg.source == StripRegister::Source::kFlag) checked_[static_cast<std::size_t>(reg.value)] = true;
    }
  }
  for (int member = 0; member < team_->size(); ++member) {
    threads_.push_back(std::make_unique<Thread>());
    threads_.back()->strips.prepare(plan_.most_registers, memory_.size());
    threads_.back()->fold.resize(static_cast<std::size_t>(plan_.longest_fold));
  }
}

Result<std::unique_ptr<Machine>> Machine::create(std::shared_ptr<const program::Program> program, Fusion fusion,
                                                 std::shared_ptr<ThreadTeam> team,
                                                 const std::vector<ValueIndex>& keep) {
  DGX_TRY(Plan plan, make_plan(*program, fusion, team->size(), keep));
  return std::unique_ptr<Machine>(new Machine(std::move(program), std::move(plan), std::move(team)));
}

void Machine::set_memory(ValueIndex value, void* memory) {
  const auto v = static_cast<std::size_t>(value);
  memory_[v] = memory;
  views_[v].bytes = {static_cast<const std::uint8_t*>(memory),
                     static_cast<std::size_t>(bytes_of(program_->values[v]))};
}

std::int64_t Machine::planned_bytes() const {
  const auto scratch = static_cast<std::int64_t>(plan_.most_registers) * cpu::kStripLength * 8 + plan_.longest_fold * 4;
  return plan_.arena_bytes + scratch * team_->size();
}

bool Machine::flagged(ValueIndex value) const {
  return std::any_of(threads_.begin(), threads_.end(), [value](const auto& thread) {
    return thread->strips.flags()[static_cast<std::size_t>(value)] != 0;
  });
}

Status Machine::first_error() const {
  for (const auto& thread : threads_) {
    if (!thread->status.ok()) return thread->status;
  }
  return {};
}

Status Machine::run(const std::function<void(int member)>& prologue) {
  for (const auto& thread : threads_) std::fill(thread->strips.flags().begin(), thread->strips.flags().end(), 0);
  team_->run([&](int member) {
    prologue(member);
    team_->barrier();
    run_sections(member);
  });
  return first_error();
}

void Machine::run_sections(int member) {
  for (const Section& section : plan_.sections) {
    if (!section.serial) {
      run_task(plan_.tasks[section.begin], member, team_->size());
    } else if (member == 0) {
      for (std::size_t t = section.begin; t < section.end; ++t) run_task(plan_.tasks[t], 0, 1);
    }
    team_->barrier();
  }
}

Status Machine::run_each(const std::function<void(int member)>& prologue,
                         const std::function<Status(ValueIndex, std::span<std::uint8_t>)>& made) {
  team_->run(prologue);
  std::size_t next_task = 0;
  for (std::size_t v = 0; v < memory_.size(); ++v) {
    if (program_->values[v].kind != Kind::kInput) {
      const Task& task = plan_.tasks[next_task++];
      team_->run([&](int member) { run_task(task, member, team_->size()); });
      DGX_CHECK(first_error());
    }
    DGX_CHECK(made(static_cast<ValueIndex>(v), {typed<std::uint8_t>(memory_[v]), views_[v].bytes.size()}));
  }
  return {};
}

void Machine::run_task(const Task& task, int member, int members) {
  Thread& thread = *threads_[static_cast<std::size_t>(member)];
  std::visit([&](const auto& work) { run(work, thread, member, members); }, task.work);
}

void Machine::run(const MatmulTask& task, Thread& thread, int member, int members) {
  const std::int64_t batches = task.batch.rows() * task.batch.inner_extent();
  const bool by_batch = batches >= members;
  const bool by_columns = !by_batch && cpu::strip_count(task.shape.columns) >= 2 * members;
  const Range batch = by_batch ? share(batches, 1, member, members) : Range{0, batches};
  cpu::Part part = cpu::Part::whole(task.shape);
  if (by_columns) {
    const Range columns = share(task.shape.columns, cpu::kStripWidth, member, members);
    part.column_begin = columns.begin;
    part.column_end = columns.end;
  } else if (!by_batch) {
    const Range rows = share(task.shape.rows, 1, member, members);
    part.row_begin = rows.begin;
    part.row_end = rows.end;
  }
  if (part.row_begin == part.row_end || part.column_begin == part.column_end) return;
  const float* a = typed<float>(memory_[static_cast<std::size_t>(task.a)]) + task.a_base;
  const float* b = typed<float>(memory_[static_cast<std::size_t>(task.b)]) + task.b_base;
  float* out = typed<float>(memory_[static_cast<std::size_t>(task.out)]);
  for (std::int64_t n = batch.begin; n < batch.end; ++n) {
    const std::int64_t inner = task.batch.inner_extent();
    const auto offset = [&](std::size_t map) {
      return task.batch.row_offset(map, n / inner) + n % inner * task.batch.strides[map].back();
    };
    cpu::matmul(task.shape, cpu::Matrix{a + offset(0), task.a_row, task.a_depth},
                cpu::Matrix{b + offset(1), task.b_depth, task.b_column}, cpu::Output::row_major(out + offset(2), task.out_row), part, {}, thread.matmul);
  }
}

void Machine::run(const ColumnSumTask& task, Thread&, int member, int members) {
  const Range columns = share(task.columns, 32, member, members);
  const float* x = typed<float>(memory_[static_cast<std::size_t>(task.x)]) + task.base + columns.begin;
  float* out = typed<float>(memory_[static_cast<std::size_t>(task.out)]) + columns.begin;
  cpu::column_dot_one(task.rows, columns.end - columns.begin, x, task.row_stride, out);
}

void Machine::run(const MapTask& task, Thread& thread, int member, int members) {
  const Range units = share(StripRunner::unit_count(task.program), 1, member, members);
  StripRunner(task.program, memory_.data(), nullptr, thread.strips).run(units.begin, units.end);
}

void Machine::run(const FoldTask& task, Thread& thread, int member, int members) {
  const Range elements = share(task.count, 16, member, members);
  void* out = memory_[static_cast<std::size_t>(task.out)];
  float* operands = thread.fold.data();
  LoopNest outer{task.iteration, task.program.outer};
  if (outer.extents.empty()) outer.collapse();
  std::vector<std::int64_t> offsets(outer.strides.size());
  StripRunner runner(task.program, memory_.data(), offsets.data(), thread.strips);
  for (std::int64_t e = elements.begin; e < elements.end; ++e) {
    const std::int64_t row = e / outer.inner_extent();
    for (std::size_t m = 0; m < offsets.size(); ++m) {
      offsets[m] = outer.row_offset(m, row) + e % outer.inner_extent() * outer.strides[m].back();
    }
    runner.fill(operands);
    if (task.kind == Kind::kSum) cpu::row_sum(1, task.length, operands, task.length, typed<float>(out) + e);
    if (task.kind == Kind::kMax) cpu::row_max(1, task.length, operands, task.length, typed<float>(out) + e);
    if (task.kind == Kind::kArgmax) cpu::row_argmax(1, task.length, operands, task.length, typed<std::int64_t>(out) + e);
  }
}

void Machine::run(const GenericTask& task, Thread& thread, int member, int members) {
  const Range elements = share(task.count, 16, member, members);
  if (elements.begin == elements.end) return;
  const auto v = static_cast<std::size_t>(task.out);
  auto status = kernels::evaluate_all(plan_.compiled[v], views_, {typed<std::uint8_t>(memory_[v]), views_[v].bytes.size()},
                                      elements.begin, elements.end);
  if (!status.ok() && thread.status.ok()) thread.status = std::move(status);
}

}  // namespace dgx::exec
