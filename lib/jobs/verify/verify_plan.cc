#include <algorithm>

#include "dgx/jobs/verify.h"
#include "task/allow_urls.h"
#include "task/memory_needs.h"
#include "task/work_keys.h"
#include "verify/start_states.h"
#include "verify/verify_draw.h"

namespace dgx::jobs {
namespace {

/// The steps that replaying these segments takes, those to their start states included.
std::int64_t steps_of(std::span<const std::int64_t> segments, const Verification& v,
                      const StartStates* starts) {
  std::int64_t steps = starts != nullptr ? starts->steps_to_recompute(segments) : 0;
  for (const std::int64_t index : segments) steps += v.proof.segments[index].length();
  return steps;
}

/// Looks at files that the planned call reads, and a plan does not need: a wrong one is told before the call
/// has waited for its turn.
Status check_named(const VerifyOptions& options, const Verification& v, const JobContext& context) {
  if (!options.data.empty()) DGX_CHECK(check_stated_dataset(options.data, v.files.body()));
  if (!options.work_key) return {};
  DGX_TRY(const WorkKeys keys, WorkKeys::find(nullptr, options.work_key, context.progress));
  return {};
}

/// The most steps of one of `count` shards.
Result<std::int64_t> most_steps(std::int64_t count, const Verification& v, const StartStates* starts) {
  std::int64_t most = 0;
  for (std::int64_t i = 0; i < std::min(count, std::ssize(v.drawn)); ++i) {
    DGX_TRY(const auto segments, protocol::shard_segments(v.drawn, i, count));
    most = std::max(most, steps_of(segments, v, starts));
  }
  return most;
}

}  // namespace

Result<VerifyPlan> plan_verification(const VerifyOptions& options, const RateSource& rate,
                                     const JobContext& context) {
  DGX_TRY(const auto operations, operations_per_second(rate, context));
  DGX_CHECK(allow_urls({options.from, options.data}, options.insecure, context));
  DGX_TRY(const Verification v, open_verification(options, context));
  DGX_CHECK(check_named(options, v, context));
  VerifyPlan out;
  out.draw = v.assignment.draw;
  out.segments = v.drawn;
  out.task_segments = v.proof.segments.count();
  out.chances = {protocol::miss_probabilities(v.proof.segments, v.drawn), v.proof.segments.between(),
                 v.proof.segments.diverged() ? Diverged::kYes : Diverged::kNo};
  if (options.shard) {
    DGX_TRY(const ShardName name, parse_shard(*options.shard));
    DGX_TRY(out.segments, protocol::shard_segments(v.drawn, name.index, name.count));
    out.needs.shards = name.count;
  }
  std::optional<StartStates> starts;
  if (!options.from.empty()) {
    DGX_TRY(auto opened, StartStates::open(options.from, v.proof, context.threads));
    starts.emplace(std::move(opened));
  }
  const StartStates* const from = starts ? &*starts : nullptr;
  out.steps = steps_of(out.segments, v, nullptr);
  out.recomputed_steps = steps_of(out.segments, v, from) - out.steps;
  DGX_TRY(out.work, protocol::replay_work(v.files.body(), v.proof.segments, out.segments));
  out.start_bytes = std::ssize(out.segments) * v.files.body().caps.bytes;
  DGX_TRY(out.needs.memory_bytes, replay_memory(v.files, context.threads));
  out.needs.memory_bytes += server_memory(options.from) + server_memory(options.data);
  out.needs.state_bytes = 2 * std::ssize(out.segments) * state_bytes(v.files);
  if (out.needs.shards) {
    const std::int64_t count = *out.needs.shards;
    out.last = Needs{kSecondsPerFile * static_cast<double>(count),
                     merge_memory(std::ssize(v.proof.states), std::ssize(v.drawn), count)};
  }
  if (!operations) return out;
  const double each = static_cast<double>(v.files.body().estimate.step_operations) / *operations;
  out.needs.seconds = each * static_cast<double>(out.steps + out.recomputed_steps);
  if (!out.needs.shards) return out;
  DGX_TRY(const std::int64_t most, most_steps(*out.needs.shards, v, from));
  out.needs.longest_seconds = each * static_cast<double>(most);
  return out;
}

}  // namespace dgx::jobs
