#include <array>

#include "plan/recognise.h"

namespace dgx::exec {

using kernels::CompiledPrimitive;
using kernels::Kind;
using kernels::ValueIndex;

namespace {

/// Joins all dimensions into one. False if a map does not walk them at a single stride.
bool joins_to_one(LoopNest& nest) {
  nest.collapse();
  return nest.extents.size() == 1;
}

struct IndexClasses {
  LoopNest rows, columns, batch;  ///< maps: a, b, out
};

/// Sorts the iteration's dimensions by the sides that they move: only a makes rows, only b columns, both the
/// batch. False if one moves neither.
bool classify(const CompiledPrimitive& primitive, const LinearAccess& a, const LinearAccess& b,
              IndexClasses& classes) {
  const auto out = row_major_strides(primitive.iteration);
  for (LoopNest* nest : {&classes.rows, &classes.columns, &classes.batch}) nest->strides.resize(3);
  for (std::size_t d = 0; d < primitive.iteration.size(); ++d) {
    if (primitive.iteration[d] == 1) continue;
    const bool in_a = a.iteration[d] != 0;
    const bool in_b = b.iteration[d] != 0;
    if (!in_a && !in_b) return false;
    LoopNest& nest = in_a ? (in_b ? classes.batch : classes.rows) : classes.columns;
    nest.extents.push_back(primitive.iteration[d]);
    nest.strides[0].push_back(a.iteration[d]);
    nest.strides[1].push_back(b.iteration[d]);
    nest.strides[2].push_back(out[d]);
  }
  return true;
}

}  // namespace

Matmul Matmul::transposed() const {
  Matmul t = *this;
  t.a = b;
  t.b = a;
  t.a_base = b_base;
  t.b_base = a_base;
  t.shape = {shape.columns, shape.rows, shape.depth};
  t.a_row = b_column;
  t.a_depth = b_depth;
  t.b_depth = a_depth;
  t.b_column = a_row;
  t.batch.strides = {batch.strides[1], batch.strides[0], batch.strides[2]};
  return t;
}

std::optional<Matmul> recognise_matmul(ValueIndex value, const CompiledPrimitive& primitive,
                                       const std::vector<LinearAccess>& accesses) {
  if (primitive.kind != Kind::kDot || accesses.size() != 2 || primitive.count == 0) return std::nullopt;
  std::array<const LinearAccess*, 2> sides = {&accesses[0], &accesses[1]};
  IndexClasses classes;
  if (!classify(primitive, *sides[0], *sides[1], classes)) return std::nullopt;
  LoopNest fold{primitive.fold, {sides[0]->fold, sides[1]->fold}};
  if (!joins_to_one(classes.rows) || !joins_to_one(classes.columns) || !joins_to_one(fold))
    return std::nullopt;
  classes.batch.collapse();
  // fma(a, b, c) is fma(b, a, c), so the side whose index is innermost in the output can always be the
  // columns.
  const std::int64_t columns = classes.columns.extents[0];
  const std::int64_t rows = classes.rows.extents[0];
  const bool swap =
      columns == 1 ? rows > 1 && classes.rows.strides[2][0] == 1 : classes.columns.strides[2][0] != 1;
  const std::size_t left = swap ? 1 : 0;
  const LoopNest& row = swap ? classes.columns : classes.rows;
  const LoopNest& column = swap ? classes.rows : classes.columns;
  if (column.extents[0] > 1 && column.strides[2][0] != 1) return std::nullopt;
  Matmul product;
  product.out = value;
  product.a = sides[left]->value;
  product.b = sides[1 - left]->value;
  product.a_base = sides[left]->base;
  product.b_base = sides[1 - left]->base;
  product.shape = {row.extents[0], column.extents[0], fold.extents[0]};
  product.a_row = row.strides[left][0];
  product.a_depth = fold.strides[left][0];
  product.b_depth = fold.strides[1 - left][0];
  product.b_column = column.strides[1 - left][0];
  product.out_row = row.extents[0] > 1 ? row.strides[2][0] : column.extents[0];
  product.batch = {classes.batch.extents,
                   {classes.batch.strides[left], classes.batch.strides[1 - left], classes.batch.strides[2]}};
  return product;
}

std::optional<ColumnSum> recognise_column_sum(const program::Program& program, const Matmul& matmul) {
  const auto& one = program.values[matmul.a];
  const bool is_one = one.kind == Kind::kInput && one.source.kind == kernels::Source::Kind::kConstant &&
                      one.source.of == std::vector<std::string>{"0x1p0"};
  const bool single_batch = matmul.batch.extents == Shape{1};
  const bool neighbours = matmul.b_column == 1 || matmul.shape.columns == 1;
  if (!is_one || matmul.shape.rows != 1 || !single_batch || !neighbours) return std::nullopt;
  return ColumnSum{matmul.out,           matmul.b,      matmul.b_base, matmul.shape.depth,
                   matmul.shape.columns, matmul.b_depth};
}

}  // namespace dgx::exec
