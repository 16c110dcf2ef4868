#include "cpu/machine.h"

#include <algorithm>
#include <array>

#include "cpu/machine_thread.h"
#include "cpu/memory_limit.h"
#include "dgx/kernels/cpu/column_sum.h"
#include "dgx/kernels/cpu/dispatch.h"
#include "dgx/kernels/dot_state.h"
#include "dgx/kernels/evaluate.h"

namespace dgx::exec {

using kernels::Kind;
using kernels::ValueIndex;
namespace cpu = kernels::cpu;

namespace {

/// A thread's aligned memory for at least `count` floats. `buffer` only grows, and loses its contents then.
float* at_least(std::int64_t count, Tensor& buffer) {
  if (static_cast<std::int64_t>(buffer.bytes().size() / sizeof(float)) < count)
    buffer = Tensor(DType::kF32, {count});
  return buffer.as<float>().data();
}

/// Sets the offsets, by map, of a program for one panel of packed values: `product_offset` for `product`, of
/// which only a block is in memory, `offset` for all other values.
void set_offsets(const StripProgram& program, ValueIndex product, std::int64_t product_offset,
                 std::int64_t offset, std::vector<std::int64_t>& offsets) {
  offsets.assign(program.nest.strides.size(), 0);
  for (const StripRegister& reg : program.registers) {
    if (reg.source == StripRegister::Source::kMemory)
      offsets[reg.map] = reg.value == product ? product_offset : offset;
  }
}

/// The addresses of the packed values that a panel's program reads or writes, except `product`: the first
/// four.
std::array<const float*, 4> panels_touched(const StripProgram& program, ValueIndex product,
                                           const kernels::ByValue<void*>& memory) {
  std::array<const float*, 4> out{};
  std::size_t count = 0;
  for (const StripRegister& reg : program.registers) {
    if (reg.source != StripRegister::Source::kMemory || reg.value == product || count == out.size()) continue;
    const auto* at = static_cast<const float*>(memory[reg.value]);
    if (std::find(out.begin(), out.end(), at) == out.end()) out[count++] = at;
  }
  return out;
}

// A block of a product that maps follow has at most these rows and columns, so that it stays in the L2 cache.
constexpr std::int64_t kBlockRows = 112;
constexpr std::int64_t kBlockColumns = 512;

/// True if members should share rows rather than columns. Members that share columns each pack all of A,
/// those that share rows all of B, so the smaller side should be the one that all pack. With few rows a
/// member, tiles would be lower than they could be.
bool is_tall(const cpu::MatmulShape& shape, int members) {
  constexpr std::int64_t kRowsOfMember = 192;
  return shape.rows >= shape.columns && shape.rows >= members * kRowsOfMember;
}

/// Copies `rows` of a piece; an Element is as large as the value's elements.
template <class Element>
void copy_rows(const Concatenation::Piece& piece, const std::uint8_t* from, std::uint8_t* to, Range rows) {
  const std::int64_t count = piece.nest.inner_extent();
  const std::int64_t from_step = piece.nest.strides[0].back();
  const std::int64_t to_step = piece.nest.strides[1].back();
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    const auto* source =
        reinterpret_cast<const Element*>(from) + piece.from_base + piece.nest.row_offset(0, row);
    auto* target = reinterpret_cast<Element*>(to) + piece.to_base + piece.nest.row_offset(1, row);
    if (from_step == 1 && to_step == 1) {
      std::copy_n(source, count, target);
    } else {
      for (std::int64_t i = 0; i < count; ++i) target[i * to_step] = source[i * from_step];
    }
  }
}

/// The maps that follow a block of a product; call() is the product's epilogue.
struct Follower {
  const Maps& map;
  ValueIndex product;
  StripRunner& runner;
  std::vector<std::int64_t>& offsets;
  std::int64_t first_row, rows, first_panel;

  static void call(void* context, std::int64_t row, std::int64_t rows, std::int64_t column,
                   std::int64_t columns) {
    const Follower& self = *static_cast<const Follower*>(context);
    const std::int64_t begin = column / cpu::kPanelWidth;
    for (std::int64_t s = begin; s < begin + columns / cpu::kPanelWidth; ++s) {
      set_offsets(self.map.program, self.product, s * cpu::panel_stride(self.rows),
                  (self.first_panel + s) * self.map.panels->stride() + self.first_row * cpu::kPanelWidth,
                  self.offsets);
      self.runner.run_elements(row * cpu::kPanelWidth, (row + rows) * cpu::kPanelWidth);
    }
  }
};

}  // namespace

Machine::~Machine() = default;

Machine::Machine(Plan plan, std::shared_ptr<ThreadTeam> team, std::shared_ptr<Tensor> arena)
    : plan_(std::move(plan)),
      team_(std::move(team)),
      arena_(std::move(arena)),
      memory_(plan_.program->values.size()),
      checked_(plan_.program->values.size()) {
  for (const ValueIndex v : memory_.indices()) {
    const kernels::Primitive& value = plan_.program->values[v];
    views_.push_back({value.dtype, value.shape, {}});
    if (plan_.placements[v].where == Placement::Where::kArena) {
      set_memory(v, arena_->bytes().data() + plan_.placements[v].offset);
    }
  }
  for (const Operation& operation : plan_.operations) {
    const StripProgram* const maps = map_program_of(operation);
    for (std::size_t r = 0; maps != nullptr && r < maps->registers.size(); ++r) {
      const StripRegister& reg = maps->registers[r];
      if (reg.source == StripRegister::Source::kFlag) checked_[reg.value] = true;
    }
  }
  find_idle_section();
  for (int member = 0; member < team_->size(); ++member) {
    threads_.push_back(std::make_unique<Thread>());
    threads_.back()->strips.prepare(plan_.most_registers, memory_.size());
    threads_.back()->fold = Tensor(DType::kF32, {plan_.longest_fold});
    threads_.back()->window = Tensor(DType::kF32, {plan_.window_floats});
    threads_.back()->slice = Tensor(DType::kU8, {plan_.slice_bytes});
    threads_.back()->memory = &memory_;
  }
}

Result<std::unique_ptr<Machine>> Machine::create(std::shared_ptr<const program::Program> program,
                                                 Fusion fusion, std::shared_ptr<ThreadTeam> team,
                                                 const std::vector<ValueIndex>& keep) {
  DGX_TRY(Plan plan, make_plan(std::move(program), fusion, team->size(), keep));
  DGX_CHECK(check_memory(exec::planned_bytes(plan, team->size()) + input_bytes(plan)));
  auto arena = std::make_shared<Tensor>(DType::kU8, Shape{plan.arena_bytes});
  return std::make_unique<Machine>(std::move(plan), std::move(team), std::move(arena));
}

void Machine::set_memory(ValueIndex value, void* memory) {
  memory_[value] = memory;
  views_[value].bytes = {
      static_cast<const std::uint8_t*>(memory),
      static_cast<std::size_t>(bytes_of(plan_.program->values[value], plan_.layouts[value]))};
}

std::int64_t Machine::planned_bytes() const { return exec::planned_bytes(plan_, team_->size()); }

bool Machine::flagged(ValueIndex value) const {
  return std::any_of(threads_.begin(), threads_.end(),
                     [value](const auto& thread) { return thread->strips.flags()[value] != 0; });
}

Status Machine::first_error() const {
  for (const auto& thread : threads_) {
    if (!thread->status.ok()) return thread->status;
  }
  return {};
}

void Machine::run_operation(const Operation& operation, int member, int members) {
  Thread& thread = *threads_[static_cast<std::size_t>(member)];
  std::visit([&](const auto& work) { run(work, thread, member, members); },
             std::get<CpuOperation>(operation.work));
}

void Machine::run(const Matmul& product, Thread& thread, int member, int members) {
  const std::int64_t batches = product.batch.count();
  const bool by_batch = batches >= members;
  const bool by_columns =
      !by_batch && cpu::panel_count(product.shape.columns) >= 2 * members && !is_tall(product.shape, members);
  const Range batch = by_batch ? share(batches, 1, member, members) : Range{0, batches};
  cpu::Part part = cpu::Part::whole(product.shape);
  if (by_columns) {
    const Range columns = share(product.shape.columns, cpu::kPanelWidth, member, members);
    part.column_begin = columns.begin;
    part.column_end = columns.end;
  } else if (!by_batch) {
    const Range rows = share(product.shape.rows, 1, member, members);
    part.row_begin = rows.begin;
    part.row_end = rows.end;
  }
  if (part.row_begin == part.row_end || part.column_begin == part.column_end) return;
  for (std::int64_t n = batch.begin; n < batch.end; ++n) multiply(product, thread, part, n);
}

void Machine::multiply(const Matmul& product, Thread& thread, const cpu::Part& part, std::int64_t batch) {
  const auto at = [&](ValueIndex value, std::int64_t base, std::size_t map) {
    return thread.at<float>(value) + base + product.batch.offset(map, batch);
  };
  const cpu::Matrix a{at(product.a, product.a_base, 0), product.a_row, product.a_depth};
  const float* b = at(product.b, product.b_base, 1);
  if (const auto resumed = resumed_.find(product.out); resumed != resumed_.end()) {
    const auto& share = resumed->second.share;
    const auto rows = resumed->second.words_from(product.batch.offset(2, batch));
    cpu::DotOutputs words{};
    for (std::size_t w = 0; w < words.size(); ++w)
      words[w] = cpu::Output::row_major(rows[w], product.out_row);
    if (product.b_packed) {
      const cpu::PackedMatrix packed{b, product.shape.depth, product.shape.columns};
      return cpu::resume_matmul(share, product.shape, a, packed, words, part, thread.matmul);
    }
    const cpu::Matrix right{b, product.b_depth, product.b_column};
    return cpu::resume_matmul(share, product.shape, a, right, words, part, thread.matmul);
  }
  float* out = at(product.out, 0, 2);
  const auto c = product.out_packed ? cpu::Output::panels(out, product.shape.rows)
                                    : cpu::Output::row_major(out, product.out_row);
  if (product.b_packed) {
    cpu::matmul(product.shape, a, cpu::PackedMatrix{b, product.shape.depth, product.shape.columns}, c, part,
                {}, thread.matmul);
  } else {
    cpu::matmul(product.shape, a, cpu::Matrix{b, product.b_depth, product.b_column}, c, part, {},
                thread.matmul);
  }
}

/// The whole right side, packed; panels of columns [begin, end) are filled in. Every block of rows reads
/// them.
const float* Machine::packed_right_side(const Matmul& product, Thread& thread, std::int64_t begin,
                                        std::int64_t end) {
  const float* b = thread.at<float>(product.b) + product.b_base;
  if (product.b_packed) return b;
  float* const packed =
      at_least(cpu::PackedMatrix::size(product.shape.depth, product.shape.columns), thread.right);
  cpu::pack({b, product.b_depth, product.b_column}, product.shape.depth, product.shape.columns,
            begin / cpu::kPanelWidth, cpu::panel_count(end), packed);
  return packed;
}

/// Runs the product block by block, so that the maps find each block in the nearest caches.
void Machine::run(const ProductMaps& both, Thread& thread, int member, int members) {
  const Matmul& product = both.product;
  const Range columns = share(product.shape.columns, cpu::kPanelWidth, member, members);
  float* const to = at_least(cpu::PackedMatrix::size(kBlockRows, kBlockColumns), thread.block);
  thread.values = memory_;
  thread.values[product.out] = to;
  thread.offsets.resize(both.maps.program.nest.strides.size());
  StripRunner runner(both.maps.program, thread.values, thread.offsets.data(), thread.strips);
  const float* a = thread.at<float>(product.a) + product.a_base;
  const auto ahead = panels_touched(both.maps.program, product.out, memory_);
  const float* right = packed_right_side(product, thread, columns.begin, columns.end);
  for (std::int64_t column = columns.begin; column < columns.end; column += kBlockColumns) {
    for (std::int64_t row = 0; row < product.shape.rows; row += kBlockRows) {
      const cpu::MatmulShape block{std::min(kBlockRows, product.shape.rows - row),
                                   std::min(kBlockColumns, columns.end - column), product.shape.depth};
      const std::int64_t panel = column / cpu::kPanelWidth;
      Follower follower{both.maps, product.out, runner, thread.offsets, row, block.rows, panel};
      const cpu::Matrix left{a + row * product.a_row, product.a_row, product.a_depth};
      const auto c = cpu::Output::panels(to, block.rows);
      cpu::Epilogue epilogue{Follower::call, &follower, ahead, both.maps.panels->stride()};
      for (const float*& from : epilogue.ahead) {
        if (from != nullptr) from += panel * epilogue.ahead_stride + row * cpu::kPanelWidth;
      }
      const cpu::PackedMatrix packed{right + panel * cpu::panel_stride(block.depth), block.depth,
                                     block.columns};
      cpu::matmul(block, left, packed, c, cpu::Part::whole(block), epilogue, thread.matmul);
    }
  }
}

/// Members share the images; if these are few, also the outputs of each.
void Machine::run(const WindowProducts& windows, Thread& thread, int member, int members) {
  const std::int64_t batches = windows.batch.count();
  const std::int64_t parts =
      batches >= 4 * members ? 1 : std::min<std::int64_t>(members, windows.product.most_parts());
  const Range units = share(batches * parts, 1, member, members);
  if (units.begin == units.end) return;
  cpu::WindowProductRunner runner(windows.product, thread.window.as<float>().data());
  const float* weights = nullptr;
  const float* image = nullptr;
  for (std::int64_t unit = units.begin; unit < units.end; ++unit) {
    const std::int64_t batch = unit / parts;
    const auto at = [&](ValueIndex value, std::size_t map) {
      return thread.at<float>(value) + windows.batch.offset(map, batch);
    };
    const float* const next_weights = at(windows.weights, 1) + windows.weights_base;
    const float* const next_image = at(windows.x, 0) + windows.x_base;
    if (weights != next_weights) runner.set_weights(weights = next_weights);
    if (image != next_image) runner.set_image(image = next_image);
    runner.run(unit % parts, parts, at(windows.out, 2));
  }
}

/// Members share groups of terms, batches or planes.
void Machine::run(const WindowGradients& windows, Thread& thread, int member, int members) {
  if (windows.groups_of(members)) return run_groups(windows, thread, member, members);
  const std::int64_t batches = windows.batch.count();
  const std::int64_t all = windows.gradient.grid().planes();
  const bool by_batch = batches >= members;
  const Range batch = by_batch ? share(batches, 1, member, members) : Range{0, batches};
  const Range planes = by_batch ? Range{0, all} : share(all, 1, member, members);
  if (planes.begin == planes.end || batch.begin == batch.end) return;
  cpu::WindowGradientRunner runner(windows.gradient, planes.begin, planes.end,
                                   thread.window.as<float>().data());
  for (std::int64_t b = batch.begin; b < batch.end; ++b) {
    const auto at = [&](ValueIndex value, std::size_t map) {
      return thread.at<float>(value) + windows.batch.offset(map, b);
    };
    const float* const x = at(windows.x, 0) + windows.x_base;
    const float* const other = at(windows.other, 1) + windows.other_base;
    if (!windows.resumed) {
      runner.run(x, other, at(windows.out, 2));
      continue;
    }
    const ResumedDots& dots = resumed_.at(windows.out);
    runner.resume(dots.share, x, other, dots.words_from(windows.batch.offset(2, b)));
  }
}

/// Each member adds up its share of the groups of terms; then member 0 alone combines all groups in order.
void Machine::run_groups(const WindowGradients& windows, Thread& thread, int member, int members) {
  const Range groups = share(windows.gradient.groups(), 1, member, members);
  cpu::WindowGradientRunner runner(windows.gradient, 0, windows.gradient.grid().planes(),
                                   thread.window.as<float>().data());
  const float* const x = thread.at<float>(windows.x) + windows.x_base;
  const float* const other = thread.at<float>(windows.other) + windows.other_base;
  thread.sums = runner.add_groups(groups.begin, groups.end, x, other);
  team_->barrier(member);
  if (member != 0) return;
  std::vector<cpu::GroupSums> rest;
  for (int other_member = 1; other_member < members; ++other_member)
    rest.push_back(threads_[static_cast<std::size_t>(other_member)]->sums);
  runner.finish(rest, thread.at<float>(windows.out));
}

void Machine::run(const ColumnSum& sum, Thread& thread, int member, int members) {
  const Range columns = share(sum.columns, 32, member, members);
  const float* x = thread.at<float>(sum.x) + sum.base + columns.begin;
  if (const auto resumed = resumed_.find(sum.out); resumed != resumed_.end()) {
    return cpu::resume_column_dot_one(resumed->second.share, columns.size(), x, sum.row_stride,
                                      resumed->second.words_from(columns.begin));
  }
  float* out = thread.at<float>(sum.out) + columns.begin;
  cpu::column_dot_one(sum.rows, columns.size(), x, sum.row_stride, out);
}

void Machine::run(const Maps& maps, Thread& thread, int member, int members) {
  const std::int64_t per_panel = StripRunner::unit_count(maps.program);
  const Range units = share(per_panel * (maps.panels ? maps.panels->count() : 1), 1, member, members);
  if (units.begin == units.end) return;
  if (!maps.panels) {
    StripRunner runner(maps.program, *thread.memory, nullptr, thread.strips);
    runner.fetch_ahead();
    return runner.run(units.begin, units.end);
  }
  thread.offsets.resize(maps.program.nest.strides.size());
  StripRunner runner(maps.program, *thread.memory, thread.offsets.data(), thread.strips);
  for (std::int64_t unit = units.begin; unit < units.end;) {
    const std::int64_t panel = unit / per_panel;
    const std::int64_t end = std::min(units.end, (panel + 1) * per_panel);
    set_offsets(maps.program, kernels::kNoValue, 0, panel * maps.panels->stride(), thread.offsets);
    runner.run(unit - panel * per_panel, end - panel * per_panel);
    unit = end;
  }
}

/// Members share the rows of every piece.
void Machine::run(const Concatenation& whole, Thread& thread, int member, int members) {
  std::uint8_t* const to = thread.at<std::uint8_t>(whole.out);
  for (const Concatenation::Piece& piece : whole.pieces) {
    const auto* from = thread.at<const std::uint8_t>(piece.from);
    const Range rows = share(piece.nest.rows(), 1, member, members);
    switch (whole.dtype) {
      case DType::kU8: copy_rows<std::uint8_t>(piece, from, to, rows); break;
      case DType::kF32: copy_rows<std::uint32_t>(piece, from, to, rows); break;
      case DType::kI64: copy_rows<std::uint64_t>(piece, from, to, rows); break;
    }
  }
}

void Machine::run(const Generic& generic, Thread& thread, int member, int members) {
  const Range elements = share(generic.count, 16, member, members);
  if (elements.begin == elements.end) return;
  const ValueIndex v = generic.out;
  if (const auto resumed = resumed_.find(v); resumed != resumed_.end())
    return resume_elements(resumed->second, generic, elements, thread);
  auto status = kernels::evaluate_all(plan_.compiled[v], views_,
                                      {static_cast<std::uint8_t*>(memory_[v]), views_[v].bytes.size()},
                                      elements.begin, elements.end);
  if (!status.ok() && thread.status.ok()) thread.status = std::move(status);
}

/// Goes on with dots element by element, as kernels/ref defines them.
void Machine::resume_elements(const ResumedDots& dots, const Generic& generic, Range range, Thread& thread) {
  const auto& [share, words] = dots;
  const kernels::DotWords before = share.first > 0 ? kernels::dot_words_at(share.first) : kernels::DotWords{};
  const auto [block, group, total] = words;
  std::vector<kernels::DotState> states;
  for (std::int64_t e = range.begin; e < range.end; ++e) {
    states.push_back({share.first, before.block ? block[e] : 0.0F, before.group ? group[e] : 0.0F,
                      before.total ? total[e] : 0.0F});
  }
  Status status = kernels::resume_dots(plan_.compiled[generic.out], views_, states, range.begin, range.end);
  if (!status.ok() && thread.status.ok()) thread.status = std::move(status);
  const kernels::DotWords after =
      share.last ? kernels::DotWords{false, false, true} : kernels::dot_words_at(share.first + share.count);
  for (std::int64_t e = range.begin; e < range.end; ++e) {
    const kernels::DotState& state = states[static_cast<std::size_t>(e - range.begin)];
    if (after.block) block[e] = state.block;
    if (after.group) group[e] = state.group;
    if (after.total) total[e] = share.last ? state.end() : state.total;
  }
}

}  // namespace dgx::exec
