#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bisect/segment_replay.h"
#include "dgx/bundle/trace.h"

namespace dgx::jobs {

/// One side of a comparison: a run or a trace, checked against the task.
///
/// Inside a segment it answers like a protocol::Party, as far as it can: from its file; else by the honest
/// replay, if that confirms it; else by a replay that defends its run's drill. Where none of them has the
/// answer it is kMissing, and the message says what the side's owner can make.
class DiffSide {
 public:
  /// kMalformed for a file of another task or program, or of more segments than the task has.
  [[nodiscard]] static Result<DiffSide> open(const TaskFiles& files, const std::string& path, int threads);

  [[nodiscard]] const std::string& path() const { return path_; }
  /// The run's index and the trace: one of them is null.
  [[nodiscard]] const bundle::RunIndex* run() const { return run_ ? &run_->index() : nullptr; }
  [[nodiscard]] const bundle::Trace* trace() const { return trace_ ? &*trace_ : nullptr; }
  /// The digest of the state before (0) or after (1) the segment; kMalformed if the file does not reach it.
  [[nodiscard]] Result<Digest> boundary(std::int64_t segment, int side) const;
  /// The part of a segment that this side has, up to the state that boundary() gives for its end: a run that
  /// diverged may end inside it.
  [[nodiscard]] protocol::Segment part_of(const protocol::Segment& segment) const;

  /// Chooses the segment, or part of one, that the answers are about. `honest` is its honest replay, or null
  /// if there is no state to replay from; the run's drill is replayed from the same `source`.
  void enter(const protocol::Segment& segment, SegmentReplay* honest, ReplaySource& source);

  /// The digests of the states of the segment's part, before its first step and after each.
  [[nodiscard]] Result<std::vector<Digest>> states();
  /// The digests of a step's values.
  [[nodiscard]] Result<std::vector<Digest>> values(std::int64_t step);
  /// The numbers of one value of a step.
  [[nodiscard]] Result<Tensor> value(std::int64_t step, kernels::ValueIndex value);

 private:
  explicit DiffSide(std::string path) : path_(std::move(path)) {}
  /// The first replay whose answer `fits`; null if there is none. One that has no answer, because it comes to
  /// a state which is not finite, is passed over.
  template <class Ask, class Fits>
  [[nodiscard]] Result<SegmentReplay*> first_replay(Ask ask, Fits fits) const;
  /// kMissing: `options` of dgx-bisect trace would make the answer.
  [[nodiscard]] Error missing(const std::string& options) const;

  std::string path_;
  std::optional<bundle::RunReader> run_;
  std::optional<Drill> drill_;  ///< the run's drill
  std::optional<bundle::Trace> trace_;
  protocol::Segment segment_;
  std::unique_ptr<SegmentReplay> defence_;
  std::vector<SegmentReplay*> replays_;  ///< the honest one, and that of the drill, as far as there are any
};

}  // namespace dgx::jobs
