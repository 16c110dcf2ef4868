#include "dgx/bundle/run.h"
#include "dgx/core/checked.h"
#include "dgx/jobs/task_files.h"
#include "dgx/jobs/train.h"
#include "task/memory_needs.h"
#include "train/resume_point.h"

namespace dgx::jobs {

Result<TrainPlan> plan_training(const TrainOptions& options, const RateSource& rate,
                                const JobContext& context) {
  DGX_TRY(const auto operations, operations_per_second(rate, context));
  DGX_TRY(const TaskFiles files, open_task(options.task, options.program, context.trust));
  TrainPlan out;
  if (!options.run.empty() && exists(options.run + "/index.h5")) {
    DGX_TRY(const bundle::RunReader run, bundle::RunReader::open(options.run));
    if (run.index().header.task != files.task.id)
      return malformed(options.run + "/index.h5: belongs to another task");
    const bool over = run.index().diverged;
    out.done_steps = over ? files.body().steps : run.index().checkpoints.back().step;
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
  if (operations) out.needs.seconds = static_cast<double>(out.work) / *operations;
  return out;
}

}  // namespace dgx::jobs
