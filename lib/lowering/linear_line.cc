#include "linear_line.h"

#include <algorithm>
#include <span>
#include <vector>

#include "worker_folds.h"

namespace dgx::lowering {

using kernels::Access;
using kernels::Kind;
using kernels::Operand;
using kernels::Primitive;
using kernels::ScalarOp;
using kernels::Step;

namespace {

/// The dependence of a number on what varies.
enum class Degree : std::uint8_t {
  kZero,      ///< the literal 0.0, which is linear in anything
  kConstant,  ///< not at all
  kLinear,
  kOther,
};

Degree product(Degree a, Degree b) {
  if (a == Degree::kOther || b == Degree::kOther) return Degree::kOther;
  if (a == Degree::kLinear) return b == Degree::kLinear ? Degree::kOther : Degree::kLinear;
  return b == Degree::kLinear ? Degree::kLinear : Degree::kConstant;
}

/// The degree of a sum, or of a choice between two numbers.
Degree sum(Degree a, Degree b) {
  if (a == Degree::kZero) return b;
  if (b == Degree::kZero) return a;
  return a == b ? a : Degree::kOther;
}

/// The degrees of a line's steps, one after another.
class Degrees {
 public:
  Degrees(const Primitive& line, const std::function<bool(kernels::ValueIndex)>& varies) {
    for (const Access& access : line.accesses)
      accesses_.push_back(varies(access.value) ? Degree::kLinear : Degree::kConstant);
  }

  [[nodiscard]] Degree of_access(std::size_t n) const { return accesses_[n]; }

  [[nodiscard]] Degree of(const Operand& operand) const {
    switch (operand.kind) {
      case Operand::Kind::kAccess: return accesses_[static_cast<std::size_t>(operand.index)];
      case Operand::Kind::kStep: return steps_[static_cast<std::size_t>(operand.index)];
      case Operand::Kind::kFloat: return operand.real == 0 ? Degree::kZero : Degree::kConstant;
      case Operand::Kind::kAccumulator: return Degree::kOther;
      default: return Degree::kConstant;
    }
  }

  void append(const Step& step) { steps_.push_back(degree_of(step)); }

 private:
  [[nodiscard]] Degree degree_of(const Step& step) const {
    const auto at = [&](std::size_t n) { return of(step.operands[n]); };
    switch (step.op) {
      case ScalarOp::kAdd:
      case ScalarOp::kSub: return sum(at(0), at(1));
      case ScalarOp::kMul: return product(at(0), at(1));
      case ScalarOp::kFma: return sum(product(at(0), at(1)), at(2));
      case ScalarOp::kNeg:
      case ScalarOp::kF32: return at(0);
      case ScalarOp::kDiv: return is_constant(at(1)) ? product(at(0), at(1)) : Degree::kOther;
      case ScalarOp::kSelect: return is_constant(at(0)) ? sum(at(1), at(2)) : Degree::kOther;
      default: break;
    }
    const auto operands = std::span(step.operands).first(static_cast<std::size_t>(arity_of(step.op)));
    const bool varies =
        !std::ranges::all_of(operands, [&](const Operand& operand) { return is_constant(of(operand)); });
    return varies ? Degree::kOther : Degree::kConstant;
  }

  static bool is_constant(Degree degree) { return degree == Degree::kZero || degree == Degree::kConstant; }

  std::vector<Degree> accesses_, steps_;
};

bool has_other_fill(const Access& access) {
  return access.fill && (!std::holds_alternative<float>(*access.fill) || std::get<float>(*access.fill) != 0);
}

/// The last step of a chain adds to its accumulator: this is the other operand.
const Operand& added(const Step& step) {
  return step.operands[step.operands[0].kind == Operand::Kind::kAccumulator ? 1 : 0];
}

}  // namespace

bool is_linear(const Primitive& line, const std::function<bool(kernels::ValueIndex)>& varies) {
  if (line.kind == Kind::kInput || line.dtype != DType::kF32) return false;
  for (const Access& access : line.accesses) {
    if (varies(access.value) && has_other_fill(access)) return false;
  }
  Degrees degrees(line, varies);
  if (line.kind == Kind::kDot) return product(degrees.of_access(0), degrees.of_access(1)) == Degree::kLinear;
  const bool is_chain = line.kind == Kind::kChain;
  if (line.kind != Kind::kMap && line.kind != Kind::kSum && !(is_chain && only_adds(line))) return false;
  if (line.steps.empty()) return !line.accesses.empty() && degrees.of_access(0) == Degree::kLinear;
  if (is_chain) {
    // A condition is an integer, on which nothing that varies may have a say.
    Degrees condition(line, varies);
    for (const Step& step : line.when) condition.append(step);
    if (!line.when.empty() &&
        condition.of(Operand::step(static_cast<int>(line.when.size()) - 1)) != Degree::kConstant)
      return false;
  }
  for (const Step& step : std::span(line.steps).first(line.steps.size() - (is_chain ? 1 : 0)))
    degrees.append(step);
  const Operand result =
      is_chain ? added(line.steps.back()) : Operand::step(static_cast<int>(line.steps.size()) - 1);
  return degrees.of(result) == Degree::kLinear;
}

}  // namespace dgx::lowering
