#include <fmt/format.h>

#include <charconv>

#include "dgx/program/line.h"
#include "dgx/program/number_text.h"
#include "line_text.h"

namespace dgx::program {

using kernels::Literal;
using kernels::Operand;
using kernels::Step;

namespace {

std::string_view prefix_of(Operand::Kind kind) {
  switch (kind) {
    case Operand::Kind::kAccess: return "x";
    case Operand::Kind::kStep: return "t";
    case Operand::Kind::kIndex: return "i";
    case Operand::Kind::kFold: return "k";
    default: return "";
  }
}

std::optional<Operand::Kind> kind_from_prefix(char letter) {
  switch (letter) {
    case 'x': return Operand::Kind::kAccess;
    case 't': return Operand::Kind::kStep;
    case 'i': return Operand::Kind::kIndex;
    case 'k': return Operand::Kind::kFold;
    default: return std::nullopt;
  }
}

}  // namespace

Result<std::int64_t> parse_integer(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || fmt::format("{}", value) != text) {
    return malformed(fmt::format("'{}' is not a decimal integer of 64 bits", text));
  }
  return value;
}

Result<Literal> parse_literal(std::string_view text) {
  const std::string_view digits = text.starts_with('-') ? text.substr(1) : text;
  if (digits.starts_with("0x") || digits == "inf") {
    DGX_TRY(const float value, parse_hex_float(text));
    return Literal(value);
  }
  DGX_TRY(const std::int64_t value, parse_integer(text));
  return Literal(value);
}

std::string print_literal(const Literal& literal) {
  if (const float* real = std::get_if<float>(&literal)) return hex_float(*real);
  return fmt::format("{}", std::get<std::int64_t>(literal));
}

Result<Operand> parse_operand(std::string_view text) {
  if (text.empty()) return malformed("an operand is missing");
  if (text == "acc") return Operand::accumulator();
  if (const auto kind = text == "inf" ? std::nullopt : kind_from_prefix(text[0])) {
    DGX_TRY(const std::int64_t index, parse_integer(text.substr(1)));
    if (index < 0 || index > 255) return malformed(fmt::format("operand '{}' is out of range", text));
    return Operand{*kind, static_cast<std::int32_t>(index), 0, 0};
  }
  DGX_TRY(const Literal literal, parse_literal(text));
  if (const float* real = std::get_if<float>(&literal)) return Operand::literal(*real);
  return Operand::literal(std::get<std::int64_t>(literal));
}

std::string print_operand(const Operand& operand) {
  switch (operand.kind) {
    case Operand::Kind::kAccumulator: return "acc";
    case Operand::Kind::kFloat: return hex_float(operand.real);
    case Operand::Kind::kInteger: return fmt::format("{}", operand.integer);
    default: return fmt::format("{}{}", prefix_of(operand.kind), operand.index);
  }
}

Result<Step> parse_step(std::string_view text) {
  const std::size_t space = text.find(' ');
  const auto op = kernels::scalar_op_from_name(text.substr(0, space));
  if (!op) return malformed(fmt::format("byte 0: unknown operation '{}'", text.substr(0, space)));
  Step step;
  step.op = *op;
  std::size_t at = space == std::string_view::npos ? text.size() : space;
  for (int n = 0; n < kernels::arity_of(*op); ++n) {
    if (at == text.size()) return malformed(fmt::format("byte {}: operand {} is missing", at, n));
    const std::size_t end = std::min(text.find(' ', at + 1), text.size());
    auto operand = parse_operand(text.substr(at + 1, end - at - 1));
    if (!operand) return within(fmt::format("byte {}", at + 1), std::move(operand).error());
    step.operands[static_cast<std::size_t>(n)] = *operand;
    at = end;
  }
  if (at != text.size())
    return malformed(fmt::format("byte {}: more than {} operands", at, kernels::arity_of(*op)));
  return step;
}

std::string print_step(const Step& step) {
  std::string text(kernels::name_of(step.op));
  for (int n = 0; n < kernels::arity_of(step.op); ++n) {
    text += ' ' + print_operand(step.operands[static_cast<std::size_t>(n)]);
  }
  return text;
}

}  // namespace dgx::program
