#include "train/validation.h"

#include "dgx/bundle/state.h"
#include "dgx/core/inputs.h"
#include "dgx/program/averages.h"

namespace dgx::jobs {

Status check_validation(const TrainOptions& options) {
  if (options.every && *options.every < 1) return usage_error("--every must be at least 1");
  if (options.every && !options.validate) return usage_error("--every needs --validate");
  return {};
}

Status check_averages(const TrainOptions& options, const TaskFiles& files) {
  if (!options.averages || files.body().update.ema) return {};
  return usage_error("--ema: the task keeps no averages", "they are those of a task with dgx-submit --ema");
}

Result<std::unique_ptr<Validation>> Validation::open(const TrainOptions& options, const TaskFiles& files,
                                                     const JobContext& context) {
  DGX_CHECK(check_validation(options));
  if (!options.validate) return std::unique_ptr<Validation>();
  if (options.init) note_input(*options.init);  // is read later
  if (is_input(best_path(options.run)))
    return usage_error(best_path(options.run) + ": is a file that the command reads, and is not replaced",
                       "name another folder for the run");
  DGX_CHECK(check_averages(options, files));
  auto out = std::unique_ptr<Validation>(new Validation(options, files, context));
  DGX_TRY(out->evaluation_, Evaluation::open(files, *options.validate, context.threads));
  return out;
}

Status Validation::begin(std::int64_t position) {
  DGX_TRY(RunLog rows, RunLog::open(run_, kValidationFormat, [&](LogRow row) {
            const auto step = static_cast<std::int64_t>(row[kStepColumn]);
            if (step > position) return false;
            last_step_ = step;
            best_.take(row);
            return true;
          }));
  rows_.emplace(std::move(rows));
  return {};
}

bool Validation::due(std::int64_t position) const {
  return position > last_step_ && (position % every_ == 0 || position == total_);
}

Status Validation::measure(const State& state, const bundle::Constants& constants, std::int64_t position,
                           double epoch, double seconds) {
  Progress silent;  // the bar is training's
  State averaged;
  if (averages_) {
    averaged = state;
    program::take_averages(averaged);
  }
  auto measured = evaluation_->measure(averages_ ? averaged : state, silent, context_.stop);
  if (!measured.ok()) {
    if (measured.error().code == ErrorCode::kInterrupted) return {};
    return std::move(measured).error();
  }
  if (measured->loss < best_.loss) {
    DGX_TRY(const auto digests, bundle::digests_of(state, constants, context_.threads));
    DGX_CHECK(bundle::write_state(best_path(run_), state, digests, constants, Clobber::kReplace,
                                  {context_.threads}));
    best_ = {position, measured->loss};
  }
  LogLine line(position);
  line.add(epoch).add(measured->loss).add(measured->accuracy).add(measured->top5);
  rows_->add(line.add(measured->perplexity).add(seconds).take());
  last_step_ = position;
  last_ = std::move(measured).value();
  return rows_->flush();
}

std::optional<Validated> Validation::last() const {
  if (!last_) return std::nullopt;
  return Validated{last_step_, *last_, best_.step};
}

}  // namespace dgx::jobs
