#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dgx/bundle/run.h"
#include "dgx/bundle/state.h"
#include "dgx/core/bytes.h"
#include "dgx/core/progress.h"
#include "dgx/core/result.h"
#include "dgx/core/tensor.h"
#include "dgx/protocol/segments.h"

namespace dgx::jobs {

/// RUN/resume.losses: dgx-train(1), FILES.
struct ResumeLosses {
  Digest place;                  ///< of the run's task, drill and last checkpoint
  std::array<Digest, 2> states;  ///< the state to which the losses lead, and the one saved before it
  std::vector<float> losses;     ///< since the last checkpoint
};
/// kMalformed for bytes that are not such a file, whole.
[[nodiscard]] Result<ResumeLosses> parse_resume_losses(std::string_view bytes);

/// The resume point of a run, RUN/resume.h5 and RUN/resume.losses: a state between two checkpoints and the
/// losses since the last one. Only the next call of train() reads it, and nothing commits to it; so it names
/// what it goes on from, and is of use nowhere else.
///
/// Losses are replaced first: until the state follows, those of the older state are their beginning, since
/// one task has one loss for each step, and they name it too. So whenever the writer is killed, there is a
/// resume point.
class ResumePoint {
 public:
  explicit ResumePoint(const std::string& run);

  /// A state, and the losses of its segment up to there.
  struct Found {
    State state;
    std::vector<float> losses;
  };
  /// The resume point, if there is one strictly inside the segment that follows the index's last checkpoint,
  /// saved by a run of this task and drill that began the segment from the same state. Any other inside the
  /// segment is ignored with a warning; one outside of it is what a kill has left, and ignored.
  [[nodiscard]] std::optional<Found> read(const protocol::Segment& segment, const bundle::RunIndex& index,
                                          Progress& progress);
  /// Replaces it durably. `state` may leave out the constant entries. Errors of write_file() and
  /// write_state().
  [[nodiscard]] Status write(const State& state, const bundle::RunIndex& index,
                             const bundle::Constants& constants, std::span<const float> losses,
                             const bundle::Effort& effort = {});
  /// Removes it, if it is there.
  void remove();

 private:
  std::string state_;
  std::string losses_;
  std::optional<Digest> saved_;  ///< the state that read() has found or write() has made
};

}  // namespace dgx::jobs
