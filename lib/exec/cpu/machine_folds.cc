#include <array>
#include <limits>
#include <utility>

#include "cpu/machine_thread.h"
#include "dgx/kernels/cpu/column_sum.h"
#include "dgx/kernels/fold_order.h"

namespace dgx::exec {

using kernels::Kind;
using kernels::cpu::kStripLength;
using kernels::cpu::run_strip;
using kernels::cpu::StripInstruction;
using Op = kernels::cpu::StripOp;
namespace cpu = kernels::cpu;

namespace {

constexpr std::int64_t kLanes = kernels::kSumLanes;

/// Sums for a strip of neighbouring outputs: lane l of all of them is one strip of memory.
class StripSum {
 public:
  explicit StripSum(float* lanes) : lanes_(lanes) {}
  [[nodiscard]] float* operand(std::int64_t position) { return lane(position < kLanes ? position : kLanes); }
  void take(std::int64_t position, std::int64_t count) {
    if (position >= kLanes) add(lane(position % kLanes), lane(kLanes), count);
  }
  /// Lanes that no position reached are left out: they are +0 and change nothing. A lane begins as its first
  /// number, not as +0 plus that number. Only the sign of a zero sum can show the difference: hence the last
  /// addition.
  void finish(std::int64_t length, std::int64_t count, float* out) {
    for (std::int64_t distance = kLanes / 2; distance > 0; distance /= 2) {
      for (std::int64_t l = 0; l < distance && l + distance < length; ++l)
        add(lane(l), lane(l + distance), count);
    }
    for (std::int64_t i = 0; i < count; ++i) out[i] = lanes_[i] + 0.0F;
  }

 private:
  float* lane(std::int64_t l) { return lanes_ + l * kStripLength; }
  static void add(float* to, const float* from, std::int64_t count) {
    static const std::vector<StripInstruction> kAdd = {{Op::kAddF, 0, {0, 1, 0}}};
    void* const registers[] = {to, const_cast<float*>(from)};
    run_strip(kAdd, registers, count);
  }
  float* lanes_;
};

/// Max and argmax for a strip of neighbouring outputs.
class StripMax {
 public:
  /// `memory`: ten strips of floats.
  explicit StripMax(float* memory) {
    for (std::size_t r = 0; r < registers_.size(); ++r)
      registers_[r] = memory + static_cast<std::int64_t>(r) * kStripLength;
    registers_[kPlace] = registers_[6];  // integers are two strips wide
    registers_[kBestPlace] = registers_[8];
    std::fill_n(at(kZero), kStripLength, 0.0F);
  }
  void start(std::int64_t count) {
    std::fill_n(at(kBest), count, -std::numeric_limits<float>::infinity());
    std::fill_n(static_cast<std::int64_t*>(registers_[kBestPlace]), count, std::int64_t{0});
  }
  [[nodiscard]] float* operand() { return at(kOperand); }
  // The operand replaces the best if it is greater, or is the first NaN.
  void take(std::int64_t position, std::int64_t count, bool with_place) {
    static const std::vector<StripInstruction> kMax = {
        {Op::kAddF, kOperand, {kOperand, kZero, 0}},     {Op::kNeF, kIsNew, {kOperand, kOperand, 0}},
        {Op::kEqF, kIsNumber, {kBest, kBest, 0}},        {Op::kAndM, kIsNew, {kIsNew, kIsNumber, 0}},
        {Op::kGtF, kIsNumber, {kOperand, kBest, 0}},     {Op::kOrM, kIsNew, {kIsNew, kIsNumber, 0}},
        {Op::kSelectF, kBest, {kIsNew, kOperand, kBest}}};
    static const std::vector<StripInstruction> kPlaces = {
        {Op::kSelectI, kBestPlace, {kIsNew, kPlace, kBestPlace}}};
    run_strip(kMax, registers_.data(), count);
    if (!with_place) return;
    std::fill_n(static_cast<std::int64_t*>(registers_[kPlace]), count, position);
    run_strip(kPlaces, registers_.data(), count);
  }
  [[nodiscard]] const float* best() { return at(kBest); }
  [[nodiscard]] const std::int64_t* place() {
    return static_cast<const std::int64_t*>(registers_[kBestPlace]);
  }

 private:
  enum Register : std::int32_t { kOperand, kBest, kZero, kIsNew, kIsNumber, kPlace, kBestPlace };
  float* at(Register r) { return static_cast<float*>(registers_[static_cast<std::size_t>(r)]); }
  std::array<void*, 10> registers_{};
};

}  // namespace

/// Folds `count` rows of `length` operands, `stride` apart, into output elements from `first` on.
void Machine::fold_rows(const Fold& fold, const Thread& thread, const float* operands, std::int64_t stride,
                        std::int64_t first, std::int64_t count) {
  if (fold.kind == Kind::kSum)
    cpu::row_sum(count, fold.length, operands, stride, thread.at<float>(fold.out) + first);
  if (fold.kind == Kind::kMax)
    cpu::row_max(count, fold.length, operands, stride, thread.at<float>(fold.out) + first);
  if (fold.kind == Kind::kArgmax)
    cpu::row_argmax(count, fold.length, operands, stride, thread.at<std::int64_t>(fold.out) + first);
}

/// Folds units [begin, end) of neighbouring outputs, position by position.
void Machine::fold_across(const Fold& fold, Thread& thread, std::int64_t begin, std::int64_t end) {
  StripRunner runner(fold.program, *thread.memory, nullptr, thread.strips);
  StripSum sum(thread.fold.as<float>().data());
  StripMax max(thread.fold.as<float>().data());
  const bool sums = fold.kind == Kind::kSum;
  for (std::int64_t unit = begin; unit < end; ++unit) {
    const std::int64_t first = StripRunner::first_element(fold.program, unit);
    std::int64_t count = 0;
    if (!sums) max.start(kStripLength);
    runner.set_outer(0);
    for (std::int64_t k = 0; k < fold.length; ++k, runner.next_outer()) {
      count = runner.run_unit(unit, sums ? sum.operand(k) : max.operand());
      if (sums) sum.take(k, count);
      if (!sums) max.take(k, count, fold.kind == Kind::kArgmax);
    }
    if (sums) sum.finish(fold.length, count, thread.at<float>(fold.out) + first);
    if (fold.kind == Kind::kMax) std::copy_n(max.best(), count, thread.at<float>(fold.out) + first);
    if (fold.kind == Kind::kArgmax)
      std::copy_n(max.place(), count, thread.at<std::int64_t>(fold.out) + first);
  }
}

/// Folds matrices [begin, end) down their columns.
void Machine::fold_columns(const Fold& fold, Thread& thread, std::int64_t begin, std::int64_t end) {
  const StripProgram& program = fold.program;
  cpu::ColumnSums sums(fold.length, fold.columns, thread.fold.as<float>().data());
  float* const operands = thread.fold.as<float>().data() + cpu::ColumnSums::size(fold.length, fold.columns);
  float* const out = thread.at<float>(fold.out);
  if (fold.row_stride) {
    const float* const x = thread.at<float>(fold.operands().value) + fold.operands().base;
    for (std::int64_t matrix = begin; matrix < end; ++matrix) {
      sums.take(x + matrix * *fold.row_stride, fold.length * fold.columns);
      sums.finish(out + matrix * fold.columns);
    }
    return;
  }
  StripRunner runner(program, *thread.memory, nullptr, thread.strips);
  runner.fetch_ahead();
  runner.set_outer(begin);
  for (std::int64_t matrix = begin; matrix < end; ++matrix, runner.next_outer()) {
    for (std::int64_t unit = 0, units = StripRunner::unit_count(program); unit < units; ++unit) {
      const std::int64_t count = StripRunner::unit_size(program, unit);
      float* const place = sums.place(count);
      if (place == nullptr) std::fill_n(operands, count, 0.0F);
      runner.set_accumulator(place != nullptr ? place : operands);
      runner.run_unit(unit, nullptr);
      if (place == nullptr) sums.take(operands, count);
    }
    sums.finish(out + matrix * fold.columns);
  }
}

void Machine::run(const Fold& fold, Thread& thread, int member, int members) {
  if (fold.along == Fold::Along::kColumns) {
    const Range matrices = share(fold.count / fold.columns, 1, member, members);
    return fold_columns(fold, thread, matrices.begin, matrices.end);
  }
  if (fold.along == Fold::Along::kOutputs) {
    const Range units = share(StripRunner::unit_count(fold.program), 1, member, members);
    return fold_across(fold, thread, units.begin, units.end);
  }
  const Range elements = share(fold.count, 16, member, members);
  if (elements.begin != elements.end) fold_elements(fold, thread, elements.begin, elements.end);
}

/// Makes elements [begin, end), each of a row of operands.
void Machine::fold_elements(const Fold& fold, Thread& thread, std::int64_t begin, std::int64_t end) {
  if (fold.row_stride) {
    const StripRegister& rows = fold.operands();
    const float* x = thread.at<float>(rows.value) + rows.base + begin * *fold.row_stride;
    return fold_rows(fold, thread, x, *fold.row_stride, begin, end - begin);
  }
  float* operands = thread.fold.as<float>().data();
  StripRunner runner(fold.program, *thread.memory, nullptr, thread.strips);
  runner.fetch_ahead();
  runner.set_outer(begin);
  for (std::int64_t e = begin; e < end; ++e, runner.next_outer()) {
    runner.fill(operands);
    fold_rows(fold, thread, operands, fold.length, e, 1);
  }
}

/// Sorts positions by the keys that a set of outputs sees: fills thread.starts and thread.positions,
/// ascending for each key. Positions whose key is no index of the dimension are left out.
void Machine::sort_positions(const Chain::Key& key, std::int64_t set, std::int64_t length,
                             Thread& thread) const {
  const std::int64_t base = key.base + key.sets.offset(0, set);
  const auto key_at = [&](std::int64_t position) {
    const std::int64_t at = base + key.positions.offset(0, position);
    return key.dtype == DType::kU8 ? static_cast<std::int64_t>(thread.at<const std::uint8_t>(key.value)[at])
                                   : thread.at<const std::int64_t>(key.value)[at];
  };
  const auto named = [&](std::int64_t k) { return k >= 0 && k < key.extent; };
  auto& starts = thread.starts;
  starts.assign(static_cast<std::size_t>(key.extent) + 2, 0);
  thread.positions.resize(static_cast<std::size_t>(length));
  for (std::int64_t p = 0; p < length; ++p) {
    if (const std::int64_t k = key_at(p); named(k)) ++starts[static_cast<std::size_t>(k) + 2];
  }
  for (std::size_t k = 2; k < starts.size(); ++k) starts[k] += starts[k - 1];
  for (std::int64_t p = 0; p < length; ++p) {
    if (const std::int64_t k = key_at(p); named(k))
      thread.positions[static_cast<std::size_t>(starts[static_cast<std::size_t>(k) + 1]++)] = p;
  }
}

void Machine::run(const Chain& chain, Thread& thread, int member, int members) {
  const Range units = share(StripRunner::unit_count(chain.body), 1, member, members);
  if (units.begin == units.end) return;
  const std::int64_t size = chain.dtype == DType::kF32 ? 4 : 8;
  std::int64_t sorted = -1;  // the set whose positions are sorted
  for (std::int64_t unit = units.begin; unit < units.end; ++unit) {
    const std::int64_t first = StripRunner::first_element(chain.body, unit);
    auto* const acc = thread.at<std::uint8_t>(chain.out) + first * size;
    const std::int64_t count =
        std::min(chain.body.strip, chain.body.nest.inner_extent() - first % chain.body.nest.inner_extent());
    StripRunner init(chain.init, *thread.memory, nullptr, thread.strips);
    init.run_range(first, count, acc);
    StripRunner body(chain.body, *thread.memory, nullptr, thread.strips);
    body.set_accumulator(acc);
    const std::int64_t index = chain.key ? first / chain.key->stride : 0;
    // All outputs of the unit have one index, so they visit the same positions.
    if (chain.key && index == (first + count - 1) / chain.key->stride) {
      const std::int64_t set = index / chain.key->extent;
      if (std::exchange(sorted, set) != set) sort_positions(*chain.key, set, chain.length, thread);
      const auto at = static_cast<std::size_t>(index % chain.key->extent);
      for (std::int64_t n = thread.starts[at]; n < thread.starts[at + 1]; ++n) {
        body.set_outer(thread.positions[static_cast<std::size_t>(n)]);
        body.run_unit(unit, acc);
      }
      continue;
    }
    body.set_outer(0);
    for (std::int64_t k = 0; k < chain.length; ++k, body.next_outer()) body.run_unit(unit, acc);
  }
}

}  // namespace dgx::exec
