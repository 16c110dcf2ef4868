// Run as a map, a concatenation pays for every piece at every element: each access is read with its bounds
// checked, and all but one are thrown away. Run piece by piece, every element is one copy.
#include "plan/concatenation.h"

#include <algorithm>
#include <set>

namespace dgx::exec {

using kernels::Operand;
using kernels::Primitive;
using kernels::ScalarOp;
using kernels::Step;
using kernels::Term;
using kernels::ValueIndex;

namespace {

constexpr std::int64_t kShortestRun = 64;  // contiguous elements of a piece
constexpr std::size_t kMostPieces = 64;

/// The dimension D of a step `lt iD c`, or nullopt.
std::optional<std::int32_t> compared_index(const Step& step) {
  const bool compares = step.op == ScalarOp::kLt && step.operands[0].kind == Operand::Kind::kIndex &&
                        step.operands[1].kind == Operand::Kind::kInteger;
  return compares ? std::optional(step.operands[0].index) : std::nullopt;
}

/// The access that the steps select where the compared index is `at`; nullopt if they do anything else.
std::optional<std::size_t> access_at(const std::vector<Step>& steps, std::int64_t at) {
  Operand result = Operand::step(static_cast<int>(steps.size()) - 1);
  while (result.kind == Operand::Kind::kStep) {
    const Step& select = steps[static_cast<std::size_t>(result.index)];
    if (select.op != ScalarOp::kSelect || select.operands[0].kind != Operand::Kind::kStep)
      return std::nullopt;
    const Step& condition = steps[static_cast<std::size_t>(select.operands[0].index)];
    if (!compared_index(condition)) return std::nullopt;
    // Ends, since the operands of a step are earlier steps.
    result = select.operands[at < condition.operands[1].integer ? 1 : 2];
  }
  return result.kind == Operand::Kind::kAccess ? std::optional(static_cast<std::size_t>(result.index))
                                               : std::nullopt;
}

/// True if the access takes an index from a value.
bool reads_numbers(const kernels::Access& access) {
  return std::any_of(access.coordinates.begin(), access.coordinates.end(), [](const auto& coordinate) {
    return std::any_of(coordinate.terms.begin(), coordinate.terms.end(),
                       [](const Term& t) { return t.symbol == Term::Symbol::kAccess; });
  });
}

}  // namespace

std::optional<ConcatenationForm> concatenation_of(const Primitive& line) {
  if (line.kind != kernels::Kind::kMap || line.steps.size() < 2) return std::nullopt;
  std::optional<std::int32_t> dimension;
  std::set<std::int64_t> bounds;
  for (const Step& step : line.steps) {
    const auto index = compared_index(step);
    if (!index && step.op == ScalarOp::kSelect) continue;
    if (!index || (dimension && *dimension != *index)) return std::nullopt;
    dimension = index;
    bounds.insert(step.operands[1].integer);
  }
  if (!dimension || std::any_of(line.accesses.begin(), line.accesses.end(), reads_numbers))
    return std::nullopt;
  ConcatenationForm whole{static_cast<std::size_t>(*dimension), {}};
  const std::int64_t extent = line.iteration_shape()[whole.dimension];
  bounds.insert(extent);
  for (std::int64_t begin = 0; const std::int64_t bound : bounds) {
    if (bound <= begin || begin >= extent) continue;
    const auto access = access_at(line.steps, begin);
    if (!access || whole.pieces.size() == kMostPieces) return std::nullopt;
    whole.pieces.push_back({begin, std::min(bound, extent), *access});
    begin = bound;
  }
  return whole;
}

Primitive line_of_piece(const Primitive& line, const ConcatenationForm& whole,
                        const ConcatenationForm::Piece& piece) {
  Primitive copy;
  copy.dtype = line.dtype;
  copy.shape = line.iteration_shape();
  copy.shape[whole.dimension] = piece.end - piece.begin;
  copy.accesses = {line.accesses[piece.access]};
  copy.accesses[0].fill.reset();
  for (kernels::Coordinate& coordinate : copy.accesses[0].coordinates) {
    for (const Term& term : coordinate.terms) {
      const bool along =
          term.symbol == Term::Symbol::kIndex && static_cast<std::size_t>(term.index) == whole.dimension;
      if (along) coordinate.constant += term.coefficient * piece.begin;
    }
  }
  return copy;
}

std::optional<Concatenation> recognise_concatenation(ValueIndex value, const Primitive& line,
                                                     const kernels::ByValue<kernels::ValueType>& types) {
  const auto whole = concatenation_of(line);
  if (!whole) return std::nullopt;
  Concatenation copies{value, line.dtype, {}};
  const auto strides = row_major_strides(line.iteration_shape());
  const std::int64_t row = strides[whole->dimension];
  for (const ConcatenationForm::Piece& piece : whole->pieces) {
    if ((piece.end - piece.begin) * row < kShortestRun) return std::nullopt;
    const auto compiled = kernels::compile(line_of_piece(line, *whole, piece), types);
    if (!compiled.ok() || compiled->accesses[0].dtype != line.dtype) return std::nullopt;
    const auto accesses = linear_accesses(*compiled);
    if (!accesses) return std::nullopt;
    const LinearAccess& from = accesses->front();
    LoopNest nest{compiled->iteration, {from.iteration, strides}};
    nest.collapse();
    copies.pieces.push_back({from.value, from.base, piece.begin * row, std::move(nest)});
  }
  return copies;
}

}  // namespace dgx::exec
