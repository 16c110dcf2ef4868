#include "dgx/protocol/admission.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "dgx/core/checked.h"
#include "dgx/kernels/schedule.h"
#include "dgx/manifest/fields.h"
#include "dgx/manifest/verdict.h"
#include "dgx/program/cost.h"
#include "dgx/program/cut_spec.h"
#include "dgx/program/specs.h"
#include "dgx/protocol/draw.h"
#include "dgx/protocol/estimate.h"
#include "dgx/protocol/forced.h"
#include "dgx/protocol/payouts.h"

namespace dgx::protocol {
namespace {

using manifest::DatasetField;
using manifest::Task;

/// A quarter of binary32's range, which leaves room for the roundings of any power.
constexpr double kMaxScheduled = 0x1p126;

/// Measured replays of the longest segment that must fit into a move's window: four, for the digests of inner
/// states and a machine busy with other things, and as long again for reading, signing and sending.
constexpr std::int64_t kSegmentsInWindow = 8;

/// Checks the work of the longest segment, which its defender replays within a move. Only a ledger's moves
/// have a time. kUsage: such a task is whole, but no market with its policy takes it.
Status check_segment_work(const Task& task, const Segments& segments) {
  if (!task.ledger) return {};
  const auto work = checked_mul(segments.longest(), task.estimate.step_operations);
  if (work && *work <= task.policy.segment_operations) return {};
  return usage_error(
      fmt::format("checkpoint_every: the longest segment has {} steps of {} operations, the policy's "
                  "segment_operations are {}",
                  segments.longest(), task.estimate.step_operations, task.policy.segment_operations));
}

Status check_segments(const Task& task) {
  DGX_TRY(const Segments segments, Segments::of(task.steps, task.checkpoint_every));
  if (segments.count() <= kMaxSegments) return check_segment_work(task, segments);
  return malformed(
      fmt::format("checkpoint_every: gives {} segments, at most {} allowed", segments.count(), kMaxSegments));
}

Status check_countable(std::string_view what, std::int64_t a, std::int64_t b) {
  const auto product = checked_mul(a, b);
  if (product && *product <= manifest::kMaxInteger) return {};
  return malformed(fmt::format("{} exceeds 2^53", what));
}

Status check_data(const Task& task) {
  for (const auto& [name, field] : task.dataset.fields) {
    DGX_TRY(const std::int64_t numbers, element_count(field.shape));
    DGX_CHECK(check_countable(fmt::format("dataset: {}", name), task.dataset.samples, numbers));
  }
  return check_countable("batch: times the steps", task.steps, task.batch);
}

/// Everything that a program can name of a schedule stays finite if the largest rate r, r / (1 - b1) and r wd
/// do. The largest rate is at an end of a part of the schedule, since within each part rates only rise or
/// only fall.
Status check_schedule(const Task& task) {
  const auto schedule = program::schedule_parameters(task.optimizer, task.schedule, task.steps, task.update);
  if (!schedule.ok()) return malformed("schedule: " + schedule.error().message);
  const double last = kernels::learning_rate_at(*schedule, task.steps - 1);
  const double rate = std::max(schedule->learning_rate, last);
  std::vector<kernels::ScheduleGroup> groups = schedule->groups;
  groups.push_back({1, schedule->weight_decay});
  for (const kernels::ScheduleGroup& group : groups) {
    const double own = rate * group.factor;
    const double scaled = own / (1.0 - schedule->beta1);
    const double decay = own * group.weight_decay;
    for (const double number : {last, own, scaled, decay}) {
      if (!(number <= kMaxScheduled))
        return malformed("schedule: its numbers reach beyond 2^126: the run would end there");
    }
  }
  return {};
}

/// A name of a group that the task does not have has no number.
Status check_groups(const Task& task, const kernels::Primitive& input) {
  for (const std::string& text : input.source.of) {
    const auto name = kernels::parse_schedule_name(text);
    if (!name || static_cast<std::size_t>(name->group) > task.update.groups.size()) {
      return malformed(fmt::format("groups: the program's schedule has {}, the task {} groups", text,
                                   task.update.groups.size()));
    }
  }
  return {};
}

Status check_batch(const Task& task, const kernels::Primitive& input) {
  const DatasetField* const field = task.dataset.find(input.source.name);
  const bool is_numbers = field == nullptr && input.source.name == program::kSampleNumbers;
  if (field == nullptr && !is_numbers)
    return malformed(fmt::format("dataset: has no field {}, which the program reads", input.source.name));
  const DatasetField row = is_numbers ? DatasetField{DType::kI64, {}} : *field;
  Shape shape{task.batch};
  shape.insert(shape.end(), row.shape.begin(), row.shape.end());
  if (input.dtype == row.dtype && input.shape == shape) return {};
  return malformed(fmt::format("dataset: the program's batch {} is {} {}, the task's {} {}",
                               input.source.name, name_of(input.dtype), to_string(input.shape),
                               name_of(row.dtype), to_string(shape)));
}

/// The estimate's work must follow from the task's program, or anybody could set the price.
Status check_price(const Task& task, const program::Program& program) {
  const program::Cost cost = program::cost_of(program);
  if (task.estimate.step_operations != cost.total_operations) {
    return malformed(fmt::format("estimate: a step has {} operations, not {}", cost.total_operations,
                                 task.estimate.step_operations));
  }
  if (task.caps.bytes != cost.state_bytes) {
    return malformed(fmt::format("caps: a state has {} bytes, not {}", cost.state_bytes, task.caps.bytes));
  }
  if (task.caps.constant_bytes != cost.constant_bytes) {
    return malformed(fmt::format("caps: entries that no step changes have {} bytes, not {}",
                                 cost.constant_bytes, task.caps.constant_bytes));
  }
  return check_estimate(task);
}

/// The bond must pay at least twice for the check that finds the cheat, and deter a solver without outside
/// benefit.
Status check_bonds(const Task& task) {
  const manifest::Estimate& estimate = task.estimate;
  const std::int64_t bond = bonds_of(task).solver;
  // Cannot overflow: three parts of an escrow of at most 2^53.
  const std::int64_t least = 2 * (estimate.fee + estimate.tax + estimate.treasury);
  if (bond < least) {
    return usage_error(
        fmt::format("the solver's bond of {} is below 2 (fee + tax + treasury) = {}", bond, least),
        "the market's solver_bond_ppm is too low for tasks of this price");
  }
  if (task.policy.unsafe_bonds == 1) return {};
  DGX_TRY(const std::int64_t deterring, least_solver_bond(task));
  if (bond >= deterring) return {};
  return usage_error(fmt::format("the solver's bond of {} is below C - R = {}", bond, deterring),
                     "see dgx-settle bounds; a policy with unsafe_bonds 1 accepts such tasks");
}

Status check_store(const Task& task) {
  DGX_TRY(const std::int64_t bytes, opening_bytes(task));
  if (bytes <= task.policy.store_bytes) return {};
  return usage_error(fmt::format("an opening may take {} bytes, the market's store accepts {}", bytes,
                                 task.policy.store_bytes),
                     "use fewer or smaller states, or draw a smaller part of them");
}

/// Checks that a verdict has room for its witnesses, which each states where verdicts are audited.
Status check_audits(const Task& task) {
  if (!rechecks_verdicts(task.policy)) return {};
  DGX_TRY(const Segments segments, Segments::of(task.steps, task.checkpoint_every));
  // A proof that diverged has a step more.
  const std::int64_t rows = drawn_count(task, segments) + 1;
  if (rows <= static_cast<std::int64_t>(manifest::kMostWitnesses)) return {};
  return usage_error(fmt::format("a verdict may have {} rows, in a market that audits verdicts at most {}",
                                 rows, manifest::kMostWitnesses),
                     "use fewer segments, or draw a smaller part of them");
}

}  // namespace

Status check_terms(const Task& task) {
  DGX_CHECK(check_bonds(task));
  DGX_CHECK(check_audits(task));
  return check_store(task);
}

Status check_admission(const Task& task) {
  DGX_CHECK(check_segments(task));
  DGX_CHECK(check_data(task));
  return check_schedule(task);
}

Status check_admission(const Task& task, const program::Program& program) {
  DGX_CHECK(check_admission(task));
  for (const kernels::Primitive& line : program.values) {
    if (line.kind != kernels::Kind::kInput) continue;
    if (line.source.kind == kernels::Source::Kind::kBatch) DGX_CHECK(check_batch(task, line));
    if (line.source.kind == kernels::Source::Kind::kSchedule) DGX_CHECK(check_groups(task, line));
  }
  return check_price(task, program);
}

std::int64_t segment_milliseconds(const Segments& segments, double seconds, std::int64_t steps) {
  constexpr auto kMost = static_cast<double>(manifest::kMaxInteger);
  const double each = seconds * 1e3 / static_cast<double>(steps);
  return static_cast<std::int64_t>(
      std::clamp(std::ceil(each * static_cast<double>(segments.longest())), 1.0, kMost));
}

std::int64_t most_segment_milliseconds(const manifest::Policy& policy) {
  return policy.window_move_ms / kSegmentsInWindow;
}

Status check_segment_time(const Task& task, std::optional<std::int64_t> milliseconds) {
  if (!task.ledger) return {};
  if (!milliseconds)
    return usage_error("segment_milliseconds: is missing",
                       "dgx-profile --quick measures it; give the profile with --profile");
  if (*milliseconds <= most_segment_milliseconds(task.policy)) return {};
  return usage_error(fmt::format("segment_milliseconds: the longest segment takes {} ms: four times that "
                                 "exceeds half of window_move_ms, {}",
                                 *milliseconds, task.policy.window_move_ms),
                     "use a faster machine, or a task with shorter segments");
}

}  // namespace dgx::protocol
