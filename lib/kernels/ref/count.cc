#include <fmt/format.h>

#include "dgx/core/checked.h"
#include "dgx/kernels/evaluate.h"
#include "dgx/kernels/fold_order.h"

namespace dgx::kernels {
namespace {

constexpr std::int64_t kSumCombines = kSumLanes - 1;

// Counts operations, `times` of an operation per element; remembers if a count did not fit.
class Tally {
 public:
  explicit Tally(std::int64_t elements) : elements_(elements) {}

  void add(ScalarOp op, std::int64_t times) {
    std::int64_t& count = counts_.by_op[static_cast<std::size_t>(op)];
    const auto product = checked_mul(times, elements_);
    const auto sum = product ? checked_add(count, *product) : std::nullopt;
    const auto total = product ? checked_add(total_, *product) : std::nullopt;
    if (!sum || !total) {
      overflowed_ = true;
      return;
    }
    count = *sum;
    total_ = *total;
  }
  void add(const std::vector<Step>& steps, std::int64_t times) {
    for (const Step& step : steps) add(step.op, times);
  }
  [[nodiscard]] Result<OperationCounts> finish() const {
    if (overflowed_) return malformed("more than 2^63 operations");
    return counts_;
  }

 private:
  std::int64_t elements_;
  std::int64_t total_ = 0;
  OperationCounts counts_;
  bool overflowed_ = false;
};

void count_sum(Tally& tally, std::int64_t items) {
  while (true) {
    const std::int64_t blocks = ceil_div(items, kSumBlock);
    tally.add(ScalarOp::kAdd, items);
    tally.add(ScalarOp::kAdd, kSumCombines * blocks);
    if (blocks <= 1) return;
    items = blocks;
  }
}

// A max over integers adds no +0. The type of an argmax's terms is not known here: they count as floats.
bool gives_integer(const Primitive& primitive) {
  return primitive.kind == Kind::kMax && primitive.dtype != DType::kF32;
}

}  // namespace

std::int64_t OperationCounts::total() const {
  std::int64_t sum = 0;
  for (const std::int64_t count : by_op) sum += count;
  return sum;
}

Result<OperationCounts> count_operations(const Primitive& primitive) {
  if (primitive.kind == Kind::kInput) return OperationCounts{};
  DGX_TRY(const std::int64_t elements, element_count(primitive.shape));
  DGX_TRY(const std::int64_t positions, element_count(primitive.fold));
  Tally tally(elements);
  tally.add(primitive.when, positions);
  tally.add(primitive.steps, positions);
  switch (primitive.kind) {
    case Kind::kDot:
      tally.add(ScalarOp::kFma, positions);
      tally.add(ScalarOp::kAdd, ceil_div(positions, kDotBlock));
      tally.add(ScalarOp::kAdd, ceil_div(positions, kDotGroupPositions));
      break;
    case Kind::kSum: count_sum(tally, positions); break;
    case Kind::kMax:
    case Kind::kArgmax:
      if (!gives_integer(primitive)) tally.add(ScalarOp::kAdd, positions);
      tally.add(primitive.kind == Kind::kMax ? ScalarOp::kMax : ScalarOp::kGt, positions);
      break;
    default: break;
  }
  return tally.finish();
}

}  // namespace dgx::kernels
