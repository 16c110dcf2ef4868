#include "dgx/jobs/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "dgx/jobs/proof_files.h"
#include "dgx/jobs/task_files.h"
#include "dgx/kernels/cpu/dispatch.h"
#include "dgx/program/initial.h"
#include "dgx/protocol/admission.h"
#include "train/segment_time.h"

namespace dgx::jobs {
namespace {

using kernels::cpu::InstructionSet;

constexpr std::size_t kMaxReplays = 256;
constexpr std::int64_t kMaxSegments = 1024;

/// The first segments of the task. The first replay makes their start states; every other replay starts from
/// these, as a verifier would.
struct Chain {
  std::int64_t segments = 0;
  std::int64_t steps = 0;     ///< steps per segment
  std::vector<State> states;  ///< before, between and after the segments
  std::vector<Digest> ends;   ///< digest of the state after each segment
};

/// The outcome of one replay of the chain.
struct Timing {
  std::int64_t differing = 0;  ///< segments that end in another state than the chain's
  double seconds = 0;          ///< time of the steps alone
};

/// Restores the instruction set in use at construction.
class InstructionSetGuard {
 public:
  InstructionSetGuard() : before_(kernels::cpu::current_instruction_set()) {}
  ~InstructionSetGuard() {
    [[maybe_unused]] const Status status = kernels::cpu::force_instruction_set(before_);
  }
  InstructionSetGuard(const InstructionSetGuard&) = delete;
  InstructionSetGuard& operator=(const InstructionSetGuard&) = delete;

 private:
  InstructionSet before_;
};

Status run_steps(exec::ExactExecutor& executor, std::int64_t steps, const JobContext& context) {
  return executor.advance(steps, [&]() -> Status {
    if (!context.stop.requested()) return {};
    return Error{ErrorCode::kInterrupted, "stopped; nothing is saved", "run it again"};
  });
}

/// Replays all segments, which the first time extends the chain.
Result<Timing> replay(exec::ExactExecutor& executor, Chain& chain, const JobContext& context) {
  Timing out;
  const bool first = chain.ends.empty();
  for (std::size_t segment = 0; segment < static_cast<std::size_t>(chain.segments); ++segment) {
    if (!first || segment == 0) DGX_CHECK(executor.load(chain.states[segment]));
    const auto begin = std::chrono::steady_clock::now();
    DGX_CHECK(run_steps(executor, chain.steps, context));
    out.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    DGX_TRY(const auto digests, executor.digests(context.threads));
    if (first) {
      chain.ends.push_back(digests.state);
      DGX_TRY(chain.states.emplace_back(), executor.state());
    }
    if (digests.state != chain.ends[segment]) ++out.differing;
  }
  return out;
}

/// 1, 2, …, `threads`; only powers of two and `threads` if all would be more than a profile can hold.
std::vector<int> thread_counts(int threads, std::size_t sets) {
  std::vector<int> out;
  const bool all = static_cast<std::size_t>(threads) * sets <= kMaxReplays;
  for (int n = 1; n < threads; n = all ? n + 1 : n * 2) out.push_back(n);
  out.push_back(threads);
  return out;
}

struct Distance {
  double relative = 0;
  double max_abs = 0;
};

/// Distance between the parameters of two states, in binary64 and in a fixed order, so that everyone gets the
/// same number.
Distance distance_of(const State& ours, const State& other) {
  double difference = 0;
  double size = 0;
  Distance out;
  for (const Entry& entry : ours) {
    const Entry* const theirs = find_entry(other, entry.name);
    if (!entry.name.starts_with("model/") || entry.tensor.dtype() != DType::kF32 || theirs == nullptr)
      continue;
    const auto a = entry.tensor.as<float>();
    const auto b = theirs->tensor.as<float>();
    for (std::size_t i = 0; i < a.size(); ++i) {
      const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
      difference += d * d;
      size += static_cast<double>(a[i]) * static_cast<double>(a[i]);
      out.max_abs = std::max(out.max_abs, std::fabs(d));
    }
  }
  out.relative = size > 0 ? std::sqrt(difference / size) : 0;
  return out;
}

/// Takes the same steps of the same task with the next seed: other initial weights, another order of the
/// data.
Result<State> other_seed(const TaskFiles& files, const bundle::Dataset& data, const State& start,
                         std::int64_t steps, const JobContext& context) {
  TaskFiles other = files;
  ++other.task.body.seed;
  State state = start;
  if (files.body().initial.source == manifest::InitialSource::kSeed) {
    DGX_TRY(state, seeded_state(files, other.task.body.seed));
  }
  DGX_TRY(const auto executor, make_executor(other, data.rows(), context.threads));
  DGX_CHECK(executor->load(state));
  DGX_CHECK(run_steps(*executor, steps, context));
  return executor->state();
}

struct Amount {
  std::int64_t segments = 0;
  std::int64_t steps = 0;
};

/// The steps and segments to replay: as asked for, within the task's; or those of the profile to recheck.
Result<Amount> amount_of(const ProfileOptions& options, const manifest::Task& task,
                         const std::optional<manifest::Signed<manifest::Profile>>& against) {
  Amount out{options.segments, options.steps};
  if (against) {
    const manifest::ProfileReplay& first = against->body.replays.front();
    out = {first.segments, first.steps / first.segments};
    if (out.segments > kMaxSegments || out.steps < 1 || out.steps * out.segments != first.steps) {
      return malformed(*options.against + ": replays: 0: steps: is not a number of steps for each segment");
    }
  }
  if (out.segments < 1 || out.segments > kMaxSegments)
    return usage_error(fmt::format("--segments must be 1 to {}", kMaxSegments));
  if (out.steps < 1) return usage_error("--steps must be at least 1");
  if (out.steps <= task.steps / out.segments) return out;
  if (against) return malformed(*options.against + ": replays more steps than the task has");
  out.segments = std::min(out.segments, task.steps);
  out.steps = task.steps / out.segments;
  return out;
}

class Profiling {
 public:
  Profiling(const TaskFiles& files, const bundle::Dataset& data, const JobContext& context)
      : files_(files), data_(data), context_(context), best_(kernels::cpu::current_instruction_set()) {}

  Result<ProfileResult> all(State start, Amount amount, bool quick) {
    const auto sets = quick ? std::vector{best_} : kernels::cpu::available_instruction_sets();
    const std::vector<int> threads =
        quick ? std::vector{context_.threads} : thread_counts(context_.threads, sets.size());
    result_.profile.task = files_.task.id;
    context_.progress.start("replaying", std::ssize(sets) * std::ssize(threads));
    DGX_TRY(const auto executor, make_executor(files_, data_.rows(), context_.threads));
    Chain chain{amount.segments, amount.steps, {start}, {}};
    DGX_CHECK(replay(*executor, chain, context_));
    {
      const InstructionSetGuard guard;
      for (const InstructionSet set : sets) {
        DGX_CHECK(kernels::cpu::force_instruction_set(set));
        for (const int count : threads) DGX_CHECK(one(chain, set, count));
      }
    }
    context_.progress.finish();
    DGX_TRY(const State other, other_seed(files_, data_, start, amount.segments * amount.steps, context_));
    const Distance distance = distance_of(chain.states.back(), other);
    result_.profile.other_seed_distance = distance.relative;
    result_.other_seed_max_abs = distance.max_abs;
    result_.profile.memory_bytes = executor->planned_bytes();
    result_.profile.operations_per_second = static_cast<std::int64_t>(
        result_.steps_per_second * static_cast<double>(files_.body().estimate.step_operations));
    return result_;
  }

 private:
  Status one(Chain& chain, InstructionSet set, int threads) {
    DGX_TRY(const auto executor, make_executor(files_, data_.rows(), threads));
    DGX_TRY(const Timing timing, replay(*executor, chain, context_));
    const std::string name(kernels::cpu::name_of(set));
    if (timing.differing > 0) {
      return internal_error(
          fmt::format("{} with {} threads: {} of {} segments end in another state than the first replay",
                      name, threads, timing.differing, chain.segments),
          "this machine or build breaks the numeric contract; do not use it");
    }
    const std::int64_t steps = chain.segments * chain.steps;
    const double each = timing.seconds / static_cast<double>(steps);
    if (each > 0) result_.steps_per_second = std::max(result_.steps_per_second, 1 / each);
    if (set == best_ && threads == context_.threads)
      result_.profile.segment_milliseconds =
          protocol::segment_milliseconds(files_.segments, timing.seconds, steps);
    result_.profile.replays.push_back(
        {name, threads, chain.segments, steps, timing.differing, static_cast<std::int64_t>(each * 1e9)});
    context_.progress.update(std::ssize(result_.profile.replays));
    return {};
  }

  const TaskFiles& files_;
  const bundle::Dataset& data_;
  const JobContext& context_;
  InstructionSet best_;
  ProfileResult result_;
};

bool same_findings(const manifest::Profile& ours, const manifest::Profile& theirs) {
  const bool none_differ =
      std::all_of(theirs.replays.begin(), theirs.replays.end(),
                  [](const manifest::ProfileReplay& replay) { return replay.differing == 0; });
  return none_differ && ours.other_seed_distance == theirs.other_seed_distance;
}

}  // namespace

Result<ProfileResult> profile(const ProfileOptions& options, const JobContext& context) {
  const bool sign = !options.key.path.empty();
  if (!sign && !options.against) return usage_error("--key is required: a profile is signed");
  DGX_TRY(Output output, Output::claim(options.output, context.clobber));
  DGX_TRY(const TaskFiles files, open_task(options.task, options.program, context.trust));
  std::optional<manifest::Signed<manifest::Profile>> against;
  if (options.against) {
    DGX_TRY(against, read_signed<manifest::Profile>(*options.against, context.trust));
    if (against->body.task != files.task.id) return malformed(*options.against + ": belongs to another task");
  }
  std::optional<crypto::SecretKey> key;
  if (sign) {
    DGX_TRY(auto read, read_key(options.key));
    key.emplace(std::move(read));
  }
  DGX_TRY(const Amount amount, amount_of(options, files.body(), against));
  DGX_TRY(const bundle::Dataset data, read_task_dataset(options.data, files.body(), context.threads));
  DGX_TRY(State start, initial_state(files, options.init));
  DGX_CHECK(output.check());
  DGX_TRY(ProfileResult out, Profiling(files, data, context).all(std::move(start), amount, options.quick));
  tell_segment_time(context.progress, files.body(), out.profile.segment_milliseconds);
  if (against) out.agrees = same_findings(out.profile, against->body);
  if (!key) return out;
  DGX_TRY(auto sealed, manifest::seal(out.profile, *key));
  out.id = sealed.id;
  out.envelope = std::move(sealed.envelope);
  if (options.output != "-") DGX_CHECK(output.write(out.envelope + "\n"));
  return out;
}

}  // namespace dgx::jobs
