#include "piece_lines.h"

#include <utility>

namespace dgx::program {

using kernels::Access;
using kernels::Coordinate;
using kernels::Operand;
using kernels::Primitive;
using kernels::Step;
using kernels::Term;
using kernels::ValueIndex;

namespace {

/// Calls f(operand) for every operand of the list's steps.
template <class Steps, class F>
void each_operand(Steps& steps, F f) {
  for (auto& step : steps) {
    for (std::size_t n = 0; n < static_cast<std::size_t>(arity_of(step.op)); ++n) f(step.operands[n]);
  }
}

/// Adds `by` to the first index of the kind wherever the coordinate has it.
void shift(Coordinate& coordinate, Term::Symbol symbol, std::int64_t by) {
  for (const Term& term : coordinate.terms) {
    // Within 2^53: with this index at `by` and all others at 0, the sum is one that the whole line has.
    if (term.symbol == symbol && term.index == 0) coordinate.constant += term.coefficient * by;
  }
}

/// Adds `by` to the number that the steps know as the first index of the kind.
void shift(std::vector<Step>& steps, Operand::Kind kind, std::int64_t by) {
  bool found = false;
  const auto is_first = [&](const Operand& operand) { return operand.kind == kind && operand.index == 0; };
  each_operand(steps, [&](const Operand& operand) { found = found || is_first(operand); });
  if (!found) return;
  each_operand(steps, [&](Operand& operand) {
    if (operand.kind == Operand::Kind::kStep) ++operand.index;
    if (is_first(operand)) operand = Operand::step(0);
  });
  const Operand index{kind, 0, 0, 0};
  steps.insert(steps.begin(), Step{kernels::ScalarOp::kAdd, {index, Operand::literal(by)}});
}

/// Calls f(N) for every access N that the line's steps, init and, without steps, the copy of access 0 read.
template <class Line, class F>
void each_read(Line& line, F f) {
  const auto of_operand = [&](auto& operand) {
    if (operand.kind == Operand::Kind::kAccess) f(operand.index);
  };
  each_operand(line.steps, of_operand);
  each_operand(line.when, of_operand);
  if (line.init) of_operand(*line.init);
}

/// Calls f(N) for every $N in the access.
template <class A, class F>
void each_named(A& access, F f) {
  for (auto& coordinate : access.coordinates) {
    for (auto& term : coordinate.terms) {
      if (term.symbol == Term::Symbol::kAccess) f(term.index);
    }
  }
}

/// The accesses on which the line's result depends.
std::vector<bool> used_accesses(const Primitive& line) {
  std::vector<bool> used(line.accesses.size(), false);
  const auto use = [&](std::int32_t n) {
    used[static_cast<std::size_t>(n)] = true;
    each_named(line.accesses[static_cast<std::size_t>(n)],
               [&](std::int32_t named) { used[static_cast<std::size_t>(named)] = true; });
  };
  if (line.steps.empty() && !line.accesses.empty()) use(0);
  each_read(line, use);
  return used;
}

void leave_out_unused(Primitive& line) {
  const std::vector<bool> used = used_accesses(line);
  std::vector<std::int32_t> number;
  std::vector<Access> kept;
  for (std::size_t n = 0; n < used.size(); ++n) {
    number.push_back(static_cast<std::int32_t>(kept.size()));
    if (used[n]) kept.push_back(std::move(line.accesses[n]));
  }
  line.accesses = std::move(kept);
  const auto renumber = [&](std::int32_t& n) { n = number[static_cast<std::size_t>(n)]; };
  each_read(line, renumber);
  for (Access& access : line.accesses) each_named(access, renumber);
}

}  // namespace

Primitive cut_line(const Primitive& line, SampleClass of, const Cut& cut,
                   const std::vector<Reading>& readings) {
  Primitive local = line;
  for (std::size_t n = 0; n < readings.size(); ++n) local.accesses[n].value = readings[n].value;
  if (of == SampleClass::kWhole) return local;
  const bool carried = of == SampleClass::kCarried;
  const Term::Symbol symbol = carried ? Term::Symbol::kFold : Term::Symbol::kIndex;
  const std::int64_t first = cut.first(carried ? line.fold[0] : line.iteration_shape()[0]);
  const auto shorten = [&](Shape& shape) { shape[0] = cut.share(shape[0]); };
  if (carried) {
    shorten(local.fold);
  } else {
    shorten(local.shape);
    if (local.iteration) shorten(*local.iteration);
  }
  for (std::size_t n = 0; n < readings.size(); ++n) {
    Access& access = local.accesses[n];
    const bool stays = readings[n].stays;
    if (stays && access.view) shorten(*access.view);
    for (std::size_t d = stays ? 1 : 0; d < access.coordinates.size(); ++d)
      shift(access.coordinates[d], symbol, first);
  }
  if (first == 0) return local;
  const Operand::Kind number = carried ? Operand::Kind::kFold : Operand::Kind::kIndex;
  shift(local.steps, number, first);
  shift(local.when, number, first);
  return local;
}

void begin_at(Primitive& chain, ValueIndex carry) {
  Access from{carry, chain.iteration, {}, std::nullopt};
  for (std::size_t n = 0; n < chain.iteration_shape().size(); ++n)
    from.coordinates.push_back({{Term{Term::Symbol::kIndex, static_cast<std::int32_t>(n), 1}}});
  if (chain.iteration && chain.iteration->empty()) {  // no text can write such a view
    from.view.reset();
    from.coordinates.resize(chain.shape.size());
  }
  const Operand old = *std::exchange(chain.init, std::nullopt);
  const bool replaces =
      old.kind == Operand::Kind::kAccess && !used_accesses(chain)[static_cast<std::size_t>(old.index)];
  if (replaces) {
    chain.accesses[static_cast<std::size_t>(old.index)] = std::move(from);
    chain.init = old;
  } else {
    chain.accesses.push_back(std::move(from));
    chain.init = Operand::access(static_cast<int>(chain.accesses.size()) - 1);
  }
  leave_out_unused(chain);
}

}  // namespace dgx::program
