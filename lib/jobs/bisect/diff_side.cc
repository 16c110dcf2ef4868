#include "bisect/diff_side.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace dgx::jobs {
namespace {

Status check_trace(const TaskFiles& files, const bundle::Trace& trace, const std::string& path) {
  if (trace.task != files.task.id) return malformed(path + ": belongs to another task");
  if (trace.segment >= files.segments.count()) {
    return malformed(fmt::format("{}: is a trace of segment {}, the task has {}", path, trace.segment,
                                 files.segments.count()));
  }
  const protocol::Segment segment = files.segments[trace.segment];
  const std::int64_t steps = std::ssize(trace.states) - 1;  // fewer for a run that diverged
  if (trace.first_step != segment.first || steps < 1 || steps > segment.length()) {
    return malformed(fmt::format("{}: its steps are not those of segment {}, {} to {}", path, trace.segment,
                                 segment.first, segment.end - 1));
  }
  if (trace.values && trace.values->digests.size() != files.program->values.size()) {
    return malformed(fmt::format("{}: has digests of {} values, the program has {}", path,
                                 trace.values->digests.size(), files.program->values.size()));
  }
  return {};
}

/// Opens a run of this task; kMalformed for another task's.
Result<bundle::RunReader> open_run_of(const TaskFiles& files, const std::string& folder) {
  DGX_TRY(bundle::RunReader run, bundle::RunReader::open(folder));
  if (run.index().header.task != files.task.id) return malformed(folder + ": belongs to another task");
  if (run.index().segments() > files.segments.count()) {
    return malformed(fmt::format("{}: has {} segments, the task {}", folder, run.index().segments(),
                                 files.segments.count()));
  }
  return run;
}

}  // namespace

Result<DiffSide> DiffSide::open(const TaskFiles& files, const std::string& path, int threads) {
  DiffSide side(path);
  if (std::filesystem::is_directory(path)) {
    DGX_TRY(side.run_, open_run_of(files, path));
    DGX_TRY(side.drill_, drill_of(side.run_->index().header));
    return side;
  }
  DGX_TRY(side.trace_, bundle::read_trace(path, bundle::Check::kDigests, {threads}));
  DGX_CHECK(check_trace(files, *side.trace_, path));
  return side;
}

Result<Digest> DiffSide::boundary(std::int64_t segment, int side) const {
  if (trace_) return side == 0 ? trace_->states.front() : trace_->states.back();
  if (segment < run_->index().segments())
    return run_->index().checkpoints[static_cast<std::size_t>(segment + side)].digest;
  return malformed(
      fmt::format("{}: has no segment {}, the segment of the other side's trace", path_, segment));
}

protocol::Segment DiffSide::part_of(const protocol::Segment& segment) const {
  protocol::Segment out = segment;
  if (trace_) {
    out.end = trace_->first_step + std::ssize(trace_->states) - 1;
  } else if (run_->index().diverged) {
    out.end = std::min(out.end, run_->index().checkpoints.back().step);
  }
  return out;
}

void DiffSide::enter(const protocol::Segment& segment, SegmentReplay* honest, ReplaySource& source) {
  segment_ = segment;
  if (honest == nullptr) return;
  replays_.push_back(honest);
  if (!drill_) return;
  defence_ = std::make_unique<SegmentReplay>(segment, source, drill_);
  replays_.push_back(defence_.get());
}

Error DiffSide::missing(const std::string& options) const {
  return {ErrorCode::kMissing,
          fmt::format("{} has no more detail; its owner can make it: dgx-bisect trace --segment {}{}", path_,
                      segment_.index, options),
          {}};
}

template <class Ask, class Fits>
Result<SegmentReplay*> DiffSide::first_replay(Ask ask, Fits fits) const {
  for (SegmentReplay* const replay : replays_) {
    const Result<std::vector<Digest>> answer = ask(*replay);
    if (answer.ok() && fits(*answer)) return replay;
    if (!answer.ok() && answer.error().code != ErrorCode::kMalformed) return answer.error();
  }
  return static_cast<SegmentReplay*>(nullptr);
}

Result<std::vector<Digest>> DiffSide::states() {
  if (trace_) return trace_->states;
  DGX_TRY(const Digest end, boundary(segment_.index, 1));
  DGX_TRY(SegmentReplay* const replay,
          first_replay([](SegmentReplay& each) { return each.states(); },
                       [&](const auto& states) { return states.back() == end; }));
  if (replay == nullptr) return missing("");
  return replay->states();
}

Result<std::vector<Digest>> DiffSide::values(std::int64_t step) {
  if (trace_ && trace_->values && trace_->values->step == step) return trace_->values->digests;
  DGX_TRY(const auto claimed, states());
  const std::ptrdiff_t compared = step - segment_.first + 2;  // up to the state after the step
  DGX_TRY(SegmentReplay* const replay,
          first_replay([](SegmentReplay& each) { return each.states(); },
                       [&](const auto& states) {
                         return std::equal(states.begin(), states.begin() + compared, claimed.begin());
                       }));
  if (replay == nullptr) return missing(fmt::format(" --step {}", step));
  return replay->values(step);
}

Result<Tensor> DiffSide::value(std::int64_t step, kernels::ValueIndex value) {
  if (trace_ && trace_->numbers && trace_->values->step == step && trace_->numbers->value == to_number(value))
    return trace_->numbers->tensor;
  DGX_TRY(const auto claimed, values(step));
  const auto at = static_cast<std::size_t>(value);
  DGX_TRY(SegmentReplay* const replay,
          first_replay([&](SegmentReplay& each) { return each.values(step); },
                       [&](const auto& values) { return values[at] == claimed[at]; }));
  if (replay == nullptr) return missing(fmt::format(" --step {} --value {}", step, value));
  return replay->value(step, value);
}

}  // namespace dgx::jobs
