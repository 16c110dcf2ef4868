#include "train/drill_effect.h"

#include <fmt/format.h>

#include <utility>

namespace dgx::jobs {

Status check_drill(const Drill& drill, const TaskFiles& files, bool is_cut) {
  if (drill.lazy()) {
    if (*drill.segment < files.segments.count()) return {};
    return usage_error(fmt::format("drill: the task has segments 0 to {}", files.segments.count() - 1));
  }
  const program::Program& program = *files.program;
  if (drill.step >= files.body().steps)
    return usage_error(fmt::format("drill: the task has steps 0 to {}", files.body().steps - 1));
  if (!program.values.contains(drill.fault.value))
    return usage_error(fmt::format("drill: the program has values 0 to {}", program.values.size() - 1));
  const auto counter = program::find_state_input(program, "step");
  if (is_cut && counter &&
      (drill.fault.value == *counter || drill.fault.value == program.values[*counter].next)) {
    return usage_error(
        fmt::format("drill: value {} counts the steps, by which parts and ranks go on", drill.fault.value),
        "leave --parts and --mpi out");
  }
  return exec::check_fault(program, drill.fault);
}

Status DrillEffect::enter(const std::optional<Drill>& drill, const protocol::Segment& segment) {
  honest_.reset();
  end_ = segment.end;
  if (!drill || !drill->strikes(segment)) return {};
  if (drill->step >= executor_.position()) {
    DGX_TRY(honest_, executor_.state());
  } else if (auto checkpoint = run_.last_state(); checkpoint.ok()) {
    honest_ = std::move(checkpoint->state);
  }
  return {};
}

Result<std::string> DrillEffect::lack_of_effect() {
  if (!honest_ || executor_.position() > end_) return std::string();  // behind its end: the counter is faulty
  DGX_TRY(const State faulty, executor_.state());
  DGX_TRY(const auto faulty_digests, executor_.digests(0));
  const std::int64_t end = executor_.position();
  DGX_CHECK(executor_.load(*std::exchange(honest_, std::nullopt)));
  const Status replayed = executor_.advance(end - executor_.position());
  // Steps that diverge without the fault did not with it.
  if (!replayed.ok() && replayed.error().code != ErrorCode::kMalformed) return replayed.error();
  bool is_alike = false;
  if (replayed.ok()) {
    DGX_TRY(const auto honest_digests, executor_.digests(0));
    is_alike = honest_digests.state == faulty_digests.state;
  }
  DGX_CHECK(executor_.load(faulty));
  return std::string(is_alike ? "the flipped bit was rounded or masked away" : "");
}

Result<std::string> DrillEffect::lack_of_effect_before_divergence(const std::optional<Drill>& drill) {
  if (!drill) return std::string();
  const std::int64_t end = executor_.position();
  const std::int64_t first = drill->lazy() ? files_.segments[*drill->segment].first : drill->step;
  if (first > end) return std::string("the run diverged before it");
  if (first == end) return std::string();  // perhaps by the fault
  honest_.reset();
  DGX_CHECK(enter(drill, files_.segments[run_.index().segments()]));
  return lack_of_effect();
}

}  // namespace dgx::jobs
