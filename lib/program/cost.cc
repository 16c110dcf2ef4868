#include "dgx/program/cost.h"

#include <algorithm>

#include "dgx/core/checked.h"
#include "dgx/kernels/evaluate.h"

namespace dgx::program {

using kernels::Kind;
using kernels::Primitive;
using kernels::ValueIndex;

namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 62;

std::int64_t plus(std::int64_t a, std::int64_t b) {
  return std::min(checked_add(a, b).value_or(kMost), kMost);
}
std::int64_t times(std::int64_t a, std::int64_t b) {
  return std::min(checked_mul(a, b).value_or(kMost), kMost);
}

std::int64_t count_of(const Shape& shape) {
  auto count = element_count(shape);
  return count ? *count : kMost;
}

bool is_constant(const kernels::Access& access) {
  return std::all_of(access.coordinates.begin(), access.coordinates.end(),
                     [](const auto& c) { return c.terms.empty(); });
}

}  // namespace

std::string_view name_of(WorkRole role) {
  switch (role) {
    case WorkRole::kInput: return "input";
    case WorkRole::kMatrixProduct: return "matrix product";
    case WorkRole::kColumnSum: return "column sum";
    case WorkRole::kReduction: return "reduction";
    case WorkRole::kChain: return "chain";
    case WorkRole::kMap: return "map";
    case WorkRole::kCopy: return "copy";
  }
  return {};
}

WorkRole role_of(const Primitive& primitive) {
  switch (primitive.kind) {
    case Kind::kInput: return WorkRole::kInput;
    case Kind::kMap: return primitive.steps.empty() ? WorkRole::kCopy : WorkRole::kMap;
    case Kind::kChain: return WorkRole::kChain;
    case Kind::kDot:
      return std::any_of(primitive.accesses.begin(), primitive.accesses.end(), is_constant)
                 ? WorkRole::kColumnSum
                 : WorkRole::kMatrixProduct;
    default: return WorkRole::kReduction;
  }
}

Cost cost_of(const Program& program) {
  Cost cost;
  for (const ValueIndex value : program.values.indices()) {
    const Primitive& primitive = program.values[value];
    const WorkRole role = role_of(primitive);
    const std::int64_t elements = count_of(primitive.shape);
    const std::int64_t bytes = times(elements, static_cast<std::int64_t>(size_of(primitive.dtype)));
    cost.value_bytes = plus(cost.value_bytes, bytes);
    if (primitive.kind == Kind::kInput && primitive.source.kind == kernels::Source::Kind::kState) {
      cost.state_bytes = plus(cost.state_bytes, bytes);
      if (primitive.next == value) cost.constant_bytes = plus(cost.constant_bytes, bytes);
    }
    if (role == WorkRole::kMatrixProduct) {
      cost.matrix_product_flop =
          plus(cost.matrix_product_flop, times(2, times(elements, count_of(primitive.fold))));
    }
    const auto counts = kernels::count_operations(primitive);
    for (std::size_t op = 0; op < cost.operations.size(); ++op) {
      const std::int64_t count = counts ? counts->by_op[op] : kMost;
      cost.operations[op] = plus(cost.operations[op], count);
      cost.by_role[static_cast<std::size_t>(role)] =
          plus(cost.by_role[static_cast<std::size_t>(role)], count);
      cost.total_operations = plus(cost.total_operations, count);
    }
  }
  return cost;
}

}  // namespace dgx::program
