#include <fmt/format.h>

#include <algorithm>

#include "bisect/segment_replay.h"
#include "dgx/bundle/trace.h"
#include "dgx/jobs/bisect.h"

namespace dgx::jobs {
namespace {

Status check_places(const TraceOptions& options, const TaskFiles& files) {
  if (options.segment < 0 || options.segment >= files.segments.count()) {
    return usage_error(fmt::format("--segment {}: the task has segments 0 to {}", options.segment,
                                   files.segments.count() - 1));
  }
  const protocol::Segment segment = files.segments[options.segment];
  if (options.step && (*options.step < segment.first || *options.step >= segment.end)) {
    return usage_error(fmt::format("--step {}: segment {} has steps {} to {}", *options.step, segment.index,
                                   segment.first, segment.end - 1));
  }
  if (options.value && !options.step) return usage_error("--value needs --step");
  const auto values = static_cast<std::int64_t>(files.program->values.size());
  if (options.value && (*options.value < 0 || *options.value >= values)) {
    return usage_error(fmt::format("--value {}: the program has values 0 to {}", *options.value, values - 1));
  }
  return {};
}

/// Adds the digests of step `--step`'s values to the trace, and the numbers of `--value`.
Status add_values(const TraceOptions& options, SegmentReplay& replay, bundle::Trace& trace) {
  if (options.value) {  // first: this traces the step, and so gives the digests, too
    DGX_TRY(Tensor numbers, replay.value(*options.step, kernels::ValueIndex(*options.value)));
    trace.numbers = {*options.value, std::move(numbers)};
  }
  DGX_TRY(auto digests, replay.values(*options.step));
  trace.values = {*options.step, std::move(digests)};
  return {};
}

Result<std::optional<Drill>> defended_drill(const TraceOptions& options, const bundle::RunIndex* run) {
  if (!options.drill) return std::optional<Drill>();
  if (run == nullptr || run->header.drill.empty())
    return usage_error(fmt::format("--drill: {} is not a run that was made with a drill", options.from));
  if (options.segment < run->segments()) return drill_of(run->header);
  return usage_error(fmt::format("--drill: {} has {} segments: no state after segment {} is committed",
                                 options.from, run->segments(), options.segment));
}

/// The requested segment or, for a run that diverged inside it, its steps before the diverging one.
Result<protocol::Segment> traced_part(const TraceOptions& options, const TaskFiles& files,
                                      const bundle::RunIndex* run) {
  protocol::Segment out = files.segments[options.segment];
  if (run != nullptr && run->diverged) out.end = std::min(out.end, run->checkpoints.back().step);
  if (options.step.value_or(out.first) < out.end) return out;
  return usage_error(
      fmt::format("{}: the run diverged at step {}, which has no state to trace", options.from, out.end));
}

/// A trace that defends a drill must lead to what the run committed.
Status check_end(const TraceOptions& options, const bundle::RunIndex* run, const Digest& end) {
  if (!options.drill) return {};
  if (run->checkpoints[static_cast<std::size_t>(options.segment) + 1].digest == end) return {};
  return malformed(
      fmt::format("{}: its drill does not lead to committed state {}", options.from, options.segment + 1));
}

}  // namespace

Result<TraceResult> trace(const TraceOptions& options, const JobContext& context) {
  DGX_CHECK(choose_instruction_set(options.isa));
  DGX_TRY(AtomicFile output, AtomicFile::create(options.output, context.clobber));
  DGX_TRY(const TaskFiles files, open_task(options.task, options.program, context.trust));
  DGX_CHECK(check_places(options, files));
  ReplaySource source(files, options.data, options.parts, context);
  source.start_from(options.from, options.segment, std::nullopt);
  DGX_CHECK(source.start());
  const bundle::RunIndex* const run = source.run();
  DGX_TRY(const protocol::Segment segment, traced_part(options, files, run));
  DGX_TRY(auto drill, defended_drill(options, run));
  SegmentReplay replay(segment, source, std::move(drill));

  bundle::Trace trace{files.task.id, segment.index, segment.first, {}, {}, {}};
  DGX_TRY(trace.states, replay.states());
  DGX_CHECK(check_end(options, run, trace.states.back()));
  if (options.step) DGX_CHECK(add_values(options, replay, trace));
  DGX_CHECK(bundle::write_trace(std::move(output), trace, {context.threads}));

  TraceResult result{segment.index,
                     segment.first,
                     segment.length(),
                     trace.states.front(),
                     trace.states.back(),
                     options.step,
                     0,
                     options.value,
                     std::nullopt,
                     std::nullopt};
  if (options.drill) result.drill = run->header.drill;
  if (trace.values) result.values = static_cast<std::int64_t>(trace.values->digests.size());
  if (trace.numbers)
    result.value_digest = trace.values->digests[static_cast<std::size_t>(trace.numbers->value)];
  return result;
}

}  // namespace dgx::jobs
