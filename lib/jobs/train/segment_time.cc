#include "train/segment_time.h"

#include <fmt/format.h>

#include "dgx/protocol/admission.h"

namespace dgx::jobs {

void tell_segment_time(Progress& progress, const manifest::Task& task, std::int64_t milliseconds) {
  if (!task.ledger) return;
  const std::string times = fmt::format(
      "the longest segment takes {} ms here and an answer in a dispute up to four times that; window_move_ms "
      "is {}",
      milliseconds, task.policy.window_move_ms);
  if (protocol::check_segment_time(task, milliseconds).ok()) return progress.note(times);
  progress.warning(times + ", too short for this machine to take part");
}

}  // namespace dgx::jobs
