#include "device/device_operations.h"

#include <algorithm>

#include "device/device_dots.h"
#include "plan/recognise.h"

namespace dgx::exec {

using kernels::CompiledAccess;
using kernels::CompiledPrimitive;
using kernels::CompiledTerm;
using kernels::Kind;
using kernels::ValueIndex;

namespace {

constexpr std::int64_t kLanes = kernels::kSumLanes;

/// The slot of the innermost dimension of extent above 1, where the shape's slots begin with `first`;
/// `first` - 1 if there is none.
std::int32_t inner_slot(const Shape& shape, std::int32_t first) {
  std::size_t inner = shape.size();
  while (inner > 0 && shape[inner - 1] == 1) --inner;
  return first + static_cast<std::int32_t>(inner) - 1;
}

/// Elements of a linear access between neighbours along a slot's dimension.
std::int64_t stride_of(const CompiledAccess& access, std::int32_t slot) {
  std::int64_t sum = 0;
  for (const CompiledTerm& term : access.linear) sum += term.slot == slot ? term.coefficient : 0;
  return sum;
}

/// True if a fold has so many positions that groups of 32 threads pay: its operands are neighbours along the
/// fold, or its outputs are too few to keep all threads busy, or take one thread too long.
bool folds_by_teams(const CompiledPrimitive& primitive) {
  constexpr std::int64_t kShort = 32;
  constexpr std::int64_t kManyOutputs = 1 << 15;
  const bool is_fold =
      primitive.kind == Kind::kSum || primitive.kind == Kind::kMax || primitive.kind == Kind::kArgmax;
  if (!is_fold || primitive.fold_count < kShort || primitive.count == 0) return false;
  if (primitive.count < kManyOutputs || primitive.fold_count > kernels::kSumBlock) return true;
  const std::int32_t slot = inner_slot(primitive.fold, kernels::kFirstFoldSlot);
  return std::all_of(primitive.accesses.begin(), primitive.accesses.end(), [&](const CompiledAccess& access) {
    return access.is_linear &&
           std::all_of(access.linear.begin(), access.linear.end(), [&](const CompiledTerm& term) {
             return term.slot != slot || (term.coefficient >= 0 && term.coefficient <= 1);
           });
  });
}

/// True if the operands of neighbouring outputs, not positions, are neighbours in memory, and there are
/// enough outputs for a group of 32 threads.
bool is_across(const CompiledPrimitive& primitive) {
  const std::int32_t position = inner_slot(primitive.fold, kernels::kFirstFoldSlot),
                     output = inner_slot(primitive.iteration, 0);
  bool along = false, across = false;
  for (const CompiledAccess& access : primitive.accesses) {
    if (!access.is_linear) return false;
    along = along || stride_of(access, position) == 1;
    across = across || stride_of(access, output) == 1;
  }
  return across && !along && primitive.count >= kLanes;
}

std::optional<KeyedChain> recognise_keyed_chain(ValueIndex value, const CompiledPrimitive& primitive,
                                                const std::vector<StripAccess>& accesses) {
  if (primitive.kind != Kind::kChain || primitive.dtype == DType::kU8 || primitive.count == 0 ||
      primitive.fold_count == 0 || primitive.fold_count > 0x7fffffff)
    return std::nullopt;
  auto key = recognise_key(primitive, accesses);
  const bool is_shared = key && key->stride % kLanes == 0 && primitive.count % kLanes == 0;
  if (!is_shared) return std::nullopt;
  // The kernel knows one set.
  const auto& of_sets = key->sets.strides[0];
  if (std::ranges::any_of(of_sets, [](auto stride) { return stride != 0; })) return std::nullopt;
  return KeyedChain{value, std::move(*key)};
}

}  // namespace

std::int64_t TeamFold::scratch_bytes() const {
  std::int64_t parts = 0;
  for (std::int64_t items = parts_of(length); items > 1; items = parts_of(items)) parts += count * items;
  return parts * 16;
}

DeviceOperation recognise_on_device(ValueIndex value, const CompiledPrimitive& primitive,
                                    const std::optional<std::vector<StripAccess>>& accesses) {
  if (auto dot = recognise_tiled_dot(value, primitive)) return *dot;
  if (folds_by_teams(primitive))
    return TeamFold{value, primitive.count, primitive.fold_count, is_across(primitive)};
  if (auto chain = accesses ? recognise_keyed_chain(value, primitive, *accesses) : std::nullopt)
    return *chain;
  return Generic{value, primitive.count};
}

}  // namespace dgx::exec
