#include "dgx/jobs/train.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "dgx/bundle/constants.h"
#include "dgx/bundle/run.h"
#include "dgx/bundle/state.h"
#include "dgx/core/pages.h"
#include "dgx/jobs/drill.h"
#include "dgx/jobs/task_files.h"
#include "dgx/protocol/admission.h"
#include "train/checkpointer.h"
#include "train/drill_effect.h"
#include "train/resume_point.h"
#include "train/segment_time.h"
#include "train/training_log.h"
#include "train/training_setup.h"
#include "train/validation.h"

namespace dgx::jobs {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_now() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

std::string short_number(float value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4f", static_cast<double>(value));
  return text;
}

/// The entries that a run of this header stores once: a fault may change one that the program does not.
Result<bundle::Constants> constants_of_start(const TaskFiles& files, const bundle::RunHeader& header,
                                             const State& start, const bundle::StateDigests& digests) {
  std::vector<std::string> names;
  if (header.drill.empty()) names = program::constant_entries(*files.program);
  return bundle::constants_of(start, digests, std::move(names));
}

/// The pace of checkpoints: with parts, of which the memory is what counts, training waits for each; beside a
/// device the CPUs have little else to do.
Checkpointer::Pace pace_of(const TrainOptions& options) {
  if (options.parts > 1) return Checkpointer::Pace::kAlone;
  return options.device == ComputeDevice::kCpu ? Checkpointer::Pace::kBeside
                                               : Checkpointer::Pace::kBesideDevice;
}

/// One call of train on an open run.
struct Training {
  const TrainOptions& options;
  const JobContext& context;
  const TaskFiles& files;
  exec::StepExecutor& executor;
  bundle::RunWriter& run;
  bool continued;          // the run existed before this call
  DrilledExecutor solver;  // takes this run's steps on `executor`
  LoggedValues logged;
  std::unique_ptr<Validation> validation;  // null without data for it
  ResumePoint resume_point{options.run};
  Checkpointer checkpointer{run, resume_point, pace_of(options), context.threads};
  DrillEffect effect{files, run, executor};
  Clock::time_point saved = Clock::now();  ///< the last checkpoint or resume point, or the call's beginning
  std::vector<float> losses{};             // since the last checkpoint
  std::int64_t first_segment = 0;          // the first that this call commits
  std::optional<TrainingLog> log{};        // set once the step where the call begins is known
  TrainResult result{};
};

/// Begins to save the state as the resume point.
Status write_resume_point(Training& t) {
  DGX_CHECK(t.log->flush());
  t.saved = Clock::now();
  return t.checkpointer.save(t.executor, t.losses);
}

/// Replaces the state of the last checkpoint, and the losses since, by the resume point of the segment that
/// follows, if there is one.
bool take_up(Training& t, State& state) {
  const std::int64_t segment = t.run.index().segments();
  t.losses.clear();
  if (t.run.index().diverged || segment >= t.files.segments.count()) return false;
  auto found = t.resume_point.read(t.files.segments[segment], t.run.index(), t.context.progress);
  if (!found) return false;
  state = std::move(found->state);
  t.losses = std::move(found->losses);
  return true;
}

/// Makes the bundle of the run's first checkpoint again, where `damage` says what is wrong with it.
Status restore_first(bundle::RunWriter& run, const TaskFiles& files, const std::optional<std::string>& init,
                     const Error& damage, Progress& progress) {
  DGX_TRY(const State start, initial_state(files, init));
  DGX_TRY(const auto digests, bundle::digests_of(start));
  DGX_TRY(bundle::Constants constants, constants_of_start(files, run.index().header, start, digests));
  DGX_CHECK(run.restore_first(start, digests, std::move(constants)));
  progress.warning(damage.message + "; it was made again from the task");
  return {};
}

/// The state from which to take the next step, and the losses since the last checkpoint before it: the last
/// that is whole. Of the run that is the resume point or the last checkpoint; if the latter is damaged, the
/// resume point alone, else the last whole checkpoint before. Steps that are taken again give the same bits.
Result<State> begin_state(Training& t) {
  auto last = t.run.last_state();
  State state;
  if (last.ok()) {
    state = std::move(last->state);
    take_up(t, state);
    return state;
  }
  const Error damage = std::move(last).error();
  if (damage.code != ErrorCode::kMalformed || !t.run.last_is_damaged()) return damage;
  if (t.run.index().segments() > 0 && take_up(t, state)) {
    t.run.give_up_last();
    t.context.progress.warning(damage.message + "; training goes on from the state that was saved after it");
    return state;
  }
  auto whole = t.run.go_back();
  if (!whole.ok() && whole.error().code == ErrorCode::kMalformed) {
    DGX_CHECK(restore_first(t.run, t.files, t.options.init, whole.error(), t.context.progress));
    whole = t.run.go_back();
  }
  if (!whole.ok()) return std::move(whole).error();
  t.context.progress.warning(fmt::format("{}; training goes on from the checkpoint at step {}",
                                         damage.message, t.run.index().checkpoints.back().step));
  state = std::move(whole->state);
  take_up(t, state);
  return state;
}

/// Time of the longest segment, estimated from all steps of this call so far.
std::optional<std::int64_t> segment_milliseconds(const Training& t) {
  if (t.log->steps_here() == 0) return std::nullopt;
  return protocol::segment_milliseconds(t.files.segments, t.log->seconds_here(), t.log->steps_here());
}

/// Saves the state after a request to stop. Always an error: kInterrupted, or internal if this call, like
/// the one before it, has taken no step.
Status interrupt(Training& t) {
  const std::int64_t position = t.executor.position();
  if (t.files.segments.state_at(position) < 0) DGX_CHECK(write_resume_point(t));
  DGX_CHECK(t.checkpointer.finish());
  if (position == t.result.resumed_from && t.continued) {
    return internal_error(
        "stopped at step " + std::to_string(position) + " again, without having finished one",
        "give the job more time: each run must finish at least one step");
  }
  return Error{ErrorCode::kInterrupted,
               "stopped at step " + std::to_string(position) + " of " + std::to_string(t.files.body().steps) +
                   "; the state is saved",
               "run the same command again to continue"};
}

/// Measures the model on the validation data, if that is due after this step.
Status validate_if_due(Training& t) {
  const std::int64_t position = t.executor.position();
  if (t.validation == nullptr || !t.validation->due(position)) return {};
  DGX_CHECK(t.log->flush());
  DGX_TRY(const State state, t.executor.state());
  return t.validation->measure(state, t.run.constants(), position, t.log->epoch_of(position),
                               t.log->seconds());
}

/// Saves the state if that was asked for, and says when it is durable, or if it is time to; at the end of a
/// segment, after the commit, which saves it too.
Status save_if_due(Training& t) {
  const std::int64_t position = t.executor.position();
  const bool asked = t.context.save != nullptr && t.context.save->take();
  const auto& every = t.options.save_every;
  if (!asked && !(every && Clock::now() - t.saved >= *every)) return {};
  if (t.files.segments.state_at(position) < 0) DGX_CHECK(write_resume_point(t));
  if (!asked) return {};
  DGX_CHECK(t.checkpointer.finish());
  t.context.progress.note("saved the state after step " + std::to_string(position));
  return {};
}

/// Records the step that was just taken, and does what is due between two steps.
Status after_step(Training& t) {
  const float loss = t.executor.loss();
  t.losses.push_back(loss);
  DGX_CHECK(t.log->step(t.executor.position(), loss, t.executor.watched()));
  t.context.progress.update(t.executor.position(), "loss " + short_number(loss));
  DGX_CHECK(validate_if_due(t));
  return t.files.segments.state_at(t.executor.position()) < 0 ? save_if_due(t) : Status();
}

/// Takes steps up to `end`, or until one diverges, which the result then says, or until a stop is requested,
/// which is the error of interrupt().
Status steps_to(Training& t, std::int64_t end) {
  const auto unless_stopped = [&]() -> Status {
    return t.executor.position() < end && t.context.stop.requested() ? interrupt(t) : Status();
  };
  DGX_CHECK(unless_stopped());
  t.log->start_clock();
  Status between;  // the error of what is done between two steps: never a divergence
  Status taken = t.solver.advance(end - t.executor.position(), [&]() -> Status {
    between = after_step(t);
    if (between.ok()) between = unless_stopped();
    t.log->start_clock();
    return between;
  });
  if (taken.ok() || !between.ok() || taken.error().code != ErrorCode::kMalformed) return taken;
  t.result.divergence = taken.error().message;
  return {};
}

/// Takes the segment's steps up to `goal` and, at the segment's end, commits its last state.
Status train_segment(Training& t, const protocol::Segment& segment, std::int64_t goal) {
  const std::optional<Drill>& drill = t.solver.drill();
  if (drill && drill->segment == segment.index) {
    const std::int64_t first = t.executor.position();
    const float loss = t.executor.loss();
    t.losses.insert(t.losses.end(), static_cast<std::size_t>(segment.end - first), loss);
    DGX_CHECK(t.solver.idle(segment.end - first));
    for (std::int64_t step = first + 1; step <= segment.end; ++step) DGX_CHECK(t.log->fill(step, loss));
    DGX_CHECK(validate_if_due(t));
  } else {
    DGX_CHECK(t.effect.enter(drill, segment));
    const std::int64_t end = std::min(segment.end, goal);
    DGX_CHECK(steps_to(t, end));
    if (!t.result.divergence.empty()) return {};
    if (end < segment.end) return write_resume_point(t);
    DGX_TRY(std::string lack, t.effect.lack_of_effect());
    if (!lack.empty()) t.result.drill_without_effect = std::move(lack);
  }
  if (segment.index == t.first_segment) {
    if (const auto milliseconds = segment_milliseconds(t))
      tell_segment_time(t.context.progress, t.files.body(), *milliseconds);
  }
  DGX_CHECK(t.log->flush());
  DGX_CHECK(t.checkpointer.commit(t.executor, std::move(t.losses)));
  t.losses.clear();
  t.saved = Clock::now();
  return save_if_due(t);
}

/// Commits the state before the step that diverged. That step has overwritten it, so it is recomputed from
/// the last checkpoint, or from the resume point if there is one, so that a call that is interrupted again
/// and again makes progress.
Status end_diverged(Training& t) {
  const std::int64_t end = t.executor.position();
  std::string divergence = std::exchange(t.result.divergence, {});
  DGX_TRY(const State state, begin_state(t));
  DGX_CHECK(t.solver.load(state));
  DGX_CHECK(steps_to(t, end));
  if (t.executor.position() != end || !t.result.divergence.empty())
    return internal_error(t.result.divergence + ", but did not when it was first taken");
  t.result.divergence = std::move(divergence);
  DGX_TRY(std::string lack, t.effect.lack_of_effect_before_divergence(t.solver.drill()));
  if (!lack.empty()) t.result.drill_without_effect = std::move(lack);
  DGX_TRY(const exec::PendingState copy, t.executor.snapshot({}));
  DGX_TRY(const State last, copy());
  DGX_TRY(const auto digests, bundle::digests_of(last, t.run.constants(), t.context.threads));
  DGX_CHECK(t.checkpointer.finish());
  DGX_CHECK(t.run.diverge(last, digests, t.losses));
  t.resume_point.remove();
  return {};
}

/// The result of a call on a run that had already diverged.
TrainResult diverged_before(TrainResult result, const bundle::RunIndex& index) {
  result.steps = result.resumed_from = index.checkpoints.back().step;
  result.state = index.checkpoints.back().digest;
  result.segments = index.segments();
  if (!index.losses.empty()) result.loss = index.losses.back();
  result.divergence = fmt::format("step {} gives a state that is not finite", result.steps);
  return result;
}

/// Opens the run's tables at the executor's position.
Status open_logs(Training& t) {
  std::vector<float> losses = t.run.index().losses;
  losses.insert(losses.end(), t.losses.begin(), t.losses.end());
  const std::int64_t position = t.executor.position();
  std::optional<float> factor = 1;
  if (t.logged.factor) {
    DGX_TRY(const State state, t.executor.state());
    factor = TrainingLog::factor_in(state);
  }
  DGX_TRY(TrainingLog log,
          TrainingLog::open(t.options.run, t.files.body(), t.logged, position, losses, factor));
  t.log.emplace(std::move(log));
  if (t.validation != nullptr) DGX_CHECK(t.validation->begin(position));
  return validate_if_due(t);
}

/// The error of interrupt() if the evaluation after the last step was stopped, so that the next call makes
/// it.
Status check_validated(Training& t) {
  const bool missing = t.validation != nullptr && t.validation->due(t.executor.position());
  return missing && t.result.divergence.empty() ? interrupt(t) : Status();
}

Result<TrainResult> train_to_goal(Training& t) {
  const protocol::Segments& segments = t.files.segments;
  TrainResult& result = t.result;
  const std::int64_t total = t.files.body().steps;
  const std::int64_t goal = std::min(t.options.until.value_or(total), total);
  result.total_steps = total;
  {
    DGX_TRY(const State state, begin_state(t));
    // Not earlier: checkpoints to go back to stay until the last is known to be whole.
    if (t.run.last_is_kept()) DGX_CHECK(t.run.prune());
    if (t.run.index().diverged) return diverged_before(result, t.run.index());
    DGX_CHECK(t.solver.load(state));  // the executor has its own copy
  }
  // Without parts, checkpoints use that memory again: asking the system for it each time would cost more.
  if (t.options.parts > 1) give_back_freed();
  std::int64_t segment = t.first_segment = t.run.index().segments();
  result.resumed_from = t.executor.position();
  DGX_CHECK(open_logs(t));
  if (t.options.profile_operations) DGX_CHECK(t.executor.start_profile());
  t.context.progress.start("training", total);
  const double begin = seconds_now();
  Status status;
  for (; segment < segments.count() && status.ok() && t.executor.position() < goal; ++segment) {
    status = train_segment(t, segments[segment], goal);
    if (!result.divergence.empty()) break;
  }
  if (auto committed = t.checkpointer.finish(); !committed.ok()) return std::move(committed).error();
  if (status.ok() && !result.divergence.empty()) status = end_diverged(t);
  if (status.ok()) status = check_validated(t);
  if (Status flushed = t.log->flush(); status.ok()) status = std::move(flushed);
  result.seconds = seconds_now() - begin;
  result.checkpoint_seconds = t.checkpointer.waited_seconds();
  t.context.progress.finish();
  if (!status.ok()) return std::move(status).error();
  result.steps = t.executor.position();
  result.loss = t.executor.loss();
  if (t.files.body().ledger) result.segment_milliseconds = segment_milliseconds(t);
  if (t.options.profile_operations) result.profile = t.executor.profile();
  if (t.validation != nullptr) result.validated = t.validation->last();
  result.segments = t.run.index().segments();
  if (segments.state_at(result.steps) < 0 && !t.run.index().diverged) {
    DGX_TRY(const auto digests, t.executor.digests(t.context.threads));
    result.state = digests.state;
  } else {
    result.state = t.run.index().checkpoints.back().digest;
  }
  return result;
}

struct OpenedRun {
  bundle::RunWriter writer;
  bool continued;  ///< the run existed
};

/// kMalformed if a run does not begin with the task's initial state.
Status check_start(const std::string& folder, const bundle::RunIndex& index, const manifest::Task& task) {
  const Digest& start = index.checkpoints.front().digest;
  if (start == task.initial.digest) return {};
  return malformed(fmt::format("{}: the run begins with state {}, the task with {}", folder, start.brief(),
                               task.initial.digest.brief()));
}

/// kMalformed if the program changes an entry that a run holds once for all its states: its digest would stay
/// that of the first.
Status check_constants(const std::string& folder, const bundle::Constants& constants,
                       const program::Program& program) {
  const std::vector<std::string> constant = program::constant_entries(program);
  for (const auto& entry : constants.entries) {
    if (std::ranges::binary_search(constant, entry.name)) continue;
    return malformed(
        fmt::format("{}: the task's program changes {}, which the run holds as a constant entry, or has none",
                    bundle::constants_path(folder, constants.digest), entry.name));
  }
  return {};
}

Result<OpenedRun> open_run(const TrainOptions& options, const TaskFiles& files,
                           const bundle::RunHeader& header, const bundle::KeepPolicy& keep,
                           const JobContext& context) {
  const bundle::Effort effort = {.threads = Checkpointer::threads_of(pace_of(options), context.threads)};
  const std::string index = options.run + "/index.h5";
  if (!exists(index)) {
    DGX_TRY(const State start, initial_state(files, options.init));
    DGX_TRY(const auto digests, bundle::digests_of(start));
    DGX_TRY(bundle::Constants constants, constants_of_start(files, header, start, digests));
    auto made = bundle::RunWriter::create(options.run, header, keep, start, digests, effort,
                                          context.lock_wait, std::move(constants));
    if (made.ok()) return OpenedRun{std::move(made).value(), false};
    // While this call waited, the other process may have made the run.
    if (!exists(index)) return std::move(made).error();
  }
  DGX_TRY(auto run, bundle::RunWriter::open(options.run, header, keep, effort, context.lock_wait));
  DGX_CHECK(check_start(options.run, run.index(), files.body()));
  DGX_CHECK(check_constants(options.run, run.constants(), *files.program));
  if (const std::optional<Error> damage = run.first_damage()) {
    const Status restored = restore_first(run, files, options.init, *damage, context.progress);
    if (!restored.ok())
      context.progress.warning(damage->message +
                               "; and it cannot be made again: " + restored.error().message);
  }
  return OpenedRun{std::move(run), true};
}

}  // namespace

Result<TrainingSetup> read_setup(const TrainOptions& options, const JobContext& context) {
  if (options.run == "-") return usage_error("-o - is not possible: a run is a folder");
  DGX_CHECK(choose_instruction_set(options.isa));
  DGX_TRY(const bundle::KeepPolicy keep, bundle::parse_keep(options.keep));
  std::optional<Drill> drill;
  if (options.drill) {
    DGX_TRY(drill, parse_drill(*options.drill));
  }
  DGX_TRY(TaskFiles files, open_task(options.task, options.program, context.trust));
  if (drill) DGX_CHECK(check_drill(*drill, files, options.parts > 1 || options.mpi));
  if (drill && drill->lie && !options.mpi)
    return usage_error("drill: this training has no ranks, of which one could lie",
                       "mpirun -n P dgx-train ... --mpi");
  if (options.until && *options.until < 1) return usage_error("--until must be at least 1");
  DGX_TRY(bundle::Dataset data, read_task_dataset(options.data, files.body(), context.threads));
  const LoggedValues logged = logged_values(*files.program, files.body());
  return TrainingSetup{keep, std::move(drill), std::move(files), std::move(data), logged};
}

Result<TrainResult> train_with(const TrainingSetup& setup, exec::StepExecutor& executor,
                               const TrainOptions& options, const JobContext& context) {
  const TaskFiles& files = setup.files;
  const bundle::RunHeader header{files.task.id, files.body().program.root, files.body().checkpoint_every,
                                 options.drill.value_or("")};
  DGX_TRY(auto validation, Validation::open(options, files, context));
  auto opened = open_run(options, files, header, setup.keep, context);
  // A call that only waited for the run has made no step: whoever runs it again on 75 would do so for ever.
  if (!opened.ok() && opened.error().code == ErrorCode::kInterrupted)
    return Error{ErrorCode::kLocked, opened.error().message, "stopped while it waited"};
  DGX_TRY(OpenedRun run, std::move(opened));
  Training training{options,
                    context,
                    files,
                    executor,
                    run.writer,
                    run.continued,
                    DrilledExecutor(files, executor, setup.drill),
                    setup.logged,
                    std::move(validation)};
  return train_to_goal(training);
}

Result<TrainResult> train(const TrainOptions& options, const JobContext& context) {
  if (options.mpi) return train_on_ranks(options, context);
  DGX_TRY(const TrainingSetup setup, read_setup(options, context));
  // Made first, so that nothing is written if steps cannot be computed.
  DGX_TRY(const auto executor, make_executor_on(options.device, options.parts, setup.files, setup.data.rows(),
                                                context, setup.logged.all()));
  return train_with(setup, *executor, options, context);
}

Result<PruneResult> prune(const PruneOptions& options) {
  DGX_TRY(const bundle::KeepPolicy keep, bundle::parse_keep(options.keep));
  DGX_TRY(const bundle::RunReader before, bundle::RunReader::open(options.run));
  DGX_TRY(auto run, bundle::RunWriter::open(options.run, before.index().header, keep, {}, options.wait));
  std::vector<std::pair<std::size_t, std::int64_t>> sizes;  // checkpoint and bytes of each bundle that exists
  PruneResult result;
  for (std::size_t i = 0; i < run.index().checkpoints.size(); ++i) {
    std::error_code absent;
    const auto size =
        std::filesystem::file_size(checkpoint_path(options.run, run.index().checkpoints[i]), absent);
    if (!absent) sizes.emplace_back(i, static_cast<std::int64_t>(size));
  }
  DGX_CHECK(run.prune());
  for (const auto& [checkpoint, bytes] : sizes) {
    const bool kept = run.index().checkpoints[checkpoint].kept;
    ++(kept ? result.kept : result.removed);
    result.bytes += kept ? 0 : bytes;
  }
  return result;
}

}  // namespace dgx::jobs
