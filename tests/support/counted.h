#pragma once

#include <fmt/format.h>

#include <string>

#include "dgx/kernels/compiled.h"
#include "dgx/kernels/evaluate.h"

namespace dgx::test {

/// True if every step of the list is evaluated, whatever selects choose.
inline bool every_step_runs(const kernels::CompiledSteps& list) {
  const std::size_t count = list.steps.size();
  const std::uint64_t all = count == 0 ? 0 : ~std::uint64_t{0} >> (kernels::kMaxSteps - count);
  return list.always == all;
}

/// True if the line's operations do not depend on its data, so that their count is exact: dgx-program(5),
/// "Cost".
inline bool is_counted_exactly(const kernels::CompiledPrimitive& line) {
  const bool compares_integers =
      line.kind == kernels::Kind::kArgmax && line.steps.result.type == kernels::NumberType::kInteger;
  return !line.has_when && !compares_integers && every_step_runs(line.steps);
}

/// Compares the operations counted while a line was evaluated with those of the estimate: no operation has
/// more, and each has exactly as many where that does not depend on data. Empty if so, else what is wrong.
inline std::string count_fault(const kernels::Primitive& line, const kernels::CompiledPrimitive& compiled,
                               const kernels::OperationCounts& counted) {
  const auto estimated = kernels::count_operations(line);
  if (!estimated.ok()) return estimated.error().message;
  const bool is_exact = is_counted_exactly(compiled);
  for (std::size_t op = 0; op < counted.by_op.size(); ++op) {
    const std::int64_t ours = counted.by_op[op], most = estimated->by_op[op];
    if (is_exact ? ours == most : ours <= most) continue;
    return fmt::format("{} operations {} evaluated, {}{} estimated", ours,
                       kernels::name_of(static_cast<kernels::ScalarOp>(op)), is_exact ? "" : "at most ",
                       most);
  }
  return {};
}

}  // namespace dgx::test
