#include "fold_numbers.h"
#include "dgx/core/checked.h"
#include "dgx/kernels/fold_order.h"

#include <algorithm>
#include <array>

#include "dgx/kernels/position.h"

namespace dgx::protocol {

using kernels::kDotBlock;
using kernels::kDotGroupBlocks;
using kernels::kDotGroupPositions;
using kernels::kSumBlock;
using kernels::kSumLanes;
using kernels::Number;
using kernels::NumberType;
using kernels::Running;
using What = FoldList::What;

namespace {

/// One element's fold, recomputed a part at a time.
class Recomputed {
 public:
  Recomputed(const kernels::CompiledPrimitive& line, const kernels::ByValue<TensorView>& values,
             std::int64_t element)
      : line_(line), values_(values), element_(element), type_(kernels::running_type(line)) {}

  /// The running results after positions [begin, end), from the one before them.
  Result<std::vector<Running>> positions(std::int64_t begin, std::int64_t end, const Running& before) const {
    return kernels::running_results(line_, values_, element_, begin, end, before);
  }
  [[nodiscard]] Running zero() const { return {zero_of(type_), 0}; }

  Result<Number> dot_block(std::int64_t block) const {
    const std::int64_t begin = block * kDotBlock;
    DGX_TRY(const auto running, positions(begin, std::min(begin + kDotBlock, line_.fold_count), zero()));
    return running.back().value;
  }
  /// The group's running result after each of its blocks [begin, end).
  Result<std::vector<Running>> group(std::int64_t begin, std::int64_t end) const {
    std::vector<Running> out;
    Running running = zero();
    for (std::int64_t block = begin; block < end; ++block) {
      DGX_TRY(const Number result, dot_block(block));
      running.value = add(running.value, result);
      out.push_back(running);
    }
    return out;
  }
  /// The total after each group at the end of one of the list's intervals.
  Result<std::vector<Running>> totals(const FoldList& list) const {
    const std::int64_t blocks = ceil_div(line_.fold_count, kDotBlock);
    std::vector<Running> out;
    Running total = zero();
    for (std::int64_t g = 0; g < list.end; ++g) {
      DGX_TRY(const auto running, group(g * kDotGroupBlocks, std::min((g + 1) * kDotGroupBlocks, blocks)));
      total.value = add(total.value, running.back().value);
      if (g >= list.begin && g + 1 == list.end_of(static_cast<std::int64_t>(out.size())))
        out.push_back(total);
    }
    return out;
  }

  /// The result of a block of items: added up in their lanes, and these combined.
  [[nodiscard]] Number combined(const std::vector<Number>& items) const {
    std::array<Number, kSumLanes> lanes;
    lanes.fill(zero().value);
    for (std::size_t i = 0; i < items.size(); ++i) lanes[i % kSumLanes] = add(lanes[i % kSumLanes], items[i]);
    return kernels::combine_lanes(type_, lanes).result;
  }
  /// The result of block `block` of a sum's level `level`, recomputed from the terms.
  Result<Number> sum_block(int level, std::int64_t block) const {
    const std::int64_t begin = block * kSumBlock;
    const std::int64_t end = std::min(begin + kSumBlock, items_of(level));
    if (level == 0) {
      DGX_TRY(const auto running, positions(begin, end, zero()));
      std::array<Number, kSumLanes> lanes;
      lanes.fill(zero().value);
      for (std::size_t i = 0; i < running.size(); ++i) lanes[i % kSumLanes] = running[i].value;
      return kernels::combine_lanes(type_, lanes).result;
    }
    std::vector<Number> items;
    for (std::int64_t item = begin; item < end; ++item) {
      DGX_TRY(const Number number, sum_block(level - 1, item));
      items.push_back(number);
    }
    return combined(items);
  }
  /// The items of a sum's level: positions on level 0, else the blocks of the level below.
  [[nodiscard]] std::int64_t items_of(int level) const {
    std::int64_t items = line_.fold_count;
    for (int i = 0; i < level; ++i) items = ceil_div(items, kSumBlock);
    return items;
  }
  Result<std::vector<Running>> items(const FoldList& list) const {
    std::vector<Running> out;
    for (std::int64_t item = list.begin; item < list.end; ++item) {
      DGX_TRY(const Number number, sum_block(list.level - 1, item));
      out.push_back({number, 0});
    }
    return out;
  }

  /// The running results at the ends of the list's intervals, without keeping all between.
  Result<std::vector<Running>> running(const FoldList& list) const {
    constexpr std::int64_t kAtOnce = std::int64_t{1} << 16;
    DGX_TRY(Running before, start());
    std::vector<Running> out;
    for (std::int64_t begin = 0; begin < list.end; begin += kAtOnce) {
      DGX_TRY(const auto part, positions(begin, std::min(begin + kAtOnce, list.end), before));
      before = part.back();
      while (static_cast<std::int64_t>(out.size()) < list.count()) {
        const std::int64_t last = list.end_of(static_cast<std::int64_t>(out.size())) - 1;
        if (last >= begin + static_cast<std::int64_t>(part.size())) break;
        out.push_back(part[static_cast<std::size_t>(last - begin)]);
      }
    }
    return out;
  }

 private:
  class Memory final : public kernels::ValueSource {
   public:
    explicit Memory(const kernels::ByValue<TensorView>& values) : values_(values) {}
    Number element(kernels::ValueIndex value, std::int64_t index) override {
      const TensorView& view = values_[value];
      if (view.dtype == DType::kF32) return Number::of(view.as<float>()[static_cast<std::size_t>(index)]);
      if (view.dtype == DType::kU8)
        return Number::of(static_cast<std::int64_t>(view.bytes[static_cast<std::size_t>(index)]));
      return Number::of(view.as<std::int64_t>()[static_cast<std::size_t>(index)]);
    }

   private:
    const kernels::ByValue<TensorView>& values_;
  };
  Result<Running> start() const {
    Memory memory(values_);
    return kernels::fold_start(line_, memory, element_);
  }

  const kernels::CompiledPrimitive& line_;
  const kernels::ByValue<TensorView>& values_;
  std::int64_t element_;
  NumberType type_;
};

}  // namespace

Result<std::vector<Running>> fold_numbers(const kernels::CompiledPrimitive& line,
                                          const kernels::ByValue<TensorView>& values, std::int64_t element,
                                          const FoldList& list) {
  const Recomputed fold(line, values, element);
  switch (list.what) {
    case What::kRunning: return fold.running(list);
    case What::kTotals: return fold.totals(list);
    case What::kGroup: return fold.group(list.begin, list.end);
    case What::kBlock:
    case What::kLanes: return fold.positions(list.begin, list.end, fold.zero());
    case What::kItems: return fold.items(list);
    case What::kSum: {
      DGX_TRY(const Number sum, fold.sum_block(list.level - 1, 0));
      return std::vector<Running>{{sum, 0}};
    }
  }
  return internal_error("no such list");
}

bool ends_fold(const kernels::CompiledPrimitive& line, const FoldList& list) {
  switch (list.what) {
    case What::kRunning: return list.end == line.fold_count;
    case What::kTotals: return list.end == ceil_div(line.fold_count, kDotGroupPositions);
    case What::kSum: return true;
    default: return false;
  }
}

}  // namespace dgx::protocol
