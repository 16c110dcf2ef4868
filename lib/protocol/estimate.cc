#include "dgx/protocol/estimate.h"

#include <fmt/format.h>

#include <algorithm>

#include "dgx/core/checked.h"
#include "dgx/manifest/fields.h"
#include "dgx/protocol/draw.h"
#include "dgx/protocol/segments.h"

namespace dgx::protocol {
namespace {

constexpr std::int64_t kMillion = 1'000'000;

// Every number of an estimate is an exact JSON number. So each product and each part is bounded by 2^53, and
// sums of a few of them cannot overflow.
Error too_large(std::string_view what) {
  return usage_error(fmt::format("estimate: {} exceeds 2^53", what), "split the task into smaller ones");
}

Result<std::int64_t> product(std::string_view what, std::int64_t a, std::int64_t b) {
  const auto out = checked_mul(a, b);
  if (!out || *out > manifest::kMaxInteger) return too_large(what);
  return *out;
}

/// floor(a · b / divisor).
Result<std::int64_t> part(std::string_view what, std::int64_t a, std::int64_t b, std::int64_t divisor) {
  const auto out = mul_div(a, b, divisor);
  if (!out.ok() || *out > manifest::kMaxInteger) return too_large(what);
  return *out;
}

/// Steps that a verifier of the policy's draw replays: of a proof's segments those drawn, and the diverging
/// step. `whole` are the task's segments.
Result<std::int64_t> replayed_steps(const Segments& whole, const Segments& segments,
                                    const manifest::Policy& policy) {
  const std::int64_t count = sample_count(policy, whole.count(), segments.between());
  DGX_TRY(const std::int64_t drawn, product("verification", count, segments.longest()));
  return drawn + (segments.diverged() ? 1 : 0);
}

/// The estimate for the steps computed, the states committed and the steps that a verifier replays, of which
/// at most as many count as in the whole task.
Result<manifest::Estimate> estimate_of(const EstimateInput& input, const Segments& whole,
                                       const Segments& segments, const manifest::Policy& policy) {
  const std::int64_t computed = segments.steps() + (segments.diverged() ? 1 : 0);
  manifest::Estimate out;
  out.step_operations = input.step_operations;
  DGX_TRY(out.train, product("training", computed, input.step_operations));
  DGX_TRY(const std::int64_t changed,
          product("hashing", segments.states(), input.state_bytes - input.constant_bytes));
  DGX_TRY(out.prove, product("hashing", input.constant_bytes + changed, kOperationsPerHashedByte));
  DGX_TRY(const std::int64_t most_replayed, replayed_steps(whole, whole, policy));
  DGX_TRY(const std::int64_t replayed, replayed_steps(whole, segments, policy));
  DGX_TRY(out.verify, product("verification", std::min(replayed, most_replayed), input.step_operations));

  DGX_TRY(out.reward, part("reward", out.train + out.prove, input.price, kPriceUnit));
  DGX_TRY(const std::int64_t replay_price, part("fee", out.verify, input.price, kPriceUnit));
  out.fee = replay_price + policy.verifier_fee;
  DGX_TRY(out.tax, part("tax", out.reward, policy.jackpot_tax_ppm, kMillion));
  DGX_TRY(out.treasury, part("treasury", out.reward, policy.treasury_ppm, kMillion));
  DGX_TRY(out.margin, part("margin", out.reward + out.fee, policy.margin_ppm, kMillion));
  out.escrow = out.reward + out.fee + out.tax + out.treasury + out.margin;
  if (out.escrow > manifest::kMaxInteger) return too_large("escrow");
  return out;
}

}  // namespace

EstimateInput estimate_input(const manifest::Task& task, std::int64_t steps) {
  return {task.estimate.step_operations, task.caps.bytes, steps,
          task.checkpoint_every,         task.price,      task.caps.constant_bytes};
}

Result<manifest::Estimate> estimate(const EstimateInput& input, const manifest::Policy& policy) {
  DGX_TRY(const Segments segments, Segments::of(input.steps, input.checkpoint_every));
  return estimate_of(input, segments, segments, policy);
}

manifest::Estimate earned(const manifest::Task& task, const manifest::Proof& proof) {
  if (!proof.diverged) return task.estimate;
  const Segments whole = *Segments::of(task.steps, task.checkpoint_every);
  const Segments segments = *Segments::of_diverged(proof.steps, task.checkpoint_every);
  // The fee is at most the task's, also where the diverging step makes one more to replay. With that no
  // number exceeds the task's, whose estimate has been checked: an error here would be ours.
  return *estimate_of(estimate_input(task, task.steps), whole, segments, task.policy);
}

Status check_estimate(const manifest::Task& task) {
  DGX_TRY(const manifest::Estimate expected, estimate(estimate_input(task, task.steps), task.policy));
  if (expected == task.estimate) return {};
  return malformed(fmt::format("task: estimate: is not what its own numbers give (escrow {}, should be {})",
                               task.estimate.escrow, expected.escrow));
}

std::int64_t least_solver_bond(std::int64_t cost, std::int64_t reward) {
  return std::max<std::int64_t>(0, cost - reward);
}

Result<std::int64_t> opening_bytes(const manifest::Task& task) {
  constexpr std::int64_t kPerFile = 65'536;  // most bytes of a bundle's container
  // A state has at most as many entries as its program has lines.
  constexpr std::int64_t kPerEntry = 4'096;  // and for each entry
  constexpr std::int64_t kPerState = 32;
  DGX_TRY(const Segments segments, Segments::of(task.steps, task.checkpoint_every));
  // One start state more than are drawn: a diverged proof also shows its last state.
  const std::int64_t starts = drawn_count(task, segments) + 1;
  DGX_TRY(const std::int64_t bytes,
          product("an opening", starts, task.caps.bytes + kPerEntry * task.program.lines + kPerFile));
  const std::int64_t out = bytes + kPerState * segments.states() + kPerFile;
  if (out > manifest::kMaxInteger) return too_large("an opening");
  return out;
}

Result<std::int64_t> least_solver_bond(const manifest::Task& task) {
  DGX_TRY(const std::int64_t cost, part("training", task.estimate.train, task.price, kPriceUnit));
  return least_solver_bond(cost, task.estimate.reward);
}

}  // namespace dgx::protocol
