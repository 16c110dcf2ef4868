#include "rewrite/gather_operands.h"

#include <algorithm>
#include <set>
#include <vector>

#include "dgx/core/tensor.h"

namespace dgx::exec {

using kernels::Access;
using kernels::Coordinate;
using kernels::Kind;
using kernels::Operand;
using kernels::Primitive;
using kernels::Step;
using kernels::Term;
using kernels::ValueIndex;

namespace {

/// The iteration's indices that an access reads; nullopt if it reads what another access gives.
std::optional<std::vector<std::int32_t>> indices_of(const Access& access) {
  std::set<std::int32_t> indices;
  for (const Coordinate& coordinate : access.coordinates) {
    for (const Term& term : coordinate.terms) {
      if (term.symbol == Term::Symbol::kAccess) return std::nullopt;
      if (term.symbol == Term::Symbol::kIndex) indices.insert(term.index);
    }
  }
  return std::vector<std::int32_t>(indices.begin(), indices.end());
}

/// All that an access reads: by position of the fold, then by its indices. Times 1, since a copy would be
/// read through.
Primitive operand_of(const Primitive& dot, const Access& access, const std::vector<std::int32_t>& indices) {
  Primitive line;
  line.provenance = dot.provenance;
  line.shape = dot.fold;
  for (const std::int32_t index : indices)
    line.shape.push_back(dot.iteration_shape()[static_cast<std::size_t>(index)]);
  line.accesses = {access};
  const auto folds = static_cast<std::int32_t>(dot.fold.size());
  for (Coordinate& coordinate : line.accesses.front().coordinates) {
    for (Term& term : coordinate.terms) {
      if (term.symbol == Term::Symbol::kIndex)
        term.index =
            folds + static_cast<std::int32_t>(std::ranges::find(indices, term.index) - indices.begin());
      term.symbol = Term::Symbol::kIndex;
    }
    std::ranges::sort(coordinate.terms, {}, &Term::index);
  }
  line.steps = {Step{kernels::ScalarOp::kMul, {Operand::access(0), Operand::literal(1.0F)}}};
  return line;
}

/// The access by which the dot reads such an operand.
Access read_operand(ValueIndex operand, std::size_t folds, const std::vector<std::int32_t>& indices) {
  Access access;
  access.value = operand;
  for (std::size_t n = 0; n < folds; ++n)
    access.coordinates.push_back({{Term{Term::Symbol::kFold, static_cast<std::int32_t>(n), 1}}});
  for (const std::int32_t index : indices)
    access.coordinates.push_back({{Term{Term::Symbol::kIndex, index, 1}}});
  return access;
}

}  // namespace

std::optional<GatheredDot> gather_operands(const Primitive& dot, ValueIndex at) {
  if (dot.kind != Kind::kDot || dot.accesses.size() != 2) return std::nullopt;
  const auto left = indices_of(dot.accesses[0]), right = indices_of(dot.accesses[1]);
  if (!left || !right) return std::nullopt;
  const bool apart = std::ranges::none_of(
      *left, [&](std::int32_t index) { return std::ranges::find(*right, index) != right->end(); });
  if (!apart || dot.fold.size() + std::max(left->size(), right->size()) > kMaxRank) return std::nullopt;
  GatheredDot gathered{operand_of(dot, dot.accesses[0], *left), operand_of(dot, dot.accesses[1], *right),
                       dot};
  const auto next = static_cast<ValueIndex>(to_number(at) + 1);
  gathered.dot.accesses = {read_operand(at, dot.fold.size(), *left),
                           read_operand(next, dot.fold.size(), *right)};
  return gathered;
}

}  // namespace dgx::exec
