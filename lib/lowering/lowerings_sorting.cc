#include <fmt/format.h>

#include "pointwise.h"

namespace dgx::lowering {

using kernels::Kind;
using kernels::ScalarOp;

namespace {

/// Most elements of a row: each is compared with every other.
constexpr std::int64_t kMaxSorted = 1024;

enum class Order { kAscending, kDescending };

/// A sorted dimension: its elements, and their indices before sorting.
struct Sorting {
  TensorForm values, indices;
};

/// For each element, the number of elements of its row that come before it: those that are less (greater, if
/// descending), and earlier ones that are equal.
TensorForm ranks(Call& call, const TensorForm& form, std::size_t dimension, Order order) {
  LineWriter line(call.builder(), call.provenance(), Kind::kSum, form.shape, {form.shape[dimension]});
  auto at = output_indices(form.shape.size());
  const Expression own = line.read(form, at);
  at[dimension] = fold_index(0);
  const Expression other = line.read(form, at);
  const Expression before = compare(order == Order::kAscending ? ScalarOp::kLt : ScalarOp::kGt, other, own);
  const Expression tie = step(ScalarOp::kAnd, {compare(ScalarOp::kEq, other, own),
                                               compare(ScalarOp::kLt, line.fold(0), line.index(dimension))});
  return line.finish(DType::kI64, step(ScalarOp::kOr, {before, tie}));
}

/// The `count` elements of a dimension from rank `first` on.
Sorting sorted(Call& call, const TensorForm& self, std::size_t dimension, Order order, std::int64_t first,
               std::int64_t count) {
  const std::int64_t size = self.shape[dimension];
  if (!call.require(size <= kMaxSorted, fmt::format("{} numbers, at most {}", size, kMaxSorted)) ||
      !call.require(first >= 0 && count >= 1 && first + count <= size, "ranks outside"))
    return {self, self};
  const TensorForm form = pickable(call.builder(), call.provenance(), self);
  const TensorForm rank = ranks(call, form, dimension, order);
  Shape shape = form.shape;
  shape[dimension] = count;
  auto at = output_indices(shape.size());
  at[dimension] = fold_index(0);
  LineWriter inverse(call.builder(), call.provenance(), Kind::kChain, shape, {size});
  const Expression wanted = first == 0 ? inverse.index(dimension) : inverse.index(dimension) + first;
  const Expression here = compare(ScalarOp::kEq, inverse.read(rank, at), wanted);
  Sorting result;
  result.indices = inverse.finish_chain(DType::kI64, inverse.fold(0), here, Expression(std::int64_t{0}));
  LineWriter line(call.builder(), call.provenance(), shape);
  at[dimension] = picked_index(line.read(result.indices));
  result.values = line.finish(form.dtype, line.pick(form, at));
  return result;
}

void give_sorted(Call& call, const Sorting& sorting) {
  call.give(sorting.values, 0);
  call.give(sorting.indices, 1);
}

Order order_of(bool descending) { return descending ? Order::kDescending : Order::kAscending; }

/// Gives one rank of a dimension.
void one_of(Call& call, std::int64_t rank, std::size_t dimension) {
  give_sorted(call, sorted(call, call.tensor("self"), dimension, Order::kAscending, rank, 1));
}

void sort(Call& call) {
  const TensorForm self = call.tensor("self");
  if (!call.ok() || !call.require(!self.shape.empty(), "a scalar")) return;
  const std::size_t dimension = call.wrap(call.integer("dim", -1), self.shape.size());
  if (!call.ok()) return;
  give_sorted(call, sorted(call, self, dimension, order_of(call.boolean("descending", false)), 0,
                           self.shape[dimension]));
}

void topk(Call& call) {
  const TensorForm self = call.tensor("self");
  if (!call.ok() || !call.require(!self.shape.empty(), "a scalar")) return;
  const std::size_t dimension = call.wrap(call.integer("dim", -1), self.shape.size());
  if (!call.ok()) return;
  give_sorted(call,
              sorted(call, self, dimension, order_of(call.boolean("largest", true)), 0, call.integer("k")));
}

void kthvalue(Call& call) {
  const TensorForm self = call.tensor("self");
  if (!call.ok() || !call.require(!self.shape.empty(), "a scalar")) return;
  one_of(call, call.integer("k") - 1, call.wrap(call.integer("dim", -1), self.shape.size()));
}

/// The middle element, or the lower of two.
void median(Call& call) {
  TensorForm self = call.tensor("self");
  if (!call.ok()) return;
  if (call.given("dim") && !self.shape.empty()) {
    const std::size_t dimension = call.dimension("dim", self.shape.size());
    if (call.ok()) one_of(call, (self.shape[dimension] - 1) / 2, dimension);
    return;
  }
  const std::int64_t count = *element_count(self.shape);
  self = reshaped(call.builder(), call.provenance(), self, {count});
  call.give(sorted(call, self, 0, Order::kAscending, (count - 1) / 2, 1).values);
}

/// Order by comparing all elements with all.
constexpr LoweringRow kRows[] = {
    {"sort", &sort},
    {"topk", &topk},
    {"kthvalue", &kthvalue},
    {"median", &median},
};

}  // namespace

const std::span<const LoweringRow> kSortingRows = kRows;

}  // namespace dgx::lowering
