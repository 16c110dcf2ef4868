#include "plan/linear.h"

#include <algorithm>
#include <utility>

namespace dgx::exec {

std::optional<std::vector<LinearAccess>> linear_accesses(const kernels::CompiledPrimitive& primitive) {
  std::vector<LinearAccess> out;
  for (const kernels::CompiledAccess& access : primitive.accesses) {
    if (!access.is_linear) return std::nullopt;
    LinearAccess linear{access.value, access.offset, std::vector<std::int64_t>(primitive.iteration.size()),
                        std::vector<std::int64_t>(primitive.fold.size())};
    for (const kernels::CompiledTerm& term : access.linear) {
      if (term.slot < kernels::kFirstFoldSlot) {
        linear.iteration[static_cast<std::size_t>(term.slot)] += term.coefficient;
      } else {
        linear.fold[static_cast<std::size_t>(term.slot - kernels::kFirstFoldSlot)] += term.coefficient;
      }
    }
    out.push_back(std::move(linear));
  }
  return out;
}

namespace {

/// The least and the greatest value of a coordinate before its division, without the terms that take an index
/// from a value; nullopt if one is beyond ±2^40.
std::optional<std::pair<std::int64_t, std::int64_t>> range_of(const kernels::CompiledPrimitive& primitive,
                                                              const kernels::CompiledCoordinate& coordinate) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  const auto is_small = [](std::int64_t number) { return number >= -kMost && number <= kMost; };
  std::int64_t least = coordinate.constant;
  std::int64_t most = coordinate.constant;
  for (const kernels::CompiledTerm& term : coordinate.terms) {
    if (term.access >= 0) continue;
    const bool is_fold = term.slot >= kernels::kFirstFoldSlot;
    const auto d = static_cast<std::size_t>(is_fold ? term.slot - kernels::kFirstFoldSlot : term.slot);
    const std::int64_t reach = (is_fold ? primitive.fold : primitive.iteration)[d] - 1;
    std::int64_t product = 0;
    if (!is_small(term.coefficient) || __builtin_mul_overflow(term.coefficient, reach, &product) ||
        !is_small(product))
      return {};
    (product < 0 ? least : most) += product;
  }
  if (!is_small(least) || !is_small(most)) return {};
  return std::pair{least, most};
}

}  // namespace

std::optional<std::vector<StripAccess>> strip_accesses(const kernels::CompiledPrimitive& primitive) {
  if (std::max(primitive.iteration.size(), primitive.fold.size()) > kMaxRank) return std::nullopt;
  std::vector<StripAccess> out;
  for (const kernels::CompiledAccess& access : primitive.accesses) {
    StripAccess strip{{access.value, 0, std::vector<std::int64_t>(primitive.iteration.size()),
                       std::vector<std::int64_t>(primitive.fold.size())},
                      {},
                      access.fill};
    for (const kernels::CompiledCoordinate& coordinate : access.coordinates) {
      const auto range = range_of(primitive, coordinate);
      if (!range) return std::nullopt;
      const bool reads = std::any_of(coordinate.terms.begin(), coordinate.terms.end(),
                                     [](const auto& t) { return t.access >= 0; });
      if (reads || coordinate.divisor != 1 || range->first < 0 || range->second >= coordinate.size) {
        strip.guarded.push_back(coordinate);
        continue;
      }
      strip.plain.base += coordinate.constant * coordinate.stride;
      for (const kernels::CompiledTerm& term : coordinate.terms) {
        const bool is_fold = term.slot >= kernels::kFirstFoldSlot;
        auto& strides = is_fold ? strip.plain.fold : strip.plain.iteration;
        strides[static_cast<std::size_t>(is_fold ? term.slot - kernels::kFirstFoldSlot : term.slot)] +=
            term.coefficient * coordinate.stride;
      }
    }
    if (strip.guarded.size() > kMaxRank) return std::nullopt;
    out.push_back(std::move(strip));
  }
  return out;
}

std::vector<std::int64_t> row_major_strides(const Shape& shape) {
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t stride = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= shape[d];
  }
  return strides;
}

std::vector<std::size_t> LoopNest::collapse(const std::vector<bool>& fixed) {
  const auto is_fixed = [&](std::size_t d) { return d < fixed.size() && fixed[d]; };
  Shape kept;
  std::vector<std::vector<std::int64_t>> kept_strides(strides.size());
  std::vector<std::size_t> place(extents.size());
  bool last_fixed = false;
  for (std::size_t d = 0; d < extents.size(); ++d) {
    if (extents[d] == 1 && !is_fixed(d)) continue;
    bool joins = !kept.empty() && !last_fixed && !is_fixed(d);
    for (std::size_t m = 0; m < strides.size() && joins; ++m) {
      joins = kept_strides[m].back() == strides[m][d] * extents[d];
    }
    if (joins) {
      kept.back() *= extents[d];
      for (std::size_t m = 0; m < strides.size(); ++m) kept_strides[m].back() = strides[m][d];
    } else {
      kept.push_back(extents[d]);
      for (std::size_t m = 0; m < strides.size(); ++m) kept_strides[m].push_back(strides[m][d]);
    }
    place[d] = kept.size() - 1;
    last_fixed = is_fixed(d);
  }
  if (kept.empty()) {
    kept.push_back(1);
    for (auto& s : kept_strides) s.push_back(0);
  }
  extents = std::move(kept);
  strides = std::move(kept_strides);
  return place;
}

std::int64_t LoopNest::rows() const {
  std::int64_t rows = 1;
  for (std::size_t d = 0; d + 1 < extents.size(); ++d) rows *= extents[d];
  return rows;
}

std::int64_t LoopNest::row_offset(std::size_t map, std::int64_t row) const {
  if (extents.size() == 1) return 0;
  if (extents.size() == 2) return row * strides[map][0];
  std::int64_t offset = 0;
  for (std::size_t d = extents.size() - 1; d-- > 0;) {
    offset += row % extents[d] * strides[map][d];
    row /= extents[d];
  }
  return offset;
}

std::int64_t LoopNest::row_index(std::size_t dimension, std::int64_t row) const {
  for (std::size_t d = extents.size() - 2; d > dimension; --d) row /= extents[d];
  return row % extents[dimension];
}

}  // namespace dgx::exec
