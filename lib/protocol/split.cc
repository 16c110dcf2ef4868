#include "dgx/protocol/split.h"

#include <fmt/format.h>

#include <array>

#include "dgx/core/checked.h"
#include "dgx/manifest/fields.h"
#include "dgx/protocol/draw.h"
#include "dgx/protocol/estimate.h"
#include "dgx/protocol/segments.h"

namespace dgx::protocol {
namespace {

using manifest::Estimate;
using Part = Split::Part;

/// The numbers that parts add up to.
constexpr std::array kCounts = {&Part::steps, &Part::segments, &Part::sampled};
constexpr std::array kAmounts = {&Estimate::train,    &Estimate::prove,  &Estimate::verify,
                                 &Estimate::reward,   &Estimate::fee,    &Estimate::tax,
                                 &Estimate::treasury, &Estimate::margin, &Estimate::escrow};

Status add_to(std::int64_t& sum, std::int64_t amount) {
  const auto out = checked_add(sum, amount);
  if (!out || *out > manifest::kMaxInteger) return usage_error("the sum of all parts exceeds 2^53");
  sum = *out;
  return {};
}

Status add_to(Part& sum, const Part& part) {
  for (const auto count : kCounts) DGX_CHECK(add_to(sum.*count, part.*count));
  for (const auto amount : kAmounts) DGX_CHECK(add_to(sum.estimate.*amount, part.estimate.*amount));
  sum.estimate.step_operations = part.estimate.step_operations;
  return {};
}

/// The task with so many steps.
Result<Part> part_of(const manifest::Task& task, std::int64_t steps) {
  DGX_TRY(const Segments segments, Segments::of(steps, task.checkpoint_every));
  Part out{steps, segments.count(), sample_count(task.policy, segments.count(), segments.count()), {}};
  DGX_TRY(out.estimate, estimate(estimate_input(task, steps), task.policy));
  return out;
}

Part difference(const Part& a, const Part& b) {
  Part out;
  for (const auto count : kCounts) out.*count = a.*count - b.*count;
  for (const auto amount : kAmounts) out.estimate.*amount = a.estimate.*amount - b.estimate.*amount;
  return out;
}

}  // namespace

Result<Split> split(const manifest::Task& task, std::int64_t parts) {
  DGX_TRY(const Segments segments, Segments::of(task.steps, task.checkpoint_every));
  const std::int64_t count = segments.count();
  if (parts < 2 || parts > count)
    return usage_error(
        fmt::format("{} parts of a task that has {} segments: each part has at least one", parts, count),
        count < 2 ? "" : fmt::format("2 to {} parts are possible", count));
  Split out;
  std::int64_t first = 0;
  for (std::int64_t n = 0; n < parts; ++n) {
    const std::int64_t end = first + count / parts + (n < count % parts ? 1 : 0);
    DGX_TRY(out.parts.emplace_back(), part_of(task, segments.boundary(end) - segments.boundary(first)));
    DGX_CHECK(add_to(out.sum, out.parts.back()));
    first = end;
  }
  DGX_TRY(const Part whole, part_of(task, task.steps));
  out.more = difference(out.sum, whole);
  return out;
}

}  // namespace dgx::protocol
