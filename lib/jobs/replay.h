#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dgx/bundle/run.h"
#include "dgx/core/tensor.h"
#include "dgx/exec/executor.h"
#include "dgx/jobs/drill.h"
#include "dgx/jobs/task_files.h"

namespace dgx::jobs {

/// Takes a task's steps as one party takes them: honestly, or with the deliberate fault of its run, which it
/// defends. Every state and value that the party would claim comes from here.
class Replay {
 public:
  using Visit = std::function<Status(std::int32_t value, const TensorView&)>;

  /// Borrows all but the drill; several may share one executor if each calls load() when its turn begins.
  Replay(const TaskFiles& files, exec::ExactExecutor& executor, std::optional<Drill> drill = std::nullopt)
      : files_(files), executor_(executor), drill_(std::move(drill)) {}

  /// Restarts from a state at a committed step. (A lazy segment can only be shown from its beginning.)
  [[nodiscard]] Status load(const State& state);
  [[nodiscard]] std::int64_t position() const { return executor_.position(); }
  [[nodiscard]] Result<State> state() const { return executor_.state(); }
  [[nodiscard]] Result<Digest> digest(int threads) const;

  /// One step.
  [[nodiscard]] Status step();
  [[nodiscard]] Status advance(std::int64_t to_step);
  /// Takes one step and shows every value as the party claims it.
  [[nodiscard]] Status trace(const Visit& visit);

 private:
  [[nodiscard]] bool lazy_here() const;
  [[nodiscard]] Status note_segment_start();
  [[nodiscard]] State lazy_next() const;

  const TaskFiles& files_;
  exec::ExactExecutor& executor_;
  std::optional<Drill> drill_;
  State segment_start_;  // of the lazy segment, once it is entered
};

/// The drill noted in a run, if there is one.
[[nodiscard]] Result<std::optional<Drill>> drill_of(const bundle::RunHeader& header);

/// Opens a run of this task; kMalformed for another task's.
[[nodiscard]] Result<bundle::RunReader> open_run_of(const TaskFiles& files, const std::string& folder);

/// Committed state `index` of a run: read if it was kept, else recomputed by `replay` from the nearest kept
/// one before. kUsage if the run has no such state; kMalformed if the digest is not the committed one.
[[nodiscard]] Result<State> committed_state(const bundle::RunReader& run, std::int64_t index, Replay& replay,
                                            int threads);

/// The start state of a segment from a run, a state bundle or a sample; from a run, also what the run notes.
struct SegmentStart {
  State state;
  std::optional<std::string> drill;
  std::optional<std::int64_t> diverged_at;  ///< the step that the run says diverges
};
[[nodiscard]] Result<SegmentStart> segment_start(const TaskFiles& files, exec::ExactExecutor& executor,
                                                 const std::string& path, std::int64_t segment, int threads);
/// Like segment_start(), but does not check the state's step: for callers that check its digest.
[[nodiscard]] Result<SegmentStart> any_segment_start(const TaskFiles& files, exec::ExactExecutor& executor,
                                                     const std::string& path, std::int64_t segment,
                                                     int threads);

/// The digests of the states before, between and after the steps of `segment`, from `start`. Leaves the
/// replay after the segment.
[[nodiscard]] Result<std::vector<Digest>> state_digests_of(Replay& replay, const State& start,
                                                           const protocol::Segment& segment, int threads,
                                                           Progress& progress);

/// The digest of every value of step `step`, replayed from the segment's start; `keep` sees each value and
/// may copy its numbers.
[[nodiscard]] Result<std::vector<Digest>> value_digests_of(Replay& replay, const State& start,
                                                           std::int64_t step, const Replay::Visit& keep);

}  // namespace dgx::jobs
