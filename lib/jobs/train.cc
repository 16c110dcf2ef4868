#include "dgx/jobs/train.h"

#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "checkpointer.h"
#include "dgx/bundle/run.h"
#include "dgx/bundle/state.h"
#include "dgx/jobs/drill.h"
#include "dgx/jobs/task_files.h"
#include "dgx/protocol/admission.h"
#include "segment_time.h"

namespace dgx::jobs {
namespace {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// The state between two checkpoints, read only by the next call: RUN/resume.h5, and the losses since the
/// last checkpoint.
struct ResumePoint {
  State state;
  std::vector<float> losses;
};

std::string resume_path(const std::string& run) { return run + "/resume.h5"; }
std::string resume_losses_path(const std::string& run) { return run + "/resume.losses"; }

void discard_resume_point(const std::string& run) {
  static_cast<void>(remove_file(resume_path(run)));
  static_cast<void>(remove_file(resume_losses_path(run)));
}

Status write_resume_point(const std::string& run, const State& state, const std::vector<float>& losses) {
  const std::string_view bytes(reinterpret_cast<const char*>(losses.data()), losses.size() * sizeof(float));
  DGX_CHECK(write_file(resume_losses_path(run), bytes, Clobber::kReplace));
  DGX_TRY(const auto digests, bundle::digests_of(state));
  return bundle::write_state(resume_path(run), state, digests, Clobber::kReplace);
}

/// The resume point, if there is a complete one strictly inside the segment.
std::optional<ResumePoint> read_resume_point(const std::string& run, const protocol::Segment& segment) {
  auto stored = bundle::read_state(resume_path(run));
  auto losses = read_file(resume_losses_path(run), std::size_t{1} << 30);
  if (!stored.ok() || !losses.ok()) return std::nullopt;
  const auto step = step_of(stored->state);
  const bool inside = step.ok() && *step > segment.first && *step < segment.end;
  if (!inside || losses->size() != static_cast<std::size_t>(*step - segment.first) * sizeof(float))
    return std::nullopt;
  ResumePoint point{std::move(stored->state), std::vector<float>(losses->size() / sizeof(float))};
  std::memcpy(point.losses.data(), losses->data(), losses->size());
  return point;
}

class Training {
 public:
  Training(const TrainOptions& options, const JobContext& context, const TaskFiles& files,
           exec::StepExecutor& executor, bundle::RunWriter& run, std::optional<Drill> drill, bool continued)
      : options_(options),
        context_(context),
        files_(files),
        executor_(executor),
        solver_(files, executor, std::move(drill)),
        checkpointer_(run),
        run_(run),
        continued_(continued) {}

  Result<TrainResult> all() {
    const std::int64_t total = files_.body().steps;
    const std::int64_t goal = std::min(options_.until.value_or(total), total);
    DGX_TRY(auto last, run_.last_state());
    result_.state = last.digests.state;
    result_.total_steps = total;
    std::int64_t segment = run_.index().segments();
    if (run_.index().diverged) return diverged_before();
    first_segment_ = segment;
    if (segment < files_.segments.count()) take_up(last.state, files_.segments[segment]);
    DGX_CHECK(solver_.load(last.state));
    last.state.clear();  // the executor has its own copy
    result_.resumed_from = executor_.position();
    if (options_.profile_operations) DGX_CHECK(executor_.start_profile());
    context_.progress.start("training", total);
    const double begin = seconds_now();
    Status status;
    for (; segment < files_.segments.count() && status.ok() && executor_.position() < goal; ++segment) {
      status = one(files_.segments[segment], goal);
      if (!result_.divergence.empty()) break;
    }
    if (auto committed = checkpointer_.finish(); !committed.ok()) return std::move(committed).error();
    if (status.ok() && !result_.divergence.empty()) status = end_diverged();
    result_.seconds = seconds_now() - begin;
    result_.checkpoint_seconds = checkpointer_.waited_seconds();
    context_.progress.finish();
    if (!status.ok()) return std::move(status).error();
    result_.steps = executor_.position();
    result_.loss = executor_.loss();
    if (files_.body().ledger) result_.segment_milliseconds = segment_milliseconds();
    if (options_.profile_operations) result_.profile = executor_.profile();
    result_.segments = run_.index().segments();
    if (files_.segments.state_at(result_.steps) < 0 && !run_.index().diverged) {
      DGX_TRY(const auto digests, executor_.digests(context_.threads));
      result_.state = digests.state;
    } else {
      result_.state = run_.index().checkpoints.back().digest;
    }
    return result_;
  }

 private:
  void take_up(State& state, const protocol::Segment& segment) {
    auto point = read_resume_point(options_.run, segment);
    if (!point) return;
    state = std::move(point->state);
    losses_ = std::move(point->losses);
  }

  Status one(const protocol::Segment& segment, std::int64_t goal) {
    const std::optional<Drill>& drill = solver_.drill();
    if (drill && drill->segment == segment.index) {
      const std::int64_t missing = segment.end - executor_.position();
      losses_.insert(losses_.end(), static_cast<std::size_t>(missing), executor_.loss());
      DGX_CHECK(solver_.idle(missing));
    } else {
      const bool faulty = drill && drill->strikes(segment);
      std::optional<State> honest_start;
      if (faulty) {
        DGX_TRY(honest_start, executor_.state());
      }
      DGX_CHECK(steps(segment, goal));
      if (executor_.position() < segment.end) return {};  // at the goal, or diverged
      if (faulty) DGX_CHECK(compare_with_honest(*honest_start));
    }
    if (segment.index == first_segment_) tell_segment_time();
    DGX_CHECK(checkpointer_.commit(executor_, std::move(losses_)));
    losses_.clear();
    discard_resume_point(options_.run);
    return {};
  }

  Status steps(const protocol::Segment& segment, std::int64_t goal) {
    const std::int64_t end = std::min(segment.end, goal);
    const Status taken = steps_to(end);
    if (!taken.ok() && taken.error().code == ErrorCode::kMalformed) {
      result_.divergence = taken.error().message;
      return {};
    }
    DGX_CHECK(taken);
    return end < segment.end ? write_resume_point() : Status();
  }

  /// Takes steps up to `end`, or until the flag to stop: then interrupt() says so.
  Status steps_to(std::int64_t end) {
    const auto unless_stopped = [&]() -> Status {
      return executor_.position() < end && context_.stop.requested() ? interrupt() : Status();
    };
    DGX_CHECK(unless_stopped());
    const std::int64_t first = executor_.position();
    const double begin = seconds_now();
    Status taken = solver_.advance(end - first, [&]() -> Status {
      losses_.push_back(executor_.loss());
      if (executor_.position() % 16 == 0) {
        context_.progress.update(executor_.position(), "loss " + short_number(executor_.loss()));
      }
      return unless_stopped();
    });
    step_seconds_ += seconds_now() - begin;
    timed_steps_ += executor_.position() - first;
    return taken;
  }

  /// Commits the state before the step that diverged. That step has overwritten it, so it is recomputed from
  /// the last checkpoint, or from the resume point if there is one, so that a call that is interrupted again
  /// and again makes progress.
  Status end_diverged() {
    const std::int64_t end = executor_.position();
    DGX_TRY(auto checkpoint, run_.last_state());
    losses_.clear();
    take_up(checkpoint.state, files_.segments[run_.index().segments()]);
    DGX_CHECK(solver_.load(checkpoint.state));
    DGX_CHECK(steps_to(end));
    DGX_TRY(const State last, executor_.state());
    DGX_TRY(const auto digests, bundle::digests_of(last, context_.threads));
    DGX_CHECK(run_.diverge(last, digests, losses_));
    discard_resume_point(options_.run);
    return {};
  }

  /// The result of a call on a run that had already diverged.
  Result<TrainResult> diverged_before() {
    const bundle::RunIndex& index = run_.index();
    result_.steps = result_.resumed_from = index.checkpoints.back().step;
    result_.segments = index.segments();
    if (!index.losses.empty()) result_.loss = index.losses.back();
    result_.divergence = fmt::format("step {} gives a state that is not finite", result_.steps);
    return result_;
  }

  /// Time of the longest segment, estimated from all steps of this call so far.
  [[nodiscard]] std::optional<std::int64_t> segment_milliseconds() const {
    if (timed_steps_ == 0) return std::nullopt;
    return protocol::segment_milliseconds(files_.segments, step_seconds_, timed_steps_);
  }

  void tell_segment_time() const {
    if (const auto milliseconds = segment_milliseconds())
      jobs::tell_segment_time(context_.progress, files_.body(), *milliseconds);
  }

  [[nodiscard]] Status write_resume_point() const {
    DGX_TRY(const State state, executor_.state());
    return jobs::write_resume_point(options_.run, state, losses_);
  }

  Status interrupt() {
    const std::int64_t position = executor_.position();
    if (files_.segments.state_at(position) < 0) {
      DGX_CHECK(write_resume_point());
    }
    if (position == result_.resumed_from && continued_) {
      return internal_error("stopped at step " + std::to_string(position) + " again, without having made one",
                            "give the job more time: a restart must finish at least one step");
    }
    return Error{ErrorCode::kInterrupted,
                 "stopped at step " + std::to_string(position) + " of " +
                     std::to_string(files_.body().steps) + "; the state is saved",
                 "the same command continues"};
  }

  /// Replays the faulty segment honestly, to find whether the fault reached a committed digest at all.
  Status compare_with_honest(const State& start) {
    DGX_TRY(const State faulty, executor_.state());
    DGX_TRY(const auto faulty_digests, executor_.digests(0));
    const std::int64_t end = executor_.position();
    DGX_CHECK(executor_.load(start));
    DGX_CHECK(executor_.advance(end - executor_.position()));
    DGX_TRY(const auto honest_digests, executor_.digests(0));
    result_.drill_changed_nothing = honest_digests.state == faulty_digests.state;
    return executor_.load(faulty);
  }

  static std::string short_number(float value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.4f", static_cast<double>(value));
    return text;
  }

  const TrainOptions& options_;
  const JobContext& context_;
  const TaskFiles& files_;
  exec::StepExecutor& executor_;
  DrilledExecutor solver_;  // takes this run's steps on executor_
  Checkpointer checkpointer_;
  bundle::RunWriter& run_;
  bool continued_;  // the run was there before this call
  std::vector<float> losses_;
  std::int64_t first_segment_ = 0;  // the first that this call commits
  double step_seconds_ = 0;
  std::int64_t timed_steps_ = 0;
  TrainResult result_;
};

Status check_drill(const Drill& drill, const TaskFiles& files) {
  if (drill.lazy() && *drill.segment >= files.segments.count()) {
    return usage_error("drill: the task has segments 0 to " + std::to_string(files.segments.count() - 1));
  }
  if (drill.lazy()) return {};
  if (drill.step >= files.body().steps) {
    return usage_error("drill: the task has steps 0 to " + std::to_string(files.body().steps - 1));
  }
  if (static_cast<std::size_t>(drill.fault.value) >= files.program->values.size()) {
    return usage_error("drill: the program has values 0 to " +
                       std::to_string(files.program->values.size() - 1));
  }
  return exec::check_fault(*files.program, drill.fault);
}

Result<bundle::RunWriter> open_run(const TrainOptions& options, const TaskFiles& files,
                                   const bundle::RunHeader& header, const bundle::KeepPolicy& keep) {
  // Checkpoints are written during training, by one thread: more would only take CPUs from it.
  constexpr bundle::Effort kBeside = {.threads = 1};
  if (exists(options.run + "/index.h5")) return bundle::RunWriter::open(options.run, header, keep, kBeside);
  DGX_TRY(const State start, initial_state(files, options.init));
  DGX_TRY(const auto digests, bundle::digests_of(start));
  return bundle::RunWriter::create(options.run, header, keep, start, digests, kBeside);
}

}  // namespace

Result<TrainResult> train(const TrainOptions& options, const JobContext& context) {
  if (options.run == "-") return usage_error("-o - is not possible: a run is a folder");
  DGX_CHECK(choose_instruction_set(options.isa));
  DGX_TRY(const bundle::KeepPolicy keep, bundle::parse_keep(options.keep));
  std::optional<Drill> drill;
  if (options.drill) {
    DGX_TRY(drill, parse_drill(*options.drill));
  }
  DGX_TRY(const TaskFiles files, open_task(options.task, options.program, context.trust));
  if (drill) DGX_CHECK(check_drill(*drill, files));
  if (options.until && *options.until < 1) return usage_error("--until must be at least 1");
  DGX_TRY(const bundle::Dataset data, open_dataset(options.data, files.body()));
  const bundle::RunHeader header{files.task.id, files.body().program.root, files.body().checkpoint_every,
                                 options.drill.value_or("")};
  const bool continued = exists(options.run + "/index.h5");
  // Made first, so that nothing is written where steps cannot be computed.
  DGX_TRY(const auto executor, make_executor_on(options.device, files, data, context));
  DGX_TRY(bundle::RunWriter run, open_run(options, files, header, keep));
  return Training(options, context, files, *executor, run, std::move(drill), continued).all();
}

}  // namespace dgx::jobs
