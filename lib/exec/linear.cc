#include "linear.h"

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

std::vector<std::int64_t> row_major_strides(const Shape& shape) {
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t stride = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= shape[d];
  }
  return strides;
}

void LoopNest::collapse() {
  Shape kept;
  std::vector<std::vector<std::int64_t>> kept_strides(strides.size());
  for (std::size_t d = 0; d < extents.size(); ++d) {
    if (extents[d] == 1) continue;
    bool joins = !kept.empty();
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
  }
  if (kept.empty()) {
    kept.push_back(1);
    for (auto& s : kept_strides) s.push_back(0);
  }
  extents = std::move(kept);
  strides = std::move(kept_strides);
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
