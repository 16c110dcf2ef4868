#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dgx/bundle/state.h"
#include "dgx/core/result.h"
#include "dgx/core/tensor.h"
#include "dgx/protocol/segments.h"

namespace dgx::jobs {

/// The resume point of a run, RUN/resume.h5 and RUN/resume.losses: a state between two checkpoints and the
/// losses since the last one. Only the next call of train() reads it, and nothing commits to it.
///
/// Losses are replaced first: until the state follows, those of the older state are their beginning, since
/// one task has one loss for each step. So whenever the writer is killed, there is a resume point.
class ResumePoint {
 public:
  explicit ResumePoint(const std::string& run);

  /// A state, and the losses of its segment up to there.
  struct Found {
    State state;
    std::vector<float> losses;
  };
  /// The resume point, if there is one strictly inside the segment that has all losses up to there and the
  /// run's constant entries: it names the file that holds them, which may be another run's.
  [[nodiscard]] std::optional<Found> read(const protocol::Segment& segment,
                                          const bundle::Constants& constants) const;
  /// Replaces it durably. `state` may leave out the constant entries. Errors of write_file() and
  /// write_state().
  [[nodiscard]] Status write(const State& state, const bundle::Constants& constants,
                             std::span<const float> losses, const bundle::Effort& effort = {}) const;
  /// Removes it, if it is there.
  void remove() const;

 private:
  std::string state_;
  std::string losses_;
};

}  // namespace dgx::jobs
