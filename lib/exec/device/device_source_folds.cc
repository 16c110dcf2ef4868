#include <fmt/format.h>

#include <algorithm>

#include "device/device_source.h"
#include "device/kernel_arguments.h"
#include "dgx/kernels/fold_order.h"

namespace dgx::exec {

using kernels::CompiledPrimitive;
using kernels::Kind;
using kernels::NumberType;
using kernels::ValueIndex;

namespace {

constexpr std::int64_t kLanes = kernels::kSumLanes;
constexpr std::int64_t kBlock = kernels::kSumBlock;

/// The text of a kernel that makes one value, `o` being the output and `p` the position of the fold: how it
/// reads numbers, computes the terms of a fold or chain, and stores a result.
class ValueKernel : public NumberReader {
 public:
  ValueKernel(const Plan& plan, ValueIndex value)
      : primitive_(plan.compiled[value]),
        value_(value),
        has_flag_(plan.checked[value]),
        is_real_((primitive_.kind == Kind::kMax || primitive_.kind == Kind::kArgmax
                      ? primitive_.steps.result.type
                      : kernels::number_type(primitive_.dtype)) == NumberType::kFloat),
        type_(is_real_ ? "float" : "std::int64_t"),
        loops_("i", {{"o", primitive_.iteration}, {"p", primitive_.fold}}, reads_of(primitive_).forms) {}

  std::string inside(ValueIndex value, DType dtype, const Form& form) override {
    const std::string element = arguments_.read(value, dtype) + "[" + loops_.text(form) + "]";
    return dtype == DType::kF32 ? lines_.constant("float", element)
                                : lines_.constant("std::int64_t", "integer(" + element + ")");
  }
  std::string at(ValueIndex value, DType dtype, const std::string& place) override {
    const std::string element = arguments_.read(value, dtype) + "[" + place + "]";
    return dtype == DType::kF32 ? element : "integer(" + element + ")";
  }

 protected:
  static constexpr std::uint32_t kThreads = 128;  // of a block

  [[nodiscard]] bool is_argmax() const { return primitive_.kind == Kind::kArgmax; }
  /// The type of a partial result: a fold of some positions.
  [[nodiscard]] std::string part_type() const { return is_argmax() ? fmt::format("Best<{}>", type_) : type_; }
  [[nodiscard]] std::string start() const {
    return primitive_.kind == Kind::kSum ? "0" : fmt::format("least<{}>()", type_);
  }
  [[nodiscard]] const char* position_type() const {
    return primitive_.fold_count > 0x7fffffff ? "std::uint64_t" : "std::uint32_t";
  }
  [[nodiscard]] ElementWriter writer() { return {primitive_, loops_, *this, lines_}; }

  /// Writes the output `o` of a thread, if each has one.
  void find_output() {
    const char* const type = primitive_.count > 0x7fffffff ? "std::uint64_t" : "std::uint32_t";
    lines_.add(
        fmt::format("const {} o = static_cast<{}>(blockIdx.x) * {}U + threadIdx.x;", type, type, kThreads));
  }

  /// Writes a lambda `term(p)`: the steps' result at a position. Max and argmax add +0, which makes -0 +0.
  void term() {
    lines_.open(fmt::format("const auto term = [&]({} p)", position_type()));
    loops_.declare(lines_, 1);
    std::string result = writer().run(primitive_.steps);
    if (primitive_.kind != Kind::kSum && is_real_) result += " + 0.0F";
    if (is_argmax()) result = fmt::format("{}{{{}, static_cast<std::int64_t>(p)}}", part_type(), result);
    lines_.add("return " + result + ";");
    lines_.close(";");
  }

  void start_chain() {
    // init has no fold indices, but accesses are written with those of the fold.
    lines_.add("std::uint32_t p = 0;");
    lines_.add(fmt::format("{} acc = {};", type_, writer().operand(primitive_.init, {})));
  }
  /// Writes one position of a chain.
  void link() {
    loops_.declare(lines_, 1);
    ElementWriter at_position = writer();
    if (primitive_.has_when) lines_.open("if (" + at_position.run(primitive_.when) + " != 0)");
    lines_.add("acc = " + at_position.run(primitive_.steps) + ";");
    if (primitive_.has_when) lines_.close();
  }

  /// Stores the output's result, `part`.
  void store(const std::string& part) {
    const std::string number = is_argmax() ? part + ".where" : part;
    lines_.add(fmt::format("const {} y = as_{}({});", memory_type(primitive_.dtype),
                           type_name(primitive_.dtype), number));
    lines_.add(fmt::format("{}[o] = y;", arguments_.written(value_, primitive_.dtype)));
    if (has_flag_) lines_.add(fmt::format("if (!is_finite(y)) *{} = 1;", arguments_.flag(value_)));
  }

  /// The kernel: all that was written, after the arguments.
  DeviceKernel finish(std::uint32_t threads, std::int64_t blocks) const {
    Lines out;
    arguments_.declare(out);
    out.append(lines_);
    return {out.text(), arguments_.all(), threads, blocks};
  }
  [[nodiscard]] DeviceKernel finish_outputs() const {
    return finish(kThreads, (primitive_.count + kThreads - 1) / kThreads);
  }

  const CompiledPrimitive& primitive_;
  const ValueIndex value_;
  const bool has_flag_;
  const bool is_real_;
  const std::string type_;  // of the numbers that are folded
  const Loops loops_;
  Lines lines_;
  KernelArguments arguments_;
};

/// A thread per output.
class ThreadKernel final : public ValueKernel {
 public:
  using ValueKernel::ValueKernel;

  DeviceKernel write() {
    find_output();
    lines_.add(fmt::format("if (o >= {}ULL) return;", primitive_.count));
    loops_.declare(lines_, 0);
    switch (primitive_.kind) {
      case Kind::kSum: sum(); break;
      case Kind::kDot: dot(); break;
      case Kind::kMax:
      case Kind::kArgmax: best(); break;
      case Kind::kChain: chain(); break;
      default: store(writer().run(primitive_.steps));
    }
    return finish_outputs();
  }

 private:
  /// A sum of at most 2,048 positions: all lanes are in a thread's registers.
  void sum() {
    const std::int64_t rows = primitive_.fold_count / kLanes, rest = primitive_.fold_count % kLanes,
                       lanes = rows > 0 ? kLanes : rest;
    if (primitive_.fold_count == 0) return store("0");
    term();
    lines_.add(fmt::format("{} lanes[{}] = {{}};", type_, lanes));
    if (rows > 0) {
      lines_.open(fmt::format("DGX_UNROLL_ONCE for (std::uint32_t first = 0; first < {}U; first += 32U)",
                              rows * kLanes));
      lines_.add(
          "DGX_UNROLL for (std::uint32_t n = 0; n < 32U; ++n) lanes[n] = sum_of(lanes[n], term(first + n));");
      lines_.close();
    }
    if (rest > 0) {
      lines_.add(fmt::format(
          "DGX_UNROLL for (std::uint32_t n = 0; n < {}U; ++n) lanes[n] = sum_of(lanes[n], term({}U + n));",
          rest, rows * kLanes));
    }
    store("sum_of_lanes(lanes)");
  }

  void best() {
    term();
    lines_.add(fmt::format("{} mine = {};", part_type(), start()));
    lines_.add(fmt::format("DGX_UNROLL_FOUR for ({} p = 0; p < {}ULL; ++p) mine = best_of(mine, term(p));",
                           position_type(), primitive_.fold_count));
    store("mine");
  }

  /// A dot in the order of dgx-numerics(7), "Folds": multiply-adds within a block, blocks within a group,
  /// groups.
  void dot() {
    const std::int64_t count = primitive_.fold_count;
    const char* const type = position_type();
    lines_.add("float total = 0;");
    lines_.open(fmt::format("for ({} g = 0; g < {}ULL; g += {}U)", type, count, kernels::kDotGroupPositions));
    lines_.add("float group = 0;");
    lines_.open(fmt::format("for ({} b = g; b < {}ULL && b < g + {}U; b += {}U)", type, count,
                            kernels::kDotGroupPositions, kernels::kDotBlock));
    lines_.add("float sum = 0;");
    lines_.open(fmt::format("DGX_UNROLL_FOUR for ({} p = b; p < {}ULL && p < b + {}U; ++p)", type, count,
                            kernels::kDotBlock));
    loops_.declare(lines_, 1);
    ElementWriter terms = writer();
    const std::string a = terms.access(0), b = terms.access(1);
    lines_.add(fmt::format("sum = real<kFma>({}, {}, sum);", a, b));
    lines_.close();
    lines_.add("group = group + sum;");
    lines_.close();
    lines_.add("total = total + group;");
    lines_.close();
    store("total");
  }

  void chain() {
    start_chain();
    lines_.open(fmt::format("for ({} p = 0; p < {}ULL; ++p)", position_type(), primitive_.fold_count));
    link();
    lines_.close();
    store("acc");
  }
};

/// One level of a TeamFold. A lane group is 32 consecutive threads, one for each lane of the fold; the text
/// calls it a team.
class TeamFoldKernel final : public ValueKernel {
 public:
  TeamFoldKernel(const Plan& plan, const TeamFold& fold)
      : ValueKernel(plan, fold.out), across_(fold.across) {}

  /// The first level, whose items are the positions' terms. If neighbouring outputs are neighbours in memory,
  /// the threads of a warp have 32 outputs and one lane; the block transposes its numbers before it combines
  /// lanes.
  DeviceKernel first() {
    const std::int64_t items = primitive_.fold_count, blocks = TeamFold::parts_of(items);
    find_team(blocks);
    lines_.add(fmt::format("{} mine = {};", part_type(), start()));
    lines_.open("if (exists)");
    loops_.declare(lines_, 0);
    term();
    take_items(items, "term(p)");
    lines_.close();
    combine(blocks, 0);
    if (across_) return finish(32 * kLanes, (primitive_.count + kLanes - 1) / kLanes * blocks);
    return finish_teams(blocks);
  }

  /// A later level, whose items are the parts of the level before, from part `from` of the scratch on. Its
  /// own parts begin at `to`.
  DeviceKernel next(std::int64_t items, std::int64_t from, std::int64_t to) {
    const std::int64_t blocks = TeamFold::parts_of(items);
    across_ = false;
    find_team(blocks);
    lines_.add(fmt::format("const {}* const items = {} + {}LL;", part_type(), arguments_.scratch(part_type()),
                           from));
    lines_.add(fmt::format("{} mine = {};", part_type(), start()));
    lines_.open("if (exists)");
    take_items(items, fmt::format("items[static_cast<std::int64_t>(o) * {} + p]", items));
    lines_.close();
    combine(blocks, to);
    return finish_teams(blocks);
  }

 private:
  static constexpr std::int64_t kTeams = 4;  // lane groups of a block of threads

  [[nodiscard]] DeviceKernel finish_teams(std::int64_t blocks) const {
    return finish(kTeams * kLanes, (primitive_.count * blocks + kTeams - 1) / kTeams);
  }
  [[nodiscard]] std::string word() const { return primitive_.kind == Kind::kSum ? "sum" : "best"; }

  /// Writes a thread's output `o`, `block` of items and `lane`, and whether the output `exists`.
  void find_team(std::int64_t blocks) {
    const bool is_long = primitive_.count * blocks + kTeams > 0xffffffff;
    const char* const type = is_long ? "std::uint64_t" : "std::uint32_t";
    lines_.add(fmt::format("const std::uint32_t lane = threadIdx.x {} 32U;", across_ ? "/" : "%"));
    if (across_) {  // a block of threads has 32 outputs, all of one block of positions
      lines_.add(
          fmt::format("const {} group = blockIdx.x / {}U, block = blockIdx.x % {}U;", type, blocks, blocks));
      lines_.add(fmt::format("const {} o = group * 32U + threadIdx.x % 32U;", type));
    } else {
      lines_.add(fmt::format("const {} team = static_cast<{}>(blockIdx.x) * {}U + threadIdx.x / 32U;", type,
                             type, kTeams));
      lines_.add(fmt::format("const {} o = team / {}U, block = team % {}U;", type, blocks, blocks));
    }
    lines_.add(fmt::format("const bool exists = o < {}ULL;", primitive_.count));
  }

  /// Folds a block's items into `mine`; `item` is an expression of p.
  void take_items(std::int64_t items, const std::string& item) {
    const std::int64_t last = (items - 1) / kBlock, in_last = items - last * kBlock;
    const auto rows = [&](std::int64_t of_last) {
      return last == 0 ? std::to_string(of_last)
                       : fmt::format("(block == {}U ? {} : {})", last, of_last, kBlock / kLanes);
    };
    const char* const type = items > 0x7fffffff ? "std::uint64_t" : "std::uint32_t";
    lines_.add(fmt::format("{} p = static_cast<{}>(block) * {}U + lane;", type, type, kBlock));
    lines_.add(fmt::format("DGX_UNROLL_FOUR for (int n = 0; n < {}; ++n, p += 32U) mine = {}_of(mine, {});",
                           rows(in_last / kLanes), word(), item));
    if (in_last % kLanes == 0) return;
    const std::string is_last = last == 0 ? "" : fmt::format("block == {}U && ", last);
    lines_.add(
        fmt::format("if ({}lane < {}U) mine = {}_of(mine, {});", is_last, in_last % kLanes, word(), item));
  }

  /// Combines the lanes of a group, and stores the result: as the output, or, if there are several blocks of
  /// items, in scratch after `offset` parts.
  void combine(std::int64_t blocks, std::int64_t offset) {
    if (across_) {
      lines_.add(fmt::format("const {} all = {}_of_team(exchanged(mine));", part_type(), word()));
      lines_.open(fmt::format("if (threadIdx.x % 32U == 0 && group * 32U + threadIdx.x / 32U < {}ULL)",
                              primitive_.count));
      lines_.add("const auto o = group * 32U + threadIdx.x / 32U;");
    } else {
      lines_.add(fmt::format("const {} all = {}_of_team(mine);", part_type(), word()));
      lines_.open("if (lane == 0 && exists)");
    }
    if (blocks > 1) {
      lines_.add(fmt::format("({} + {}LL)[static_cast<std::int64_t>(o) * {} + block] = all;",
                             arguments_.scratch(part_type()), offset, blocks));
    } else {
      store("all");
    }
    lines_.close();
  }

  bool across_;
};

/// A KeyedChain: 32 threads look at the keys of 32 positions at once, and all of them take those that count,
/// in order.
class KeyedChainKernel final : public ValueKernel {
 public:
  KeyedChainKernel(const Plan& plan, const KeyedChain& chain)
      : ValueKernel(plan, chain.out), key_(chain.key) {}

  DeviceKernel write() {
    const Form key{key_.base, key_.positions.strides[0]};
    const Loops keys("q", {{"k", key_.positions.extents}}, {key});
    find_output();
    lines_.add(fmt::format("const bool exists = o < {}ULL;", primitive_.count));
    lines_.add(fmt::format("const std::int64_t index = static_cast<std::int64_t>(o / {}ULL % {}ULL);",
                           key_.stride, key_.extent));
    loops_.declare(lines_, 0);
    start_chain();
    lines_.open(
        fmt::format("for (std::uint32_t first = 0; first < {}U; first += 32U)", primitive_.fold_count));
    lines_.add("const std::uint32_t k = first + threadIdx.x % 32U;");
    lines_.add("bool counts = false;");
    lines_.open(fmt::format("if (exists && k < {}U)", primitive_.fold_count));
    keys.declare(lines_, 0);
    lines_.add(fmt::format("counts = integer({}[{}]) == index;", arguments_.read(key_.value, key_.dtype),
                           keys.text(key)));
    lines_.close();
    lines_.open("for (std::uint32_t all = votes(counts); all != 0; all &= all - 1)");
    lines_.add("const std::uint32_t p = first + lowest(all);");
    link();
    lines_.close();
    lines_.close();
    lines_.open("if (exists)");
    store("acc");
    lines_.close();
    return finish_outputs();
  }

 private:
  const Chain::Key& key_;
};

}  // namespace

std::vector<DeviceKernel> KernelWriter::fold(const TeamFold& fold) const {
  const auto level = [&] { return TeamFoldKernel(plan_, fold); };
  std::vector<DeviceKernel> out = {level().first()};
  std::int64_t offset = 0;
  for (std::int64_t items = TeamFold::parts_of(fold.length); items > 1; items = TeamFold::parts_of(items)) {
    const std::int64_t next = offset + fold.count * items;
    out.push_back(level().next(items, offset, next));
    offset = next;
  }
  return out;
}

DeviceKernel KernelWriter::chain(const KeyedChain& chain) const {
  return KeyedChainKernel(plan_, chain).write();
}

DeviceKernel KernelWriter::value(const Generic& generic) const {
  return ThreadKernel(plan_, generic.out).write();
}

}  // namespace dgx::exec
