#pragma once

#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "counted.h"
#include "dgx/kernels/compiled.h"
#include "dgx/kernels/evaluate.h"
#include "dgx/kernels/philox.h"
#include "dgx/kernels/schedule.h"
#include "dgx/program/number_text.h"
#include "dgx/program/program.h"

namespace dgx::test {

/// A step's inputs other than its state.
struct StepInputs {
  Tensor x, y;  ///< a batch of each
  kernels::ScheduleParameters schedule;
  std::int64_t step = 0;
  std::uint64_t seed = 0;
  std::map<std::string, Tensor> others = {};  ///< a batch of each other field
};

inline Tensor input_value(const kernels::Primitive& input, const State& state, const StepInputs& inputs) {
  using Kind = kernels::Source::Kind;
  if (input.source.kind == Kind::kState) {
    const Entry* entry = find_entry(state, input.source.name);
    REQUIRE(entry);
    return entry->tensor;
  }
  if (input.source.kind == Kind::kBatch) {
    if (input.source.name == "x") return inputs.x;
    return input.source.name == "y" ? inputs.y : inputs.others.at(input.source.name);
  }
  Tensor value(input.dtype, input.shape);
  if (input.source.kind == Kind::kSchedule) {
    const auto scalars = kernels::schedule_scalars(input.source.of, inputs.schedule, inputs.step);
    REQUIRE(scalars.ok());
    std::copy(scalars->begin(), scalars->end(), value.as<float>().begin());
  } else if (input.source.kind == Kind::kUniform) {
    const auto ordinal = static_cast<std::uint32_t>(std::stoul(input.source.name));
    kernels::fill_uniform(inputs.seed, {kernels::StreamKind::kDropout, ordinal}, inputs.step, value);
  } else {
    for (std::size_t n = 0; n < input.source.of.size(); ++n) {
      const std::string& number = input.source.of[n];
      if (input.dtype == DType::kF32) value.as<float>()[n] = *program::parse_hex_float(number);
      if (input.dtype == DType::kI64) value.as<std::int64_t>()[n] = std::stoll(number);
      if (input.dtype == DType::kU8) value.bytes()[n] = static_cast<std::uint8_t>(std::stoul(number));
    }
  }
  return value;
}

/// Every value of the program, by the definition (kernels/evaluate.h). Requires that each line takes the
/// operations of its estimate, or fewer where data decides; adds them to `counts`, if given.
inline kernels::ByValue<Tensor> run_program(const program::Program& program, const State& state,
                                            const StepInputs& inputs,
                                            kernels::OperationCounts* counts = nullptr) {
  kernels::ByValue<Tensor> values;
  kernels::ByValue<kernels::ValueType> types;
  for (const kernels::Primitive& line : program.values) {
    if (line.kind == kernels::Kind::kInput) {
      values.push_back(input_value(line, state, inputs));
    } else {
      const auto compiled = kernels::compile(line, types);
      REQUIRE(compiled.ok());
      kernels::ByValue<TensorView> views;
      for (const Tensor& value : values) views.push_back(value.view());
      Tensor made(line.dtype, line.shape);
      const auto counted = kernels::evaluate_and_count(*compiled, views, made);
      REQUIRE(counted.ok());
      REQUIRE(count_fault(line, *compiled, *counted) == "");
      for (std::size_t op = 0; counts && op < counted->by_op.size(); ++op)
        counts->by_op[op] += counted->by_op[op];
      values.push_back(std::move(made));
    }
    REQUIRE(values.back().shape() == line.shape);
    REQUIRE(values.back().dtype() == line.dtype);
    types.push_back({line.dtype, line.shape});
  }
  return values;
}

/// The state after the step.
inline State next_state(const program::Program& program, const State& state, const StepInputs& inputs) {
  const auto values = run_program(program, state, inputs);
  State next;
  for (const auto input : program::state_inputs(program)) {
    const kernels::Primitive& line = program.values[input];
    next.push_back({line.source.name, values[*line.next]});
  }
  return next;
}

}  // namespace dgx::test
