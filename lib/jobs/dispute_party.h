#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dgx/bundle/dataset.h"
#include "dgx/protocol/player.h"
#include "dgx/protocol/segments.h"
#include "dispute_notes.h"
#include "replay.h"

namespace dgx::jobs {

/// Makes the parts of a replay, each when it is first asked for: most moves of a dispute need none. The
/// source owns all it returns, for as long as it lives.
class ReplaySource {
 public:
  virtual ~ReplaySource() = default;
  [[nodiscard]] virtual Result<const bundle::Dataset*> data() = 0;
  [[nodiscard]] virtual Result<exec::ExactExecutor*> executor() = 0;
  /// The state that the segment starts from.
  [[nodiscard]] virtual Result<const State*> start() = 0;
};

/// A party to a dispute about one segment, whose numbers come from its own replay: an honest one or, with a
/// drill, that of a cheat who defends it. Takes each step of the segment once and the disputed one twice
/// more: for the digests of its values, and for the numbers of the named value and of those that its line
/// reads. (If states are so large that not all of a segment fit in kKeptBytes, a few steps more.)
class DisputeParty final : public protocol::Party {
 public:
  /// Memory for the segment's states.
  static constexpr std::int64_t kKeptBytes = std::int64_t{64} << 20;

  /// `notes` may be null. All that is borrowed must outlive the party, which alone uses the source's
  /// executor.
  DisputeParty(const TaskFiles& files, const protocol::Segment& segment, ReplaySource& source,
               std::optional<Drill> drill, const DisputeNotes* notes, int threads, Progress& progress);

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
  [[nodiscard]] Result<Replay*> replay();
  [[nodiscard]] Status check_step(std::int64_t step, std::int64_t last) const;
  /// Computes the digests of the segment's states, up to its end or to where they are not finite.
  [[nodiscard]] Status replay_segment();
  /// Brings the replay to the state before `step`.
  [[nodiscard]] Status go_to(std::int64_t step);
  [[nodiscard]] Result<const State*> nearest_state(std::int64_t step, std::int64_t& found);
  [[nodiscard]] Status trace(std::int64_t step, const std::set<std::int64_t>& kept);
  [[nodiscard]] Result<const StepNotes*> step_notes(std::int64_t step);
  [[nodiscard]] std::vector<merkle::NamedDigest> entries_now(const State& state) const;
  /// The entries that the values of a step would become.
  [[nodiscard]] std::vector<merkle::NamedDigest> entries_from(std::span<const Digest> values) const;

  const TaskFiles& files_;
  protocol::Segment segment_;
  ReplaySource& source_;
  std::optional<Drill> drill_;
  const DisputeNotes* notes_;
  int threads_;
  Progress& progress_;

  std::optional<Replay> replay_;
  std::optional<std::int64_t> position_;  // of the replay; nullopt: unknown
  std::int64_t replayed_ = 0;
  std::optional<SegmentNotes> states_;
  bool states_are_new_ = false;
  std::int64_t interval_ = 1;  // steps between two kept states
  std::map<std::int64_t, State> kept_states_;
  std::map<std::int64_t, StepNotes> steps_;
  std::set<std::int64_t> new_steps_;  // those traced here, not read from notes
  std::vector<manifest::VerdictRow> rows_;
  std::map<std::pair<std::int64_t, std::int64_t>, Tensor> values_;
};

/// Opens row `index`: the row with its audit path to the root of all rows.
[[nodiscard]] Result<manifest::OpenedRow> open_row(std::span<const manifest::VerdictRow> rows,
                                                   std::size_t index);

}  // namespace dgx::jobs
