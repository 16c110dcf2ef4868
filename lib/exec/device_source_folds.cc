#include <fmt/format.h>

#include <algorithm>

#include "device_source.h"
#include "dgx/kernels/fold_order.h"
#include "kernel_arguments.h"

namespace dgx::exec {

using kernels::CompiledPrimitive;
using kernels::Kind;
using kernels::NumberType;
using kernels::ValueIndex;

namespace {

constexpr std::int64_t kLanes = kernels::kSumLanes;
constexpr std::int64_t kBlock = kernels::kSumBlock;

/// One value alone: a fold by teams of 32 threads, level by level, or any value by one thread per output.
class ValueKernel final : public NumberReader {
 public:
  ValueKernel(const CompiledPrimitive& primitive, ValueIndex value, bool has_flag)
      : primitive_(primitive),
        value_(value),
        has_flag_(has_flag),
        is_real_((primitive.kind == Kind::kMax || primitive.kind == Kind::kArgmax
                      ? primitive.steps.result.type
                      : kernels::number_type(primitive.dtype)) == NumberType::kFloat),
        type_(is_real_ ? "float" : "std::int64_t") {}

  std::vector<DeviceKernel> fold(const TeamFoldTask& task) {
    std::vector<DeviceKernel> out = {first_level(task.across)};
    std::int64_t offset = 0;
    for (std::int64_t items = TeamFoldTask::parts_of(task.length); items > 1;
         items = TeamFoldTask::parts_of(items)) {
      const std::int64_t next = offset + primitive_.count * items;
      out.push_back(next_level(items, offset, next));
      offset = next;
    }
    return out;
  }

  std::string inside(ValueIndex value, DType dtype, const Form& form) override {
    const std::string element = arguments_.read(value, dtype) + "[" + loops_->text(form) + "]";
    return dtype == DType::kF32 ? lines_->constant("float", element)
                                : lines_->constant("std::int64_t", "integer(" + element + ")");
  }
  std::string at(ValueIndex value, DType dtype, const std::string& place) override {
    const std::string element = arguments_.read(value, dtype) + "[" + place + "]";
    return dtype == DType::kF32 ? element : "integer(" + element + ")";
  }

 private:
  [[nodiscard]] bool is_argmax() const { return primitive_.kind == Kind::kArgmax; }
  /// The type of a partial result: a fold of some positions.
  [[nodiscard]] std::string part_type() const { return is_argmax() ? fmt::format("Best<{}>", type_) : type_; }
  [[nodiscard]] std::string start() const {
    if (primitive_.kind == Kind::kSum) return "0";
    return fmt::format("least<{}>()", type_);
  }
  [[nodiscard]] std::string word() const { return primitive_.kind == Kind::kSum ? "sum" : "best"; }

  /// Calls `write` twice, as Loops requires.
  template <class Write>
  void with_loops(Loops& loops, Write write) {
    loops_ = &loops;
    Lines noted;
    lines_ = &noted;
    write(noted);
    loops.freeze();
    arguments_ = {};
    lines_ = &body_;
    body_ = Lines();
    write(body_);
  }

  DeviceKernel finish(std::uint32_t threads, std::int64_t blocks) {
    Lines out;
    arguments_.declare(out);
    out.append(body_);
    return {out.text(), arguments_.all(), threads, blocks};
  }

  /// Writes a lambda `term(p)`: the steps' result at a position; argmax and max add +0.
  void term(Lines& lines, Loops& loops, bool is_long) {
    lines.open(fmt::format("const auto term = [&]({} p)", is_long ? "std::uint64_t" : "std::uint32_t"));
    loops.declare(lines, 1);
    ElementWriter writer(primitive_, loops, *this, lines);
    std::string result = writer.run(primitive_.steps);
    if (primitive_.kind != Kind::kSum && is_real_) result += " + 0.0F";
    if (is_argmax()) result = fmt::format("{}{{{}, static_cast<std::int64_t>(p)}}", part_type(), result);
    lines.add("return " + result + ";");
    lines.close(";");
  }

  /// Stores the result of a fold, `part`.
  void store(Lines& lines, const std::string& part) {
    const std::string number = is_argmax() ? part + ".where" : part;
    lines.add(fmt::format("const {} y = as_{}({});", memory_type(primitive_.dtype),
                          type_name(primitive_.dtype), number));
    lines.add(fmt::format("{}[o] = y;", arguments_.written(value_, primitive_.dtype)));
    if (has_flag_) lines.add(fmt::format("if (!is_finite(y)) *{} = 1;", arguments_.flag(value_)));
  }

  [[nodiscard]] Loops loops_of(const std::string& output) const {
    return Loops("i", {{output, primitive_.iteration}, {"p", primitive_.fold}});
  }

  // Teams.

  /// Writes a thread's output `o`, `block` of positions and `lane`, and whether the output `exists`.
  void find_team(Lines& lines, std::int64_t blocks, std::int64_t teams, bool across) const {
    const bool is_long = primitive_.count * blocks + teams > 0xffffffff;
    const char* const type = is_long ? "std::uint64_t" : "std::uint32_t";
    lines.add(fmt::format("const std::uint32_t lane = threadIdx.x {} 32U;", across ? "/" : "%"));
    if (across) {  // a block of threads has 32 outputs, all of one block of positions
      lines.add(
          fmt::format("const {} group = blockIdx.x / {}U, block = blockIdx.x % {}U;", type, blocks, blocks));
      lines.add(fmt::format("const {} o = group * 32U + threadIdx.x % 32U;", type));
    } else {
      lines.add(fmt::format("const {} team = static_cast<{}>(blockIdx.x) * {}U + threadIdx.x / 32U;", type,
                            type, teams));
      lines.add(fmt::format("const {} o = team / {}U, block = team % {}U;", type, blocks, blocks));
    }
    lines.add(fmt::format("const bool exists = o < {}ULL;", primitive_.count));
  }

  /// Folds a block's items into `mine`; `item` is an expression of p.
  void take_items(Lines& lines, std::int64_t items, const std::string& item) const {
    const std::int64_t last = (items - 1) / kBlock, in_last = items - last * kBlock;
    const auto rows = [&](std::int64_t of_last) {
      return last == 0 ? std::to_string(of_last)
                       : fmt::format("(block == {}U ? {} : {})", last, of_last, kBlock / kLanes);
    };
    const char* const type = items > 0x7fffffff ? "std::uint64_t" : "std::uint32_t";
    lines.add(fmt::format("{} p = static_cast<{}>(block) * {}U + lane;", type, type, kBlock));
    lines.add(fmt::format("DGX_UNROLL_FOUR for (int n = 0; n < {}; ++n, p += 32U) mine = {}_of(mine, {});",
                          rows(in_last / kLanes), word(), item));
    if (in_last % kLanes == 0) return;
    const std::string is_last = last == 0 ? "" : fmt::format("block == {}U && ", last);
    lines.add(
        fmt::format("if ({}lane < {}U) mine = {}_of(mine, {});", is_last, in_last % kLanes, word(), item));
  }

  /// Combines a team's lanes, and stores the result: as the output, or, if there are several blocks, in
  /// scratch after `offset` parts.
  void put_together(Lines& lines, std::int64_t blocks, std::int64_t offset, bool across) {
    if (across) {
      lines.add(fmt::format("const {} all = {}_of_team(exchanged(mine));", part_type(), word()));
      lines.open(fmt::format("if (threadIdx.x % 32U == 0 && group * 32U + threadIdx.x / 32U < {}ULL)",
                             primitive_.count));
      lines.add(fmt::format("const {} o = group * 32U + threadIdx.x / 32U;", "auto"));
    } else {
      lines.add(fmt::format("const {} all = {}_of_team(mine);", part_type(), word()));
      lines.open("if (lane == 0 && exists)");
    }
    if (blocks > 1) {
      lines.add(fmt::format("({} + {}LL)[static_cast<std::int64_t>(o) * {} + block] = all;",
                            arguments_.scratch(part_type()), offset, blocks));
    } else {
      store(lines, "all");
    }
    lines.close();
  }

  /// `across`: 32 adjacent threads have 32 outputs, and exchange their numbers before lanes are combined.
  DeviceKernel first_level(bool across) {
    const std::int64_t blocks = TeamFoldTask::parts_of(primitive_.fold_count);
    Loops loops = loops_of("o");
    with_loops(loops, [&](Lines& lines) {
      find_team(lines, blocks, kTeams, across);
      lines.add(fmt::format("{} mine = {};", part_type(), start()));
      lines.open("if (exists)");
      loops.declare(lines, 0);
      term(lines, loops, primitive_.fold_count > 0x7fffffff);
      take_items(lines, primitive_.fold_count, "term(p)");
      lines.close();
      put_together(lines, blocks, 0, across);
    });
    if (across) return finish(32 * kLanes, (primitive_.count + kLanes - 1) / kLanes * blocks);
    return finish(kTeams * kLanes, (primitive_.count * blocks + kTeams - 1) / kTeams);
  }

  /// A later level, whose items are the parts of the level before, from `from` on.
  DeviceKernel next_level(std::int64_t items, std::int64_t from, std::int64_t to) {
    const std::int64_t blocks = TeamFoldTask::parts_of(items);
    arguments_ = {};
    body_ = Lines();
    find_team(body_, blocks, kTeams, false);
    body_.add(fmt::format("const {}* const items = {} + {}LL;", part_type(), arguments_.scratch(part_type()),
                          from));
    body_.add(fmt::format("{} mine = {};", part_type(), start()));
    body_.open("if (exists)");
    take_items(body_, items, fmt::format("items[static_cast<std::int64_t>(o) * {} + p]", items));
    body_.close();
    put_together(body_, blocks, to, false);
    return finish(kTeams * kLanes, (primitive_.count * blocks + kTeams - 1) / kTeams);
  }

  // One thread per output.

  static constexpr std::uint32_t kTeams = 4;
  static constexpr std::uint32_t kThreads = 128;

  void find_output(Lines& lines) const {
    const char* const type = primitive_.count > 0x7fffffff ? "std::uint64_t" : "std::uint32_t";
    lines.add(
        fmt::format("const {} o = static_cast<{}>(blockIdx.x) * {}U + threadIdx.x;", type, type, kThreads));
  }
  [[nodiscard]] const char* position_type() const {
    return primitive_.fold_count > 0x7fffffff ? "std::uint64_t" : "std::uint32_t";
  }

 public:
  DeviceKernel alone() {
    Loops loops = loops_of("o");
    with_loops(loops, [&](Lines& lines) {
      find_output(lines);
      lines.add(fmt::format("if (o >= {}ULL) return;", primitive_.count));
      loops.declare(lines, 0);
      switch (primitive_.kind) {
        case Kind::kSum: return sum(lines, loops);
        case Kind::kDot: return dot(lines, loops);
        case Kind::kMax:
        case Kind::kArgmax: return best(lines, loops);
        case Kind::kChain: return chain(lines, loops);
        default: store(lines, ElementWriter(primitive_, loops, *this, lines).run(primitive_.steps));
      }
    });
    return finish(kThreads, (primitive_.count + kThreads - 1) / kThreads);
  }

 private:
  /// A sum of at most 2,048 positions: all lanes are in a thread's registers.
  void sum(Lines& lines, Loops& loops) {
    const std::int64_t rows = primitive_.fold_count / kLanes, rest = primitive_.fold_count % kLanes,
                       lanes = rows > 0 ? kLanes : rest;
    if (primitive_.fold_count == 0) return store(lines, "0");
    term(lines, loops, false);
    lines.add(fmt::format("{} lanes[{}] = {{}};", type_, lanes));
    if (rows > 0) {
      lines.open(fmt::format("DGX_UNROLL_ONCE for (std::uint32_t first = 0; first < {}U; first += 32U)",
                             rows * kLanes));
      lines.add(
          "DGX_UNROLL for (std::uint32_t n = 0; n < 32U; ++n) lanes[n] = sum_of(lanes[n], term(first + n));");
      lines.close();
    }
    if (rest > 0) {
      lines.add(fmt::format(
          "DGX_UNROLL for (std::uint32_t n = 0; n < {}U; ++n) lanes[n] = sum_of(lanes[n], term({}U + n));",
          rest, rows * kLanes));
    }
    store(lines, "sum_of_lanes(lanes)");
  }

  void best(Lines& lines, Loops& loops) {
    term(lines, loops, primitive_.fold_count > 0x7fffffff);
    lines.add(fmt::format("{} mine = {};", part_type(), start()));
    lines.add(fmt::format("DGX_UNROLL_FOUR for ({} p = 0; p < {}ULL; ++p) mine = best_of(mine, term(p));",
                          position_type(), primitive_.fold_count));
    store(lines, "mine");
  }

  void dot(Lines& lines, Loops& loops) {
    const std::int64_t count = primitive_.fold_count;
    const char* const type = position_type();
    lines.add("float total = 0;");
    lines.open(fmt::format("for ({} g = 0; g < {}ULL; g += {}U)", type, count, kernels::kDotGroupPositions));
    lines.add("float group = 0;");
    lines.open(fmt::format("for ({} b = g; b < {}ULL && b < g + {}U; b += {}U)", type, count,
                           kernels::kDotGroupPositions, kernels::kDotBlock));
    lines.add("float sum = 0;");
    lines.open(fmt::format("DGX_UNROLL_FOUR for ({} p = b; p < {}ULL && p < b + {}U; ++p)", type, count,
                           kernels::kDotBlock));
    loops.declare(lines, 1);
    ElementWriter writer(primitive_, loops, *this, lines);
    const std::string a = writer.access(0), b = writer.access(1);
    lines.add(fmt::format("sum = real<kFma>({}, {}, sum);", a, b));
    lines.close();
    lines.add("group = group + sum;");
    lines.close();
    lines.add("total = total + group;");
    lines.close();
    store(lines, "total");
  }

  // Chains.

  void start_chain(Lines& lines, Loops& loops) {
    // init has no fold indices, but accesses are written with those of the fold.
    lines.add("std::uint32_t p = 0;");
    ElementWriter writer(primitive_, loops, *this, lines);
    lines.add(fmt::format("{} acc = {};", type_, writer.operand(primitive_.init, {})));
  }
  /// Writes one position of a chain.
  void link(Lines& lines, Loops& loops) {
    loops.declare(lines, 1);
    ElementWriter writer(primitive_, loops, *this, lines);
    if (primitive_.has_when) lines.open("if (" + writer.run(primitive_.when) + " != 0)");
    lines.add("acc = " + writer.run(primitive_.steps) + ";");
    if (primitive_.has_when) lines.close();
  }

  void chain(Lines& lines, Loops& loops) {
    start_chain(lines, loops);
    lines.open(fmt::format("for ({} p = 0; p < {}ULL; ++p)", position_type(), primitive_.fold_count));
    link(lines, loops);
    lines.close();
    store(lines, "acc");
  }

 public:
  /// A chain by key: 32 threads look at 32 positions at once, and all of them take those that count, in
  /// order.
  DeviceKernel keyed_chain(const ChainTask::Key& key) {
    Loops loops = loops_of("o"), keys("q", {{"k", key.positions.extents}});
    keys.freeze();
    with_loops(loops, [&](Lines& lines) {
      find_output(lines);
      lines.add(fmt::format("const bool exists = o < {}ULL;", primitive_.count));
      lines.add(fmt::format("const std::int64_t index = static_cast<std::int64_t>(o / {}ULL % {}ULL);",
                            key.stride, key.extent));
      loops.declare(lines, 0);
      start_chain(lines, loops);
      lines.open(
          fmt::format("for (std::uint32_t first = 0; first < {}U; first += 32U)", primitive_.fold_count));
      lines.add("const std::uint32_t k = first + threadIdx.x % 32U;");
      lines.add("bool counts = false;");
      lines.open(fmt::format("if (exists && k < {}U)", primitive_.fold_count));
      keys.declare(lines, 0);
      lines.add(fmt::format("counts = integer({}[{}]) == index;", arguments_.read(key.value, key.dtype),
                            keys.text({key.base, key.positions.strides[0]})));
      lines.close();
      lines.open("for (std::uint32_t all = votes(counts); all != 0; all &= all - 1)");
      lines.add("const std::uint32_t p = first + lowest(all);");
      link(lines, loops);
      lines.close();
      lines.close();
      lines.open("if (exists)");
      store(lines, "acc");
      lines.close();
    });
    return finish(kThreads, (primitive_.count + kThreads - 1) / kThreads);
  }

 private:
  const CompiledPrimitive& primitive_;
  ValueIndex value_;
  bool has_flag_;
  bool is_real_;
  std::string type_;  // of the numbers that are folded
  Loops* loops_ = nullptr;
  Lines body_;
  Lines* lines_ = nullptr;
  KernelArguments arguments_;
};

}  // namespace

std::vector<DeviceKernel> KernelWriter::fold(const TeamFoldTask& task) const {
  const auto v = static_cast<std::size_t>(task.out);
  return ValueKernel(plan_.compiled[v], task.out, becomes_state_[v]).fold(task);
}

DeviceKernel KernelWriter::chain(const KeyedChainTask& task) const {
  const auto v = static_cast<std::size_t>(task.out);
  return ValueKernel(plan_.compiled[v], task.out, becomes_state_[v]).keyed_chain(task.key);
}

DeviceKernel KernelWriter::value(const GenericTask& task) const {
  const auto v = static_cast<std::size_t>(task.out);
  return ValueKernel(plan_.compiled[v], task.out, becomes_state_[v]).alone();
}

}  // namespace dgx::exec
