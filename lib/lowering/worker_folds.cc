#include "worker_folds.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "dgx/program/line.h"
#include "dgx/program/program.h"
#include "tensor_form.h"

namespace dgx::lowering {

using kernels::Access;
using kernels::Coordinate;
using kernels::Kind;
using kernels::Operand;
using kernels::Primitive;
using kernels::ScalarOp;
using kernels::Step;
using kernels::Term;
using kernels::ValueIndex;

namespace {

bool reads_accumulator(const Step& step) {
  const auto operands = std::span(step.operands).first(static_cast<std::size_t>(arity_of(step.op)));
  return std::ranges::any_of(operands,
                             [](const Operand& o) { return o.kind == Operand::Kind::kAccumulator; });
}

/// Renames the index iM to i(M+1), and lets k0 count from the worker's first position, i0 times `each`.
void move_indices(Coordinate& coordinate, std::int64_t each) {
  std::int64_t of_fold = 0;
  for (Term& term : coordinate.terms) {
    if (term.symbol == Term::Symbol::kIndex) ++term.index;
    if (term.symbol == Term::Symbol::kFold && term.index == 0) of_fold = term.coefficient;
  }
  if (of_fold != 0)
    coordinate.terms.insert(coordinate.terms.begin(), Term{Term::Symbol::kIndex, 0, of_fold * each});
}

void move_indices(std::vector<Step>& steps, std::int64_t each) {
  const auto each_operand = [&](auto f) {
    for (Step& step : steps) {
      for (std::size_t n = 0; n < static_cast<std::size_t>(arity_of(step.op)); ++n) f(step.operands[n]);
    }
  };
  bool reads_position = false;
  each_operand([&](Operand& operand) {
    if (operand.kind == Operand::Kind::kIndex) ++operand.index;
    reads_position = reads_position || operand == Operand::fold(0);
  });
  if (!reads_position) return;
  each_operand([&](Operand& operand) {
    if (operand.kind == Operand::Kind::kStep) operand.index += 2;
    if (operand == Operand::fold(0)) operand = Operand::step(1);
  });
  steps.insert(steps.begin(), {Step{ScalarOp::kMul, {Operand::iteration(0), Operand::literal(each)}},
                               Step{ScalarOp::kAdd, {Operand::fold(0), Operand::step(0)}}});
}

}  // namespace

bool only_adds(const Primitive& line) {
  if (line.kind != Kind::kChain || line.dtype != DType::kF32 || line.steps.empty()) return false;
  if (*line.init != Operand::literal(0.0F) || std::signbit(line.init->real)) return false;
  const Step& last = line.steps.back();
  const auto is_accumulator = [](const Operand& o) { return o.kind == Operand::Kind::kAccumulator; };
  const bool adds =
      last.op == ScalarOp::kAdd && is_accumulator(last.operands[0]) != is_accumulator(last.operands[1]);
  return adds && std::none_of(line.steps.begin(), line.steps.end() - 1, reads_accumulator) &&
         std::ranges::none_of(line.when, reads_accumulator);
}

bool is_within_caps(const Primitive& line) {
  const bool has_few_terms = std::ranges::all_of(line.accesses, [](const Access& access) {
    return access.coordinates.size() <= kMaxRank &&
           std::ranges::all_of(access.coordinates,
                               [](const Coordinate& c) { return c.terms.size() <= program::kMaxTerms; });
  });
  return has_few_terms && line.shape.size() <= kMaxRank && line.iteration_shape().size() <= kMaxRank &&
         line.steps.size() <= program::kMaxSteps && line.when.size() <= program::kMaxSteps &&
         program::print_line(line, ValueIndex{program::kMaxLines - 1}).size() <= program::kMaxLineBytes;
}

std::optional<Primitive> folds_of_workers(const Primitive& line, std::int64_t workers) {
  if (line.kind != Kind::kDot && !only_adds(line)) return std::nullopt;
  Primitive out = line;
  const std::int64_t each = line.fold[0] / workers;
  out.shape.insert(out.shape.begin(), workers);
  if (out.iteration) out.iteration->insert(out.iteration->begin(), workers);
  out.fold[0] = each;
  for (Access& access : out.accesses) {
    for (Coordinate& coordinate : access.coordinates) move_indices(coordinate, each);
  }
  move_indices(out.steps, each);
  move_indices(out.when, each);
  return is_within_caps(out) ? std::optional(std::move(out)) : std::nullopt;
}

Primitive constant_one() {
  Primitive one;
  one.kind = Kind::kInput;
  one.dtype = DType::kF32;
  one.shape = {1};
  one.source = {kernels::Source::Kind::kConstant, "", {"0x1p0"}};
  return one;
}

Primitive sum_of_rows(ValueIndex one, ValueIndex rows, std::int64_t workers, const Shape& shape) {
  Primitive sum;
  sum.kind = Kind::kDot;
  sum.dtype = DType::kF32;
  sum.shape = shape;
  sum.fold = {workers};
  Access all{rows, std::nullopt, {fold_index(0)}, std::nullopt};
  for (std::size_t n = 0; n < shape.size(); ++n) all.coordinates.push_back(output_index(n));
  sum.accesses = {{one, std::nullopt, {constant_index(0)}, std::nullopt}, std::move(all)};
  return sum;
}

}  // namespace dgx::lowering
