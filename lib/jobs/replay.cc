#include "replay.h"

#include <fmt/format.h>

#include <filesystem>

#include "dgx/bundle/format.h"
#include "dgx/bundle/sample.h"
#include "dgx/bundle/state.h"
#include "dgx/merkle/digests.h"

namespace dgx::jobs {

Status Replay::load(const State& state) {
  segment_start_.clear();
  return executor_.load(state);
}

Result<Digest> Replay::digest(int threads) const {
  DGX_TRY(const State now, executor_.state());
  DGX_TRY(const auto digests, bundle::digests_of(now, threads));
  return digests.state;
}

bool Replay::lazy_here() const {
  if (!drill_ || !drill_->lazy() || *drill_->segment >= files_.segments.count()) return false;
  const protocol::Segment segment = files_.segments[*drill_->segment];
  return position() >= segment.first && position() < segment.end;
}

Status Replay::note_segment_start() {
  if (!segment_start_.empty()) return {};
  DGX_TRY(segment_start_, executor_.state());
  return {};
}

State Replay::lazy_next() const {
  return lazy_state(segment_start_, position() + 1 - files_.segments[*drill_->segment].first);
}

Status Replay::step() {
  if (lazy_here()) {
    DGX_CHECK(note_segment_start());
    return executor_.load(lazy_next());
  }
  const bool fault_now = drill_ && !drill_->lazy() && position() == drill_->step;
  return fault_now ? executor_.trace(drill_->fault, {}) : executor_.step();
}

Status Replay::advance(std::int64_t to_step) {
  while (position() < to_step) DGX_CHECK(step());
  return {};
}

Status Replay::trace(const Visit& visit) {
  const bool fault_now = drill_ && !drill_->lazy() && position() == drill_->step;
  if (fault_now) return executor_.trace(drill_->fault, visit);
  if (!lazy_here()) return executor_.trace(visit);
  DGX_CHECK(note_segment_start());
  const State claimed = lazy_next();
  std::vector<const Tensor*> becomes(files_.program->values.size(), nullptr);
  for (const kernels::Primitive& input : files_.program->values) {
    if (!input.next) continue;
    const Entry* entry = find_entry(claimed, input.source.name);
    if (entry != nullptr) becomes[static_cast<std::size_t>(*input.next)] = &entry->tensor;
  }
  DGX_CHECK(executor_.trace([&](std::int32_t value, const TensorView& numbers) -> Status {
    const Tensor* entry = becomes[static_cast<std::size_t>(value)];
    return visit(value, entry != nullptr ? entry->view() : numbers);
  }));
  return executor_.load(claimed);
}

Result<std::optional<Drill>> drill_of(const bundle::RunHeader& header) {
  if (header.drill.empty()) return std::optional<Drill>();
  DGX_TRY(Drill drill, parse_drill(header.drill));
  return std::optional<Drill>(drill);
}

Result<bundle::RunReader> open_run_of(const TaskFiles& files, const std::string& folder) {
  DGX_TRY(bundle::RunReader run, bundle::RunReader::open(folder));
  if (run.index().header.task != files.task.id) return malformed(folder + ": a run of another task");
  if (run.index().segments() > files.segments.count()) {
    return malformed(fmt::format("{}: has {} segments, the task {}", folder, run.index().segments(),
                                 files.segments.count()));
  }
  return run;
}

Result<State> committed_state(const bundle::RunReader& run, std::int64_t index, Replay& replay, int threads) {
  if (index < 0 || index > run.index().segments()) {
    return usage_error(
        fmt::format("{}: has committed states 0 to {}, not {}", run.folder(), run.index().segments(), index));
  }
  const std::int64_t kept = run.nearest_kept(index);
  DGX_TRY(auto stored, run.state(kept, bundle::Check::kDigests, {threads}));
  if (kept == index) return std::move(stored.state);
  DGX_CHECK(replay.load(stored.state));
  const std::vector<bundle::Checkpoint>& checkpoints = run.index().checkpoints;
  const std::int64_t step = checkpoints[static_cast<std::size_t>(kept)].step;
  if (replay.position() != step) {
    return malformed(fmt::format("{}: committed state {} is at step {}, not {}", run.folder(), kept,
                                 replay.position(), step));
  }
  const bundle::Checkpoint& wanted = checkpoints[static_cast<std::size_t>(index)];
  DGX_CHECK(replay.advance(wanted.step));
  DGX_TRY(const Digest digest, replay.digest(threads));
  if (digest == wanted.digest) return replay.state();
  return malformed(
      fmt::format("{}: committed state {} does not follow from checkpoint {}, the nearest that was kept",
                  run.folder(), index, kept));
}

namespace {

Status check_step(const State& state, const protocol::Segment& segment, const std::string& path) {
  DGX_TRY(const std::int64_t step, step_of(state));
  if (step == segment.first) return {};
  return malformed(fmt::format("{}: a state at step {}, segment {} starts at step {}", path, step,
                               segment.index, segment.first));
}

Result<State> start_in_sample(const TaskFiles& files, const std::string& path, std::int64_t segment,
                              int threads) {
  DGX_TRY(const bundle::SampleReader sample, bundle::SampleReader::open(path));
  if (sample.header().task != files.task.id) return malformed(path + ": a sample of another task");
  for (std::size_t i = 0; i < sample.segments().size(); ++i) {
    if (sample.segments()[i].segment != segment) continue;
    DGX_TRY(auto stored, sample.start(i, bundle::Check::kDigests, {threads}));
    return std::move(stored.state);
  }
  return Error{ErrorCode::kMissing, fmt::format("{}: has no segment {}", path, segment), {}};
}

Result<SegmentStart> start_in_run(const TaskFiles& files, exec::ExactExecutor& executor,
                                  const std::string& path, std::int64_t segment, int threads) {
  DGX_TRY(const bundle::RunReader run, open_run_of(files, path));
  // A run's committed states are those of its drill, if it has one; the attribute that says so is unsigned.
  const auto drill = drill_of(run.index().header);
  Replay replay(files, executor, drill.ok() ? *drill : std::nullopt);
  DGX_TRY(State state, committed_state(run, segment, replay, threads));
  SegmentStart start{std::move(state), std::nullopt, std::nullopt};
  if (run.index().diverged) start.diverged_at = run.index().checkpoints.back().step;
  if (!run.index().header.drill.empty()) start.drill = run.index().header.drill;
  return start;
}

}  // namespace

Result<SegmentStart> segment_start(const TaskFiles& files, exec::ExactExecutor& executor,
                                   const std::string& path, std::int64_t segment, int threads) {
  DGX_TRY(SegmentStart start, any_segment_start(files, executor, path, segment, threads));
  DGX_CHECK(check_step(start.state, files.segments[segment], path));
  return start;
}

Result<SegmentStart> any_segment_start(const TaskFiles& files, exec::ExactExecutor& executor,
                                       const std::string& path, std::int64_t segment, int threads) {
  SegmentStart start;
  if (is_opening(path)) {
    DGX_TRY(start.state, start_in_sample(files, fmt::format("{}/{}", path, kOpenedSample), segment, threads));
  } else if (std::filesystem::is_directory(path)) {
    DGX_TRY(start, start_in_run(files, executor, path, segment, threads));
  } else {
    DGX_TRY(const bundle::Kind kind, bundle::kind_of(path));
    if (kind == bundle::Kind::kSample) {
      DGX_TRY(start.state, start_in_sample(files, path, segment, threads));
    } else if (kind == bundle::Kind::kState) {
      DGX_TRY(auto stored, bundle::read_state(path, bundle::Check::kDigests, {threads}));
      start.state = std::move(stored.state);
    } else {
      return malformed(
          fmt::format("{}: a {} bundle, expected a run, a state or a sample", path, bundle::name_of(kind)));
    }
  }
  return start;
}

Result<std::vector<Digest>> state_digests_of(Replay& replay, const State& start,
                                             const protocol::Segment& segment, int threads,
                                             Progress& progress) {
  DGX_CHECK(replay.load(start));
  std::vector<Digest> digests;
  progress.start("replaying", segment.length());
  for (std::int64_t done = 0; done <= segment.length(); ++done) {
    if (done > 0) DGX_CHECK(replay.step());
    DGX_TRY(const Digest digest, replay.digest(threads));
    digests.push_back(digest);
    progress.update(done);
  }
  progress.finish();
  return digests;
}

Result<std::vector<Digest>> value_digests_of(Replay& replay, const State& start, std::int64_t step,
                                             const Replay::Visit& keep) {
  DGX_CHECK(replay.load(start));
  DGX_CHECK(replay.advance(step));
  std::vector<Digest> digests;
  DGX_CHECK(replay.trace([&](std::int32_t value, const TensorView& numbers) -> Status {
    digests.push_back(merkle::tensor_digest(numbers));
    return keep ? keep(value, numbers) : Status{};
  }));
  return digests;
}

}  // namespace dgx::jobs
