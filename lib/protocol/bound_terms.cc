#include "bound_terms.h"

#include <fmt/format.h>

#include <algorithm>

#include "dgx/core/checked.h"
#include "dgx/protocol/draw.h"
#include "dgx/protocol/estimate.h"
#include "dgx/protocol/segments.h"

namespace dgx::protocol {
namespace {

/// The numbers that follow from a task.
Status set_task(const manifest::Task& task, Terms& out) {
  DGX_TRY(const Segments segments, Segments::of(task.steps, task.checkpoint_every));
  out.segments = segments.count();
  out.reward = task.estimate.reward;
  DGX_TRY(out.cost, mul_div(task.estimate.train, task.price, kPriceUnit));
  DGX_TRY(out.replay_price, mul_div(task.estimate.verify, task.price, kPriceUnit));
  out.recheck = static_cast<std::int64_t>(wide_ceil(Wide{task.estimate.verify} * task.price, kPriceUnit));
  return {};
}

}  // namespace

Result<Terms> terms_of(const manifest::Policy& policy, const manifest::Task* task, const BoundsInput& input) {
  if (input.alpha_ppm < 0 || input.alpha_ppm >= kMillion)
    return usage_error(fmt::format("--alpha: {} is not 0 to {}", input.alpha_ppm, kMillion - 1));
  if (input.tasks < 1 || input.tasks > kMillion)
    return usage_error(fmt::format("--tasks: {} is not 1 to {}", input.tasks, kMillion));
  Terms out{policy, input};
  if (task != nullptr) DGX_CHECK(set_task(*task, out));
  out.sampled = sample_count(policy, out.segments, out.segments);
  out.segment = ceil_div(out.cost, out.segments);
  if (task == nullptr) out.recheck = out.replay_price = out.segment * out.sampled;
  out.fee = policy.verifier_fee + out.replay_price;
  DGX_TRY(out.tax, mul_div(out.reward, policy.jackpot_tax_ppm, kMillion));
  DGX_TRY(out.treasury, mul_div(out.reward, policy.treasury_ppm, kMillion));
  DGX_TRY(const std::int64_t solver_part, mul_div(out.reward, policy.solver_bond_ppm, kMillion));
  DGX_TRY(const std::int64_t verifier_part, mul_div(out.reward, policy.verifier_bond_ppm, kMillion));
  DGX_TRY(const std::int64_t challenger_part, mul_div(out.reward, policy.challenger_bond_ppm, kMillion));
  out.solver_bond = policy.solver_bond + solver_part;
  out.verifier_bond = policy.verifier_bond + verifier_part;
  out.challenger_bond = policy.challenger_bond + challenger_part;
  return out;
}

Wide finders_sum(const Terms& terms) {
  return Wide{terms.solver_bond} * terms.policy.split_verifier_ppm / kMillion;
}

std::string text_of(Wide number) {
  constexpr Wide kMost = Wide{1} << 62;
  return fmt::format("{}", static_cast<std::int64_t>(std::clamp(number, -kMost, kMost)));
}

}  // namespace dgx::protocol
