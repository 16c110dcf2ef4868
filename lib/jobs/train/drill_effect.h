#pragma once

#include <optional>
#include <string>

#include "dgx/bundle/run.h"
#include "dgx/core/result.h"
#include "dgx/exec/executor.h"
#include "dgx/jobs/drill.h"

namespace dgx::jobs {

/// kUsage, naming what is wrong, unless the task has the drill's segment, or its step, value, element and
/// bit. Parts and ranks (`is_cut`) go on by the value that counts the steps, which takes no fault there.
[[nodiscard]] Status check_drill(const Drill& drill, const TaskFiles& files, bool is_cut);

/// The effect of a drill on a run: a flipped bit can be rounded or masked away (dgx-train(1), "Drills").
class DrillEffect {
 public:
  /// Borrows the task's files, the run, and the executor, whose state each call leaves as it finds it.
  DrillEffect(const TaskFiles& files, const bundle::RunWriter& run, exec::StepExecutor& executor)
      : files_(files), run_(run), executor_(executor) {}

  /// Notes from where a segment can be replayed honestly, some of whose steps may have been taken. Call it
  /// before the others are; if the drill does not strike the segment, nothing is compared.
  [[nodiscard]] Status enter(const std::optional<Drill>& drill, const protocol::Segment& segment);
  /// Behind the segment's last step: why its digest is the honest one, in words; empty if it is not, or if
  /// nothing can be compared, as when the checkpoint before the fault is damaged. Replays the segment.
  [[nodiscard]] Result<std::string> lack_of_effect();
  /// Likewise, where the step that follows diverges, for the run that ends here.
  [[nodiscard]] Result<std::string> lack_of_effect_before_divergence(const std::optional<Drill>& drill);

 private:
  const TaskFiles& files_;
  const bundle::RunWriter& run_;
  exec::StepExecutor& executor_;
  std::optional<State> honest_;  // a state before the fault
  std::int64_t end_ = 0;         // of the segment
};

}  // namespace dgx::jobs
