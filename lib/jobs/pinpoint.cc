#include "pinpoint.h"

#include <fmt/format.h>

#include <cstring>

#include "dgx/kernels/evaluate.h"
#include "dgx/program/line.h"
#include "dgx/protocol/scalar_text.h"

namespace dgx::jobs {

using kernels::OperandRecord;

std::vector<std::int32_t> operands_of(const program::Program& program, std::int32_t value) {
  std::vector<std::int32_t> operands;
  for (const kernels::Access& access : program.values[static_cast<std::size_t>(value)].accesses)
    operands.push_back(access.value);
  return operands;
}

namespace {

std::string source_text(const kernels::Source& source) {
  switch (source.kind) {
    case kernels::Source::Kind::kState: return "state " + source.name;
    case kernels::Source::Kind::kBatch: return "batch " + source.name;
    case kernels::Source::Kind::kSchedule: return fmt::format("schedule {}", fmt::join(source.of, ", "));
    case kernels::Source::Kind::kConstant: return "constant";
    case kernels::Source::Kind::kUniform: return "uniform " + source.name;
  }
  return {};
}

}  // namespace

DivergentValue describe_value(const program::Program& program, std::int32_t value) {
  const kernels::Primitive& primitive = program.values[static_cast<std::size_t>(value)];
  const bool input = primitive.kind == kernels::Kind::kInput;
  return {value, std::string(kernels::name_of(primitive.kind)),
          input ? source_text(primitive.source) : primitive.provenance};
}

std::string bits_of(const TensorView& tensor, std::int64_t element) {
  const std::size_t size = size_of(tensor.dtype);
  std::uint64_t bits = 0;
  std::memcpy(&bits, tensor.bytes.data() + static_cast<std::size_t>(element) * size, size);
  return fmt::format("0x{:0{}x}", bits, size * 2);
}

Result<DivergentScalar> pinpoint(const program::Program& program, const std::vector<Tensor>& numbers,
                                 std::int32_t value, std::int64_t element, const TensorView& ours,
                                 const TensorView& theirs) {
  const kernels::Primitive& primitive = program.values[static_cast<std::size_t>(value)];
  DivergentScalar out;
  out.result = bits_of(numbers[static_cast<std::size_t>(value)].view(), element);
  out.ours = bits_of(ours, element);
  out.theirs = bits_of(theirs, element);
  out.operation = "input";
  if (primitive.kind == kernels::Kind::kInput) return out;

  std::vector<TensorView> views(numbers.size());
  for (std::size_t v = 0; v < numbers.size(); ++v) views[v] = numbers[v].view();
  std::vector<kernels::ValueType> types;
  for (const kernels::Primitive& line : program.values) types.push_back({line.dtype, line.shape});
  DGX_TRY(const auto compiled, kernels::compile(primitive, types));
  Tensor defined(primitive.dtype, primitive.shape);
  DGX_CHECK(kernels::evaluate_all(compiled, views, defined, element, element + 1));
  if (bits_of(defined.view(), element) != out.result) {
    return internal_error(fmt::format("value {} element {}: the replay has {}, the definition gives {}",
                                      value, element, out.result, bits_of(defined.view(), element)));
  }
  DGX_TRY(const auto trace, kernels::trace_element(compiled, views, element, {}));
  out.operation = "copy";
  if (!trace.last) return out;
  const kernels::ScalarRecord& last = *trace.last;
  out.index = last.index;
  out.place = protocol::place_text(last, !primitive.fold.empty());
  out.operation = std::string(protocol::operation_text(last));
  for (std::int32_t i = 0; i < last.operand_count; ++i) {
    const OperandRecord& operand = last.operands[static_cast<std::size_t>(i)];
    out.operands.push_back({protocol::origin_text(operand), protocol::bits_text(operand.number)});
  }
  return out;
}

}  // namespace dgx::jobs
