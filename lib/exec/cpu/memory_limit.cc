#include "cpu/memory_limit.h"

#include <algorithm>
#include <string>
#include <utility>

#include "dgx/core/process_limits.h"
#include "dgx/exec/executor.h"
#include "plan/plan.h"

namespace dgx::exec {

Status check_memory(std::int64_t planned_bytes, int processes) {
  const std::int64_t limit = memory_limit(processes);
  if (planned_bytes <= limit) return {};
  return usage_error("a step needs " + std::to_string(planned_bytes) +
                         " bytes of memory, this process may have " + std::to_string(limit),
                     "use a smaller batch, or a machine with more memory");
}

namespace {

/// The right sides that a thread packs: for products that maps follow whole, for others up to 4 MiB.
std::int64_t packed_bytes(const Plan& plan) {
  constexpr std::int64_t kMostOfOthers = std::int64_t{4} << 20;
  std::int64_t whole = 0;
  std::int64_t others = 0;
  const auto bytes_of_right = [](const Matmul& product) {
    return kernels::cpu::PackedMatrix::size(product.shape.depth, product.shape.columns) * 4;
  };
  for (const Operation& operation : plan.operations) {
    if (const auto* const both = on_cpu<ProductMaps>(operation); both != nullptr && !both->product.b_packed)
      whole = std::max(whole, bytes_of_right(both->product));
    if (const auto* const product = on_cpu<Matmul>(operation))
      others = std::max(others, bytes_of_right(*product));
  }
  return whole + std::min(others, kMostOfOthers);
}

}  // namespace

Result<std::int64_t> needed_bytes(std::shared_ptr<const program::Program> program, int threads,
                                  const std::vector<kernels::ValueIndex>& keep) {
  DGX_TRY(const Plan plan, make_plan(std::move(program), Fusion::kFused, threads, keep));
  std::int64_t coming = 0;  // the next step's batch, gathered while this one runs
  for (const kernels::Primitive& value : plan.program->values)
    if (value.kind == kernels::Kind::kInput && value.source.kind == kernels::Source::Kind::kBatch)
      coming += bytes_of(value);
  return planned_bytes(plan, threads) + input_bytes(plan) + coming + packed_bytes(plan) * threads;
}

}  // namespace dgx::exec
