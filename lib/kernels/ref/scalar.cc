#include "dgx/kernels/scalar.h"

#include <fmt/format.h>

#include <algorithm>

#include "scalar_formulas.h"

namespace dgx::kernels {
namespace {

// The operand types an operation takes and the type it gives.
enum class Rule { kSame, kRealOnly, kComparison, kLogic, kSelect, kIntegerOnly, kToReal, kToInteger };

Rule rule_of(ScalarOp op) {
  switch (op) {
    case ScalarOp::kAdd:
    case ScalarOp::kSub:
    case ScalarOp::kMul:
    case ScalarOp::kNeg:
    case ScalarOp::kAbs:
    case ScalarOp::kMax:
    case ScalarOp::kMin: return Rule::kSame;
    case ScalarOp::kEq:
    case ScalarOp::kNe:
    case ScalarOp::kLt:
    case ScalarOp::kLe:
    case ScalarOp::kGt:
    case ScalarOp::kGe: return Rule::kComparison;
    case ScalarOp::kAnd:
    case ScalarOp::kOr:
    case ScalarOp::kNot: return Rule::kLogic;
    case ScalarOp::kSelect: return Rule::kSelect;
    case ScalarOp::kIdiv:
    case ScalarOp::kImod: return Rule::kIntegerOnly;
    case ScalarOp::kF32: return Rule::kToReal;
    case ScalarOp::kI64:
    case ScalarOp::kU8: return Rule::kToInteger;
    default: return Rule::kRealOnly;
  }
}

std::string_view word(NumberType type) { return type == NumberType::kFloat ? "a float" : "an integer"; }

Error mismatch(ScalarOp op, std::string_view wanted, std::span<const NumberType> operands) {
  std::string given;
  for (const NumberType type : operands) given += fmt::format("{}{}", given.empty() ? "" : ", ", word(type));
  return malformed(fmt::format("{} takes {}, not {}", name_of(op), wanted, given));
}

bool all_are(std::span<const NumberType> operands, NumberType type) {
  return std::ranges::all_of(operands, [type](NumberType operand) { return operand == type; });
}

}  // namespace

std::string to_string(const Number& number) {
  if (number.type == NumberType::kInteger) return fmt::format("{}", number.integer);
  return fmt::format("{:#010x} ({})", number.bits(), canonical_nan(number.real));
}

Result<NumberType> result_type(ScalarOp op, std::span<const NumberType> operands) {
  if (operands.size() != static_cast<std::size_t>(arity_of(op))) {
    return malformed(fmt::format("{} takes {} operands, not {}", name_of(op), arity_of(op), operands.size()));
  }
  const bool same = all_are(operands, operands[0]);
  switch (rule_of(op)) {
    case Rule::kSame:
      if (!same) return mismatch(op, "operands of one type", operands);
      return operands[0];
    case Rule::kComparison:
      if (!same) return mismatch(op, "operands of one type", operands);
      return NumberType::kInteger;
    case Rule::kLogic:
    case Rule::kIntegerOnly:
      if (!all_are(operands, NumberType::kInteger)) return mismatch(op, "integers", operands);
      return NumberType::kInteger;
    case Rule::kSelect:
      if (operands[0] != NumberType::kInteger || operands[1] != operands[2]) {
        return mismatch(op, "an integer and two operands of one type", operands);
      }
      return operands[1];
    case Rule::kRealOnly:
      if (!all_are(operands, NumberType::kFloat)) return mismatch(op, "floats", operands);
      return NumberType::kFloat;
    case Rule::kToReal: return NumberType::kFloat;
    case Rule::kToInteger: return NumberType::kInteger;
  }
  return internal_error("unknown operation");
}

float apply_real(ScalarOp op, float a, float b, float c) { return formula::apply_real(op, a, b, c); }

std::int64_t apply_integer(ScalarOp op, std::int64_t a, std::int64_t b) {
  return formula::apply_integer(op, a, b);
}

Number apply_scalar(ScalarOp op, std::span<const Number> operands) {
  std::array<Slot, 3> slots{};
  std::ranges::transform(operands, slots.begin(), slot_of);
  const NumberType type = operands[0].type;
  const auto result = [&](NumberType given) { return number_of(given, formula::apply(op, type, slots)); };
  switch (rule_of(op)) {
    case Rule::kSelect: return operands[operands[0].integer != 0 ? 1 : 2];
    case Rule::kToReal: return result(NumberType::kFloat);
    case Rule::kComparison:
    case Rule::kToInteger: return result(NumberType::kInteger);
    default: return result(type);
  }
}

}  // namespace dgx::kernels
