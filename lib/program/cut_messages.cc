#include "cut_messages.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <tuple>

#include "dgx/program/stages.h"
#include "input_lines.h"

namespace dgx::program {

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

/// The steps of a code.
constexpr std::array kCodeSteps = {ScalarOp::kEq,   ScalarOp::kDiv, ScalarOp::kMul,
                                   ScalarOp::kRint, ScalarOp::kMax, ScalarOp::kMin,
                                   ScalarOp::kAdd,  ScalarOp::kI64, ScalarOp::kSelect};

/// True for a coordinate that is one symbol.
bool is_symbol(const Coordinate& coordinate, Term::Symbol symbol, std::size_t index) {
  return coordinate.constant == 0 && coordinate.division == Coordinate::Division::kNone &&
         coordinate.terms == std::vector<Term>{{symbol, static_cast<std::int32_t>(index), 1}};
}

/// True if `access` is at the reader's own index.
bool is_own(const Access& access) {
  for (std::size_t n = 0; n < access.coordinates.size(); ++n)
    if (!is_symbol(access.coordinates[n], Term::Symbol::kIndex, n)) return false;
  return !access.view && !access.fill;
}

class Finder {
 public:
  Finder(const Program& program, const Classes& classes) : program_(program), classes_(classes) {}

  [[nodiscard]] std::optional<CutMessage> of(ValueIndex line) const {
    if (!is_decoded(line)) return std::nullopt;
    CutMessage out{line, std::nullopt, std::nullopt, {}};
    std::vector<ValueIndex> readers;  // of the tail
    for (const ValueIndex v : program_.values.indices()) {
      if (at(v).next == line) return std::nullopt;
      if (!classes_.body[v] && reads(v, line)) readers.push_back(v);
    }
    if (readers.empty()) return out;
    if (readers.size() > 1 || !is_update(readers.front(), line, out)) return std::nullopt;
    return out;
  }
  /// True if a line reads a received line, or one that reads the entry which keeps it.
  [[nodiscard]] bool reads_any(ValueIndex line, const CutMessage& message) const {
    return reads(line, message.received) ||
           std::ranges::any_of(message.old, [&](ValueIndex old) { return reads(line, old); });
  }

 private:
  [[nodiscard]] const Primitive& at(ValueIndex v) const { return program_.values[v]; }
  [[nodiscard]] bool reads(ValueIndex reader, ValueIndex value) const {
    return std::ranges::any_of(at(reader).accesses,
                               [&](const Access& access) { return access.value == value; });
  }
  [[nodiscard]] bool is_sharded_map(ValueIndex v) const {
    return at(v).kind == Kind::kMap && !at(v).iteration && classes_.of[v] == SampleClass::kSharded;
  }

  [[nodiscard]] bool is_code(ValueIndex v) const {
    const Primitive& line = at(v);
    return is_sharded_map(v) && line.dtype == DType::kU8 && line.accesses.size() == 2 &&
           std::ranges::equal(line.steps, kCodeSteps, {}, &Step::op) &&
           at(line.accesses.front().value).kind == Kind::kMax;
  }

  /// True for a map of a code and what that was divided by.
  [[nodiscard]] bool is_decoded(ValueIndex v) const {
    const Primitive& line = at(v);
    if (!is_sharded_map(v) || line.dtype != DType::kF32) return false;
    const auto code =
        std::ranges::find_if(line.accesses, [&](const Access& access) { return is_code(access.value); });
    if (code == line.accesses.end()) return false;
    const bool is_whole = std::ranges::all_of(line.accesses, [&](const Access& access) {
      return is_own(access) || access.coordinates.empty() || !needs_whole_of(v, access);
    });
    return is_whole && reads(v, at(code->value).accesses.front().value);
  }
  [[nodiscard]] bool needs_whole_of(ValueIndex v, const Access& access) const {
    const auto n = static_cast<std::size_t>(&access - at(v).accesses.data());
    return needs_whole(program_, classes_, v, n);
  }

  /// True for a line that replaces the rows of an entry that the batch names by those of `received`.
  bool is_update(ValueIndex v, ValueIndex received, CutMessage& out) const {
    const Primitive& line = at(v);
    const std::vector<Step> steps = {
        {ScalarOp::kGe, {Operand::access(0), Operand::literal(std::int64_t{0})}},
        {ScalarOp::kSelect, {Operand::step(0), Operand::access(1), Operand::access(2)}}};
    if (line.kind != Kind::kMap || line.iteration || line.steps != steps || line.accesses.size() != 3)
      return false;
    const auto& [place, row, own] = std::tie(line.accesses[0], line.accesses[1], line.accesses[2]);
    const Primitive& entry = at(own.value);
    if (!is_own(place) || !is_own(own) || row.value != received || row.coordinates.empty() ||
        !is_symbol(row.coordinates[0], Term::Symbol::kAccess, 0) || !is_place(place.value))
      return false;
    if (!is_entry(entry) || entry.next != v) return false;
    out.entry = own.value;
    out.update = v;
    for (const ValueIndex reader : program_.values.indices()) {
      if (reads(reader, v)) return false;
      if (reader == v || !reads(reader, own.value)) continue;
      if (!is_old(reader, own.value)) return false;
      out.old.push_back(reader);
    }
    return std::ranges::count_if(program_.values, [&](const Primitive& one) { return one.next == v; }) == 1;
  }

  /// True for a chain of inputs alone, which any stage makes.
  [[nodiscard]] bool is_place(ValueIndex v) const {
    return !classes_.body[v] && reads_inputs_but(v, std::nullopt);
  }
  /// True for a line that reads the entry at rows that inputs name.
  [[nodiscard]] bool is_old(ValueIndex v, ValueIndex entry) const {
    return is_sharded_map(v) && classes_.body[v] && reads_inputs_but(v, entry) && !is_read_by_tail(v);
  }
  [[nodiscard]] bool reads_inputs_but(ValueIndex v, std::optional<ValueIndex> entry) const {
    return std::ranges::all_of(at(v).accesses, [&](const Access& access) {
      const Primitive& read = at(access.value);
      return access.value == entry || (is_input(read) && !is_entry(read));
    });
  }
  [[nodiscard]] bool is_read_by_tail(ValueIndex v) const {
    for (const ValueIndex reader : program_.values.indices())
      if (at(reader).next == v || (!classes_.body[reader] && reads(reader, v))) return true;
    return false;
  }

  const Program& program_;
  const Classes& classes_;
};

}  // namespace

std::optional<int> code_bits(const Program& program, const Classes& classes, ValueIndex line) {
  const Primitive& code = program.values[line];
  if (code.kind != Kind::kMap || code.iteration || code.dtype != DType::kU8 ||
      classes.of[line] != SampleClass::kSharded || !std::ranges::equal(code.steps, kCodeSteps, {}, &Step::op))
    return std::nullopt;
  for (int bits = 1; bits < 8; ++bits) {
    const std::int64_t half = std::int64_t{1} << (bits - 1);
    const auto h = static_cast<float>(half);
    const std::array clips = {
        Step{ScalarOp::kMax, {Operand::step(3), Operand::literal(-h)}},
        Step{ScalarOp::kMin, {Operand::step(4), Operand::literal(h - 1)}},
        Step{ScalarOp::kAdd, {Operand::step(5), Operand::literal(h)}},
        Step{ScalarOp::kI64, {Operand::step(6)}},
        Step{ScalarOp::kSelect, {Operand::step(0), Operand::literal(half), Operand::step(7)}}};
    if (std::ranges::equal(std::span(code.steps).last(clips.size()), clips)) return bits;
  }
  return std::nullopt;
}

std::optional<std::int64_t> zero_from(const Program& program, ValueIndex line) {
  const Primitive& value = program.values[line];
  if (value.kind != Kind::kMap || value.dtype != DType::kF32 || value.steps.size() != 2) return std::nullopt;
  const Step& early = value.steps[0];
  const Operand &step = early.operands[0], &first = early.operands[1];
  if (early.op != ScalarOp::kLt || step.kind != Operand::Kind::kAccess ||
      first.kind != Operand::Kind::kInteger)
    return std::nullopt;
  const Primitive& read = program.values[value.accesses[static_cast<std::size_t>(step.index)].value];
  if (!is_entry(read) || read.source.name != "step") return std::nullopt;
  const auto& [condition, number, zero] = value.steps[1].operands;
  const bool is_zero = zero.kind == Operand::Kind::kFloat && zero.real == 0 && !std::signbit(zero.real);
  if (value.steps[1].op != ScalarOp::kSelect || condition != Operand::step(0) || !is_zero)
    return std::nullopt;
  return first.integer;
}

std::int64_t crossing_bytes(const Program& program, const Classes& classes, ValueIndex line) {
  if (zero_from(program, line)) return 0;
  const std::int64_t bytes = element_count(program.values[line].shape).value() *
                             static_cast<std::int64_t>(size_of(program.values[line].dtype));
  const auto bits = code_bits(program, classes, line);
  return bits ? bytes / 8 * *bits + (bytes % 8 * *bits + 7) / 8 : bytes;
}

std::vector<CutMessage> cut_messages(const Program& program, const Classes& classes) {
  const Finder finder(program, classes);
  std::vector<CutMessage> found, out;
  for (const ValueIndex v : program.values.indices())
    if (auto message = finder.of(v)) found.push_back(*std::move(message));
  for (const CutMessage& message : found) {
    const bool reads_another = std::ranges::any_of(found, [&](const CutMessage& other) {
      return other.received != message.received && finder.reads_any(message.received, other);
    });
    if (!reads_another) out.push_back(message);
  }
  return out;
}

}  // namespace dgx::program
