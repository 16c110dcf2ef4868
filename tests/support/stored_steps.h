#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dgx/core/files.h"
#include "dgx/exec/parts_executor.h"
#include "dgx/program/check.h"
#include "dgx/program/classes.h"
#include "dgx/program/cut_spec.h"
#include "in_parts.h"

namespace dgx::test {

using exec::StepExecutor;
using exec::StepInputs;

/// A stored step program with invented samples, three batches of them, and a state.
struct Stored {
  std::shared_ptr<const program::Program> program;
  std::int64_t batch = 0;
  std::int64_t slices = 0;  ///< 0: samples
  std::map<std::string, Tensor> fields;
  State state;

  explicit Stored(const std::string& name)
      : Stored(read_file(DGX_VECTORS "/" + name + ".program.jsonl", program::kMaxProgramBytes)) {}
  explicit Stored(const Result<std::string>& text) {
    REQUIRE(text.ok());
    auto parsed = program::parse_program(*text);
    REQUIRE(parsed.ok());
    REQUIRE(program::check_program(*parsed).ok());
    program = std::make_shared<program::Program>(*std::move(parsed));
    batch = *program::batch_samples(*program);
    program::Program more = *program;
    for (kernels::Primitive& line : more.values) {
      if (line.kind == kernels::Kind::kInput && line.source.kind == kernels::Source::Kind::kBatch)
        line.shape[0] *= 3;
    }
    const auto invented = invented_inputs(more, 7);
    for (const kernels::ValueIndex v : program->values.indices()) {
      const kernels::Source& source = program->values[v].source;
      const bool is_field =
          source.kind == kernels::Source::Kind::kBatch && source.name != program::kSampleNumbers;
      if (program->values[v].kind == kernels::Kind::kInput && is_field)
        fields.emplace(source.name, invented[v]);
    }
    for (const kernels::ValueIndex v : program::state_inputs(*program)) {
      const std::string& entry = program->values[v].source.name;
      state.push_back({entry, invented[v]});
      if (entry == "step") state.back().tensor.as<std::int64_t>()[0] = 0;
    }
  }

  [[nodiscard]] StepInputs inputs() const {
    StepInputs out;
    out.schedule.learning_rate = 0.01;
    out.schedule.beta1 = 0.9;
    out.schedule.beta2 = 0.999;
    out.schedule.total_steps = 100;
    out.seed = 9;
    out.batch = batch;
    out.slices = slices;
    for (const auto& [name, tensor] : fields) out.fields.emplace(name, tensor.view());
    return out;
  }
};

inline std::vector<State> states_of(StepExecutor& executor, const State& first, int steps) {
  REQUIRE(executor.load(first).ok());
  std::vector<State> states;
  for (int s = 0; s < steps; ++s) {
    const Status status = executor.step();
    if (!status.ok()) FAIL(status.error().message);
    states.push_back(executor.state().value());
  }
  return states;
}

inline void require_same(const std::vector<State>& a, const std::vector<State>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t s = 0; s < a.size(); ++s) {
    REQUIRE(a[s].size() == b[s].size());
    for (std::size_t e = 0; e < a[s].size(); ++e) {
      CAPTURE(s, a[s][e].name);
      REQUIRE(a[s][e].name == b[s][e].name);
      REQUIRE(std::ranges::equal(a[s][e].tensor.bytes(), b[s][e].tensor.bytes()));
    }
  }
}

}  // namespace dgx::test
