#include "dgx/bundle/run.h"
#include "dgx/core/checked.h"
#include "dgx/jobs/task_files.h"
#include "dgx/jobs/train.h"
#include "task/memory_needs.h"
#include "train/evaluation.h"
#include "train/resume_point.h"
#include "train/validation.h"

namespace dgx::jobs {
namespace {

/// The evaluations from the run's last step on, whose own may be missing, to the last of the task.
std::int64_t validations_left(std::int64_t done, std::int64_t total, std::int64_t every) {
  const bool is_begun = done > 0 && done % every == 0 && done < total;
  return total / every - done / every + (is_begun ? 1 : 0) + (total % every != 0 || done == total ? 1 : 0);
}

/// Adds what evaluating besides takes: each works on a copy of the state, and may be the best, which is
/// hashed and written.
Status add_validations(const TrainOptions& options, const TaskFiles& files, int threads, TrainPlan& plan) {
  const std::int64_t every = options.every.value_or(files.body().checkpoint_every);
  DGX_CHECK(check_averages(options, files));
  DGX_TRY(const EvaluationNeeds each, plan_evaluation(files, *options.validate, threads));
  plan.validations = validations_left(plan.done_steps, files.body().steps, every);
  plan.work = add_up(plan.work, multiply(plan.validations, each.work));
  const std::int64_t copies = options.averages ? 2 : 1;
  plan.needs.memory_bytes += each.memory_bytes + copies * state_bytes(files) + writer_memory(files);
  plan.needs.state_bytes = add_up(plan.needs.state_bytes, multiply(plan.validations, state_bytes(files)));
  return {};
}

}  // namespace

Result<TrainPlan> plan_training(const TrainOptions& options, const RateSource& rate,
                                const JobContext& context) {
  DGX_CHECK(check_validation(options));
  DGX_TRY(const auto operations, operations_per_second(rate, context));
  DGX_TRY(const TaskFiles files, open_task(options.task, options.program, context.trust));
  TrainPlan out;
  bool is_over = false;
  if (!options.run.empty() && exists(options.run + "/index.h5")) {
    DGX_TRY(const bundle::RunReader run, bundle::RunReader::open(options.run));
    if (run.index().header.task != files.task.id)
      return malformed(options.run + "/index.h5: belongs to another task");
    is_over = run.index().diverged;
    out.done_steps = is_over ? files.body().steps : run.index().checkpoints.back().step;
    if (out.done_steps < files.body().steps) {
      const auto found = ResumePoint(options.run)
                             .read(files.segments[run.index().segments()], run.index(), context.progress);
      if (found) out.done_steps += std::ssize(found->losses);
    }
  }
  out.steps = files.body().steps - out.done_steps;
  out.work =
      checked_mul(out.steps, files.body().estimate.step_operations).value_or(files.body().estimate.train);
  DGX_TRY(out.needs.memory_bytes, training_memory(files, context.threads));
  out.needs.state_bytes = 2 * state_bytes(files);
  if (options.validate && !is_over) DGX_CHECK(add_validations(options, files, context.threads, out));
  if (operations) out.needs.seconds = static_cast<double>(out.work) / *operations;
  return out;
}

}  // namespace dgx::jobs
