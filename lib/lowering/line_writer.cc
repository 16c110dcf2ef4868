#include "line_writer.h"

#include <algorithm>
#include <cassert>

namespace dgx::lowering {

using kernels::Access;
using kernels::Kind;
using kernels::NumberType;
using kernels::Operand;
using kernels::Primitive;
using kernels::ScalarOp;
using kernels::Step;

namespace {

NumberType result_of(ScalarOp op, const std::vector<Expression>& operands) {
  switch (op) {
    case ScalarOp::kEq:
    case ScalarOp::kNe:
    case ScalarOp::kLt:
    case ScalarOp::kLe:
    case ScalarOp::kGt:
    case ScalarOp::kGe:
    case ScalarOp::kAnd:
    case ScalarOp::kOr:
    case ScalarOp::kNot:
    case ScalarOp::kI64:
    case ScalarOp::kU8: return NumberType::kInteger;
    case ScalarOp::kF32: return NumberType::kFloat;
    default: return operands.back().type;
  }
}

LineWriter* line_of(const std::vector<Expression>& operands) {
  for (const Expression& operand : operands) {
    if (operand.line) return operand.line;
  }
  return nullptr;
}

/// Both unchanged if of one type, else both as f32.
std::pair<Expression, Expression> promoted(const Expression& a, const Expression& b) {
  if (a.type == b.type) return {a, b};
  return {to_float(a), to_float(b)};
}

Expression binary(ScalarOp op, const Expression& a, const Expression& b) {
  const auto [left, right] = promoted(a, b);
  return step(op, {left, right});
}

/// Exchanges the numbers of accesses a and b wherever the line names them, except in `do`.
void exchange_accesses(Primitive& line, std::int32_t a, std::int32_t b) {
  const auto other = [&](std::int32_t n) { return n == a ? b : n == b ? a : n; };
  const auto rename = [&](Operand& operand) {
    if (operand.kind == Operand::Kind::kAccess) operand.index = other(operand.index);
  };
  std::swap(line.accesses[static_cast<std::size_t>(a)], line.accesses[static_cast<std::size_t>(b)]);
  for (Access& access : line.accesses) {
    for (auto& coordinate : access.coordinates) {
      for (auto& term : coordinate.terms) {
        if (term.symbol == kernels::Term::Symbol::kAccess) term.index = other(term.index);
      }
    }
  }
  for (Step& step : line.when) {
    for (Operand& operand : step.operands) rename(operand);
  }
  if (line.init) rename(*line.init);
}

/// Rewrites a line in an order that depends on its meaning alone: steps as the result needs them, first
/// operands first, each once; accesses as the steps come to them. (C++ does not define the order in which
/// operands were written.)
class Arrangement {
 public:
  explicit Arrangement(const Primitive& from) : from_(from), access_numbers_(from.accesses.size(), -1) {}

  [[nodiscard]] Primitive result() {
    Primitive to = from_;
    if (from_.steps.empty() && !from_.accesses.empty()) (void)access(0);
    to.steps = list(from_.steps);
    to.when = list(from_.when);
    if (to.init) to.init = operand(*from_.init, nullptr);
    to.accesses = std::move(accesses_);
    for (Access& written : to.accesses) {
      for (auto& coordinate : written.coordinates) {
        for (auto& term : coordinate.terms) {
          if (term.symbol == kernels::Term::Symbol::kAccess) term.index = access(term.index);
        }
      }
    }
    return to;
  }

 private:
  struct List {
    const std::vector<Step>& from;
    std::vector<std::int32_t> numbers;
    std::vector<Step> to;
  };

  std::vector<Step> list(const std::vector<Step>& steps) {
    if (steps.empty()) return {};
    List work{steps, std::vector<std::int32_t>(steps.size(), -1), {}};
    (void)step(work, steps.size() - 1);
    return std::move(work.to);
  }

  std::int32_t step(List& work, std::size_t n) {
    if (work.numbers[n] >= 0) return work.numbers[n];
    Step written = work.from[n];
    // Steps that this one needs come before it; accesses are numbered in the order of the finished text.
    for (int m = 0; m < arity_of(written.op); ++m) {
      const Operand& needed = written.operands[static_cast<std::size_t>(m)];
      if (needed.kind == Operand::Kind::kStep) (void)step(work, static_cast<std::size_t>(needed.index));
    }
    for (int m = 0; m < arity_of(written.op); ++m) {
      Operand& needed = written.operands[static_cast<std::size_t>(m)];
      needed = operand(needed, &work);
    }
    const auto known = std::find(work.to.begin(), work.to.end(), written);
    work.numbers[n] = static_cast<std::int32_t>(known - work.to.begin());
    if (known == work.to.end()) work.to.push_back(written);
    return work.numbers[n];
  }

  Operand operand(Operand needed, List* work) {
    if (needed.kind == Operand::Kind::kStep && work)
      needed.index = work->numbers[static_cast<std::size_t>(needed.index)];
    if (needed.kind == Operand::Kind::kAccess) needed.index = access(needed.index);
    return needed;
  }

  /// The access's new number; the accesses that its `$j` read are numbered after it.
  std::int32_t access(std::int32_t n) {
    std::int32_t& number = access_numbers_[static_cast<std::size_t>(n)];
    if (number >= 0) return number;
    number = static_cast<std::int32_t>(accesses_.size());
    const std::int32_t given = number;
    const Access& original = from_.accesses[static_cast<std::size_t>(n)];
    accesses_.push_back(original);
    for (const auto& coordinate : original.coordinates) {
      for (const auto& term : coordinate.terms) {
        if (term.symbol == kernels::Term::Symbol::kAccess) (void)access(term.index);
      }
    }
    return given;
  }

  const Primitive& from_;
  std::vector<std::int32_t> access_numbers_;
  std::vector<Access> accesses_;
};

}  // namespace

Expression step(ScalarOp op, const std::vector<Expression>& operands) {
  LineWriter* line = line_of(operands);
  assert(line);
  return line->append(op, operands);
}

Expression to_float(const Expression& a) {
  if (a.type == NumberType::kFloat) return a;
  if (a.operand.kind == Operand::Kind::kInteger)
    return {a.line, Operand::literal(static_cast<float>(a.operand.integer)), NumberType::kFloat};
  return step(ScalarOp::kF32, {a});
}

Expression to_integer(const Expression& a) {
  return a.type == NumberType::kInteger ? a : step(ScalarOp::kI64, {a});
}

Expression operator+(const Expression& a, const Expression& b) { return binary(ScalarOp::kAdd, a, b); }
Expression operator-(const Expression& a, const Expression& b) { return binary(ScalarOp::kSub, a, b); }
Expression operator*(const Expression& a, const Expression& b) { return binary(ScalarOp::kMul, a, b); }
Expression operator/(const Expression& a, const Expression& b) {
  return step(ScalarOp::kDiv, {to_float(a), to_float(b)});
}
Expression operator-(const Expression& a) { return step(ScalarOp::kNeg, {a}); }
Expression fma(const Expression& a, const Expression& b, const Expression& c) {
  return step(ScalarOp::kFma, {to_float(a), to_float(b), to_float(c)});
}
Expression max(const Expression& a, const Expression& b) { return binary(ScalarOp::kMax, a, b); }
Expression min(const Expression& a, const Expression& b) { return binary(ScalarOp::kMin, a, b); }
Expression compare(ScalarOp op, const Expression& a, const Expression& b) { return binary(op, a, b); }
Expression select(const Expression& condition, const Expression& yes, const Expression& no) {
  const auto [left, right] = promoted(yes, no);
  const Expression chosen =
      condition.type == NumberType::kInteger ? condition : compare(ScalarOp::kNe, condition, 0.0F);
  return step(ScalarOp::kSelect, {chosen, left, right});
}
Expression function(ScalarOp op, const Expression& a) { return step(op, {to_float(a)}); }

LineWriter::LineWriter(Builder& builder, std::string provenance, Kind kind, Shape shape, Shape fold)
    : builder_(builder) {
  primitive_.kind = kind;
  primitive_.shape = std::move(shape);
  primitive_.fold = std::move(fold);
  primitive_.provenance = std::move(provenance);
}

Expression LineWriter::read(const TensorForm& form) {
  return read(broadcast_to(form, primitive_.shape), output_indices(primitive_.shape.size()));
}

Expression LineWriter::read(const TensorForm& form, const std::vector<kernels::Coordinate>& indices) {
  if (form.splat) {
    if (const float* real = std::get_if<float>(&*form.splat))
      return {this, Operand::literal(*real), NumberType::kFloat};
    return {this, Operand::literal(std::get<std::int64_t>(*form.splat)), NumberType::kInteger};
  }
  const Expression result = read(access_at(form, indices), form.dtype);
  const auto n = static_cast<std::size_t>(result.operand.index);
  if (n >= read_whole_.size()) read_whole_.resize(n + 1);
  read_whole_[n] = remap(form, primitive_.shape, indices);
  return result;
}

Expression LineWriter::read(Access access, DType dtype) {
  auto& accesses = primitive_.accesses;
  const auto known = std::find(accesses.begin(), accesses.end(), access);
  const auto n = static_cast<int>(known - accesses.begin());
  if (known == accesses.end()) accesses.push_back(std::move(access));
  return {this, Operand::access(n), dtype == DType::kF32 ? NumberType::kFloat : NumberType::kInteger};
}

Expression LineWriter::pick(const TensorForm& form, const std::vector<kernels::Coordinate>& indices) {
  Access access = access_at(form, indices);
  access.fill = literal_of(form.dtype, 0);
  return read(std::move(access), form.dtype);
}

Expression LineWriter::append(ScalarOp op, const std::vector<Expression>& operands) {
  Step step;
  step.op = op;
  for (std::size_t n = 0; n < operands.size(); ++n) step.operands[n] = operands[n].operand;
  auto& steps = primitive_.steps;
  const auto known = std::find(steps.begin(), steps.end(), step);
  const auto n = static_cast<int>(known - steps.begin());
  if (known == steps.end()) steps.push_back(step);
  return {this, Operand::step(n), result_of(op, operands)};
}

TensorForm LineWriter::finish(DType dtype, const Expression& result) {
  // An argmax gives a position, whatever type it compares.
  if (primitive_.kind == Kind::kArgmax) return finish_operand(dtype, result.operand);
  const bool wants_float = dtype == DType::kF32;
  return finish_operand(dtype, (wants_float ? to_float(result) : to_integer(result)).operand);
}

TensorForm LineWriter::finish_operand(DType dtype, const Operand& result) {
  const bool is_map = primitive_.kind == Kind::kMap;
  if (is_map && result.kind == Operand::Kind::kFloat) return splat_form(dtype, primitive_.shape, result.real);
  if (is_map && result.kind == Operand::Kind::kInteger)
    return splat_form(dtype, primitive_.shape, result.integer);
  if (is_map && result.kind == Operand::Kind::kAccess &&
      static_cast<std::size_t>(result.index) < read_whole_.size()) {
    const auto& form = read_whole_[static_cast<std::size_t>(result.index)];
    if (form && form->dtype == dtype) return *form;
  }
  auto& steps = primitive_.steps;
  if (result.kind == Operand::Kind::kStep) {
    steps.resize(static_cast<std::size_t>(result.index) + 1);
  } else if (primitive_.kind != Kind::kDot) {
    // An index, a literal under a fold, or an access. Adding nothing would cost an operation, so an access
    // becomes access 0.
    steps.clear();
    if (result.kind == Operand::Kind::kAccess) {
      exchange_accesses(primitive_, 0, result.index);
    } else {
      const ScalarOp same = result.kind == Operand::Kind::kFloat ? ScalarOp::kF32 : ScalarOp::kI64;
      steps.push_back({same, {result, {}, {}}});
    }
  }
  primitive_.dtype = dtype;
  if (primitive_.kind != Kind::kDot) arrange(primitive_);
  const Shape shape = primitive_.shape;
  return value_form(builder_.append(std::move(primitive_)), dtype, shape);
}

TensorForm LineWriter::finish_chain(DType dtype, const Expression& result,
                                    const std::optional<Expression>& when, const Expression& init) {
  primitive_.init = init.operand;
  if (when) {
    // Both lists share steps while being written; each keeps its own copy of those it needs.
    primitive_.when = primitive_.steps;
    primitive_.when.resize(static_cast<std::size_t>(when->operand.index) + 1);
  }
  return finish_operand(dtype, result.operand);
}

kernels::Coordinate picked_index(const Expression& access) {
  return {{{kernels::Term::Symbol::kAccess, access.operand.index, 1}}, 0, {}, 1};
}

void arrange(Primitive& primitive) { primitive = Arrangement(primitive).result(); }

}  // namespace dgx::lowering
