#include "train/training_log.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "dgx/program/specs.h"

namespace dgx::jobs {
namespace {

constexpr auto kFlushInterval = std::chrono::milliseconds(100);
constexpr std::size_t kMostWaitingBytes = std::size_t{1} << 20;
constexpr std::size_t kSecondsColumn = 5;

/// `number` rounded to 1 / `parts`, so that a row is not mostly digits that mean nothing.
double rounded(double number, double parts) { return std::round(number * parts) / parts; }

}  // namespace

namespace {

constexpr std::string_view kFactorEntry = "optimizer/plateau/factor";

/// True for a schedule, in either of its forms, that the program itself lowers.
bool is_plateau(const auto& schedule) { return schedule.kind == kernels::ScheduleKind::kPlateau; }

/// The next value of plateau's factor; nullopt in a program, which may be anybody's, without that entry.
std::optional<kernels::ValueIndex> next_factor(const program::Program& program) {
  for (const kernels::ValueIndex v : program.values.indices()) {
    const kernels::Primitive& line = program.values[v];
    const bool is_entry = line.kind == kernels::Kind::kInput &&
                          line.source.kind == kernels::Source::Kind::kState &&
                          line.source.name == kFactorEntry;
    if (is_entry && line.next && line.dtype == DType::kF32 && line.shape.empty()) return line.next;
  }
  return std::nullopt;
}

std::vector<kernels::ValueIndex> gradient_squares(const program::Program& program,
                                                  const manifest::Task& task) {
  if (!task.clip_norm) return {};
  // They are what the line of the gradients' common factor reads: min(bound / (sqrt(a + b + …) + 1e-6), 1).
  using kernels::ScalarOp;
  constexpr std::array kEnd{ScalarOp::kSqrt, ScalarOp::kAdd, ScalarOp::kDiv, ScalarOp::kMin};
  const auto makes_factor = [&](const kernels::Primitive& line) {
    const auto& steps = line.steps;
    if (line.kind != kernels::Kind::kMap || !line.shape.empty() || steps.size() < kEnd.size()) return false;
    const auto end = steps.end() - static_cast<std::ptrdiff_t>(kEnd.size());
    const auto has = [](ScalarOp op, const kernels::Step& step) { return step.op == op; };
    return std::equal(kEnd.begin(), kEnd.end(), end, has) &&
           std::all_of(steps.begin(), end,
                       [](const kernels::Step& step) { return step.op == ScalarOp::kAdd; });
  };
  const auto line = std::find_if(program.values.begin(), program.values.end(), makes_factor);
  std::vector<kernels::ValueIndex> out;
  if (line == program.values.end()) return out;
  for (const kernels::Access& access : line->accesses) {
    const kernels::Primitive& square = program.values[access.value];
    if (square.dtype != DType::kF32 || !square.shape.empty()) return {};
    out.push_back(access.value);
  }
  return out;
}

}  // namespace

std::vector<kernels::ValueIndex> LoggedValues::all() const {
  std::vector<kernels::ValueIndex> out = squares;
  if (factor) out.push_back(*factor);
  return out;
}

LoggedValues logged_values(const program::Program& program, const manifest::Task& task) {
  return {gradient_squares(program, task), is_plateau(task.schedule) ? next_factor(program) : std::nullopt};
}

std::optional<float> TrainingLog::factor_in(const State& state) {
  std::optional<float> factor;
  for (const Entry& entry : state) {
    const bool is_number = entry.tensor.count() == 1;
    if (entry.name == kFactorEntry && is_number && entry.tensor.dtype() == DType::kF32)
      factor = entry.tensor.as<float>()[0];
    if (entry.name == "step" && is_number && entry.tensor.dtype() == DType::kI64 &&
        entry.tensor.as<std::int64_t>()[0] == 0)
      return 1.0F;
  }
  return factor;
}

Result<TrainingLog> TrainingLog::open(const std::string& run, const manifest::Task& task,
                                      const LoggedValues& logged, std::int64_t position,
                                      std::span<const float> losses, std::optional<float> factor) {
  DGX_TRY(const auto schedule,
          program::schedule_parameters(task.optimizer, task.schedule, task.steps, task.update));
  const std::int64_t first = position - std::ssize(losses);  // the run's first state
  std::int64_t last = first;
  double seconds = 0;
  DGX_TRY(RunLog rows, RunLog::open(run, kTrainingFormat, [&](LogRow row) {
            const auto step = static_cast<std::int64_t>(row[kStepColumn]);
            if (step != last + 1 || step > position) return false;
            last = step;
            if (!std::isnan(row[kSecondsColumn])) seconds = row[kSecondsColumn];
            return true;
          }));
  TrainingLog log(std::move(rows), schedule, task.batch, task.dataset.samples);
  log.squares_ = logged.squares.size();
  log.last_ = last;
  log.seconds_ = seconds;
  for (std::int64_t step = last + 1; step <= position; ++step)
    DGX_CHECK(log.fill(step, losses[static_cast<std::size_t>(step - first - 1)]));
  log.factor_ = factor;
  DGX_CHECK(log.flush());
  return log;
}

double TrainingLog::epoch_of(std::int64_t position) const {
  return rounded(static_cast<double>(position) * static_cast<double>(batch_) / static_cast<double>(samples_),
                 1e6);
}

double TrainingLog::seconds() const { return rounded(seconds_, 1e3); }

LogLine TrainingLog::line_of(std::int64_t position, float loss, std::optional<float> factor) const {
  LogLine line(position);
  line.add(epoch_of(position)).add(loss);
  // As the step has it: rounded to binary32.
  const auto rate = static_cast<float>(kernels::learning_rate_at(schedule_, position - 1));
  return factor ? line.add(rate * *factor) : line.add(std::nullopt);
}

Status TrainingLog::step(std::int64_t position, float loss, std::span<const float> values) {
  const Clock::time_point now = Clock::now();
  const double took = std::chrono::duration<double>(now - started_).count();
  started_ = now;
  seconds_here_ += took;
  ++steps_here_;
  const auto squares = values.first(std::min(values.size(), squares_));
  const std::optional<float> factor = factor_;
  if (is_plateau(schedule_)) factor_ = values.size() > squares_ ? std::optional(values.back()) : std::nullopt;
  if (position <= last_) return {};
  last_ = position;
  seconds_ += took;
  LogLine line = line_of(position, loss, factor);
  if (squares.empty() || position % schedule_.accumulate != 0) {
    line.add(std::nullopt);
  } else {
    line.add(std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0F)));
  }
  line.add(seconds());
  line.add(took > 0 ? std::optional(rounded(static_cast<double>(batch_) / took, 10)) : std::nullopt);
  rows_.add(line.take());
  return now - flushed_ < kFlushInterval ? Status() : flush();
}

Status TrainingLog::fill(std::int64_t position, float loss) {
  if (position <= last_) return {};
  last_ = position;
  LogLine line = line_of(position, loss, is_plateau(schedule_) ? std::nullopt : std::optional(1.0F));
  rows_.add(line.add(std::nullopt).add(std::nullopt).add(std::nullopt).take());
  return rows_.waiting_bytes() < kMostWaitingBytes ? Status() : flush();
}

Status TrainingLog::flush() {
  flushed_ = Clock::now();
  return rows_.flush();
}

}  // namespace dgx::jobs
