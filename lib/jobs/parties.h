#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dgx/bundle/trace.h"
#include "replay.h"

namespace dgx::jobs {

/// One party's files for a diff: a run or a trace, checked against the task.
struct Party {
  std::string path;
  std::optional<bundle::RunReader> run;
  std::optional<Drill> drill;  ///< of the run
  std::optional<bundle::Trace> trace;

  [[nodiscard]] static Result<Party> open(const TaskFiles& files, const std::string& path, int threads);
  /// The digest of the state before (0) or after (1) the segment; kMalformed if the file does not reach it.
  [[nodiscard]] Result<Digest> boundary(std::int64_t segment, int side) const;
  /// The part of a segment that this party has, whose ends boundary() knows: a run that diverged may end
  /// inside it.
  [[nodiscard]] protocol::Segment part_of(const protocol::Segment& segment) const;
  [[nodiscard]] std::vector<Digest> committed() const;
};

/// The claims of both parties inside one segment, and an honest replay of it. Claims come from the party's
/// files; else from the honest replay, if it confirms the party; else from the run's drill, defended.
class Claims {
 public:
  /// `start` is the state that both agree on, if it is available.
  Claims(const TaskFiles& files, exec::ExactExecutor& executor, protocol::Segment segment,
         std::optional<State> start, const JobContext& context)
      : files_(files), executor_(executor), segment_(segment), start_(std::move(start)), context_(context) {}

  [[nodiscard]] bool can_replay() const { return start_.has_value(); }
  /// Honest digests of the states before, between and after the steps, and of the values of a step. Computed
  /// once.
  [[nodiscard]] Result<std::vector<Digest>> honest_states();
  [[nodiscard]] Result<std::vector<Digest>> honest_values(std::int64_t step);
  /// Copies of honest values, in the table's order; those not asked for stay empty.
  [[nodiscard]] Result<std::vector<Tensor>> honest_numbers(std::int64_t step,
                                                           const std::vector<std::int32_t>& values);

  /// The party's own; nullopt if unavailable.
  [[nodiscard]] Result<std::optional<std::vector<Digest>>> states(const Party& party);
  [[nodiscard]] Result<std::optional<std::vector<Digest>>> values(const Party& party, std::int64_t step);
  [[nodiscard]] Result<std::optional<Tensor>> numbers(const Party& party, std::int64_t step,
                                                      std::int32_t value);

 private:
  /// True if the party's states, from the segment's start through the one after `step`, are those of the
  /// honest replay.
  [[nodiscard]] Result<bool> agrees_with_replay(const Party& party, std::int64_t step);

  const TaskFiles& files_;
  exec::ExactExecutor& executor_;
  protocol::Segment segment_;
  std::optional<State> start_;
  const JobContext& context_;
  std::optional<std::vector<Digest>> honest_states_;
  std::optional<std::pair<std::int64_t, std::vector<Digest>>> honest_values_;
};

}  // namespace dgx::jobs
