#include "dgx/protocol/scalar_text.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

namespace dgx::protocol {

using kernels::OperandRecord;
using kernels::Place;

std::string bits_text(const kernels::Number& number) {
  return fmt::format("0x{:0{}x}", number.bits(), number.type == kernels::NumberType::kFloat ? 8 : 16);
}

std::string bits_text(const kernels::Number& number, DType dtype) {
  return fmt::format("0x{:0{}x}", number.bits(), size_of(dtype) * 2);
}

std::string bits_text(const TensorView& tensor, std::int64_t element) {
  const std::size_t size = size_of(tensor.dtype);
  std::uint64_t bits = 0;
  std::memcpy(&bits, tensor.bytes.data() + static_cast<std::size_t>(element) * size, size);
  return fmt::format("0x{:0{}x}", bits, size * 2);
}

std::string posted_text(const kernels::Number& number, DType dtype) {
  if (number.type != kernels::NumberType::kFloat) return bits_text(number, dtype);
  return fmt::format("0x{:08x}", std::bit_cast<std::uint32_t>(number.real));
}

bool is_posted(const kernels::Number& right, const kernels::Number& posted) {
  if (!(right == posted)) return false;
  return right.type != kernels::NumberType::kFloat ||
         std::bit_cast<std::uint32_t>(posted.real) == static_cast<std::uint32_t>(right.bits());
}

std::string origin_text(const OperandRecord& operand) {
  switch (operand.origin) {
    case OperandRecord::Origin::kElement: return fmt::format("value {}[{}]", operand.value, operand.element);
    case OperandRecord::Origin::kFill: return fmt::format("fill of access {}", operand.index);
    case OperandRecord::Origin::kStep: return fmt::format("step {}", operand.index);
    case OperandRecord::Origin::kIndex: return fmt::format("i{}", operand.index);
    case OperandRecord::Origin::kFold: return fmt::format("k{}", operand.index);
    case OperandRecord::Origin::kAccumulator: return "accumulator";
    case OperandRecord::Origin::kPartial: return fmt::format("part {}", operand.index);
    case OperandRecord::Origin::kLiteral: return "literal";
  }
  return {};
}

std::string place_text(const kernels::ScalarRecord& record, bool folds) {
  const std::string_view name = kernels::name_of(record.place);
  if (record.place != Place::kStep && record.place != Place::kWhen)
    return fmt::format("{} {}", name, record.position);
  if (!folds) return fmt::format("{} {}", name, record.step);
  return fmt::format("{} {} at position {}", name, record.step, record.position);
}

std::string_view operation_text(const kernels::ScalarRecord& record) {
  if (record.place == Place::kMax) return "fold max";
  if (record.place == Place::kArgmax) return "fold argmax";
  return kernels::name_of(record.op);
}

manifest::JudgedScalar judged_scalar(const kernels::ScalarRecord& record, const kernels::Number& claimed) {
  manifest::JudgedScalar out;
  out.operation = std::string(operation_text(record));
  out.index = record.index;
  out.place = place_text(record, true);
  for (std::int32_t i = 0; i < record.operand_count; ++i) {
    const OperandRecord& operand = record.operands[static_cast<std::size_t>(i)];
    out.operands.push_back({bits_text(operand.number), origin_text(operand)});
  }
  out.result = bits_text(record.result);
  out.claimed = bits_text(claimed);
  return out;
}

manifest::JudgedScalar judged_scalar(const kernels::ElementTrace& trace, const kernels::Primitive& line,
                                     std::string claimed) {
  manifest::JudgedScalar out;
  out.operation = "copy";
  if (trace.last) {
    out = judged_scalar(*trace.last, trace.result);
    out.place = place_text(*trace.last, !line.fold.empty());
  }
  out.result = bits_text(trace.result, line.dtype);
  out.claimed = std::move(claimed);
  return out;
}

std::string sentence(const manifest::JudgedScalar& scalar) {
  std::string out = scalar.operation;
  for (std::size_t i = 0; i < scalar.operands.size(); ++i) {
    const bool last = i + 1 == scalar.operands.size();
    out += fmt::format("{} {} {}",
                       i == 0 ? " of"
                       : last ? " and"
                              : ",",
                       scalar.operands[i].from, scalar.operands[i].bits);
  }
  if (!scalar.place.empty()) out += fmt::format(" ({})", scalar.place);
  return out + fmt::format(" is {}, claimed {}", scalar.result, scalar.claimed);
}

}  // namespace dgx::protocol
