#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bisect/dispute_notes.h"
#include "dgx/bundle/opened.h"
#include "dgx/core/job_context.h"
#include "dgx/jobs/drill.h"
#include "dgx/protocol/player.h"
#include "dgx/protocol/segments.h"
#include "verify/start_states.h"

namespace dgx::jobs {

/// The inputs of a segment's replays: the dataset, an executor, and the state that the segment starts from.
/// Each is read or made when it is first asked for, since most moves of a dispute need none.
class ReplaySource {
 public:
  /// `data` is the dataset's path; steps are taken in `parts` parts. Files and context must outlive the
  /// source.
  ReplaySource(const TaskFiles& files, std::string data, std::int64_t parts, const JobContext& context)
      : files_(files), context_(context), data_path_(std::move(data)), parts_(parts) {}

  /// Sets the start state.
  void start_at(State start) { start_ = std::move(start); }
  /// Names the file that has the start state. It must have digest `committed` or, without one, be at the
  /// segment's first step.
  void start_from(std::string path, std::int64_t segment, const std::optional<Digest>& committed);

  [[nodiscard]] const TaskFiles& files() const { return files_; }
  [[nodiscard]] const JobContext& context() const { return context_; }
  /// The dataset, opened. Errors of open_task_dataset().
  [[nodiscard]] Result<const bundle::OpenedDataset*> data();
  /// Errors of data() and make_executor_on().
  [[nodiscard]] Result<exec::StepExecutor*> executor();
  /// kMalformed if the file has another state; errors of StartStates.
  [[nodiscard]] Result<const State*> start();
  /// The index of the run from which the start state was read; null if it was another file.
  [[nodiscard]] const bundle::RunIndex* run() const { return starts_ ? starts_->run() : nullptr; }
  /// The start state of a segment as a file has it. Where a run's has to be recomputed, its own drill is
  /// defended: that is what led to its committed states.
  [[nodiscard]] Result<State> read_start(const std::string& path, std::int64_t segment);
  /// Notes that `user` takes the executor; false if another has had it since `user` last did.
  [[nodiscard]] bool is_still_of(const void* user) { return std::exchange(user_, user) == user; }

 private:
  const TaskFiles& files_;
  const JobContext& context_;
  std::string data_path_;
  std::int64_t parts_;
  std::string from_;
  std::int64_t segment_ = 0;
  std::optional<Digest> committed_;
  std::optional<bundle::OpenedDataset> data_;
  std::unique_ptr<exec::StepExecutor> executor_;
  std::optional<StartStates> starts_;
  std::optional<State> start_;
  const void* user_ = nullptr;
};

/// One party's replay of one segment: an honest one or, with a drill, that of a cheat who defends it. Traces,
/// comparisons and disputes ask it for digests and numbers.
///
/// Takes each step of the segment once, for the digests of all its states, and the step in question twice
/// more: for the digests of its values, and for the numbers of the named value and of those that its line
/// reads. Every answer is kept, and so are states, as many as fit in kKeptBytes: with larger ones, a few
/// steps are taken again. With notes, nothing is computed that an earlier process has noted.
class SegmentReplay final : public protocol::Party {
 public:
  /// Memory for the segment's states.
  static constexpr std::int64_t kKeptBytes = std::int64_t{64} << 20;

  /// Source and notes must outlive the replay; several replays may share a source.
  SegmentReplay(const protocol::Segment& segment, ReplaySource& source,
                std::optional<Drill> drill = std::nullopt, const DisputeNotes* notes = nullptr);

  /// The digests of the states before, between and after the segment's steps. The error of the step, if one
  /// gives a state that is not finite.
  [[nodiscard]] Result<std::vector<Digest>> states();
  [[nodiscard]] Result<std::optional<std::int64_t>> non_finite_after() override;
  [[nodiscard]] Result<Digest> state(std::int64_t step) override;
  [[nodiscard]] Result<std::vector<merkle::NamedDigest>> entries(std::int64_t step) override;
  [[nodiscard]] Result<std::vector<Digest>> values(std::int64_t step) override;
  [[nodiscard]] Result<Tensor> value(std::int64_t step, kernels::ValueIndex value) override;
  [[nodiscard]] Result<protocol::DataOpening> data(std::string_view field, std::int64_t element) override;
  [[nodiscard]] Result<Tensor> entry(std::int64_t step, std::string_view name) override;

  [[nodiscard]] Result<manifest::OpenedRow> row(std::int64_t segment) override;

  /// Sets all rows of the party's own verdict, which row() opens.
  void answer_with(std::vector<manifest::VerdictRow> rows) { rows_ = std::move(rows); }
  /// Writes notes of everything that is not noted yet.
  [[nodiscard]] Status keep(const DisputeNotes& notes) const;
  [[nodiscard]] std::int64_t replayed_steps() const { return replayed_; }

 private:
  /// The replaying executor, made on the first call. If another replay has had the source's executor since,
  /// position_ is unknown.
  [[nodiscard]] Result<DrilledExecutor*> replay();
  /// An internal error for a step before the segment or after `last`.
  [[nodiscard]] Status check_step(std::int64_t step, std::int64_t last) const;
  /// Computes the digests of the segment's states, up to its end or to where they are not finite.
  [[nodiscard]] Status replay_segment();
  [[nodiscard]] Status note_state(SegmentNotes& found);
  /// Brings the replay to the state before `step`.
  [[nodiscard]] Status go_to(std::int64_t step);
  /// The state nearest before the state of `step`, or that state: kept, noted or the start. `found` is its
  /// step.
  [[nodiscard]] Result<const State*> nearest_state(std::int64_t step, std::int64_t& found);
  /// Takes step `step` value by value: notes the digests of its values and of the states around it, unless
  /// they are known, and keeps the numbers of the values in `kept`. After a step that gives a state which is
  /// not finite, the digests are noted all the same and position_ is unknown.
  [[nodiscard]] Status trace(std::int64_t step, const std::set<kernels::ValueIndex>& kept);
  /// The notes of a step: known, read from an earlier process's, or traced now.
  [[nodiscard]] Result<const StepNotes*> step_notes(std::int64_t step);
  /// The digests of the entries that the executor holds.
  [[nodiscard]] Result<std::vector<merkle::NamedDigest>> entries_now() const;
  /// The entries that the values of a step would become.
  [[nodiscard]] std::vector<merkle::NamedDigest> entries_from(std::span<const Digest> values) const;

  const TaskFiles& files_;
  protocol::Segment segment_;
  ReplaySource& source_;
  std::optional<Drill> drill_;
  const DisputeNotes* notes_;

  std::optional<DrilledExecutor> replay_;
  std::optional<std::int64_t> position_;  // of the replay; nullopt: unknown
  std::int64_t replayed_ = 0;
  std::optional<SegmentNotes> states_;
  bool states_are_new_ = false;
  Error not_finite_;           // of the step after which states_ ends, if it does
  std::int64_t interval_ = 1;  // steps between two kept states
  std::map<std::int64_t, State> kept_states_;
  std::map<std::int64_t, StepNotes> steps_;
  std::set<std::int64_t> new_steps_;  // those traced here, not read from notes
  std::vector<manifest::VerdictRow> rows_;
  std::map<std::pair<std::int64_t, kernels::ValueIndex>, Tensor> values_;
};

/// Opens row `index`: the row with its audit path to the root of all rows.
[[nodiscard]] Result<manifest::OpenedRow> open_row(std::span<const manifest::VerdictRow> rows,
                                                   std::size_t index);

}  // namespace dgx::jobs
