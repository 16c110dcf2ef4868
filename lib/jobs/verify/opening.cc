#include "verify/opening.h"

#include <fmt/format.h>

#include "verify/start_states.h"

namespace dgx::jobs {

Status check_opening(const std::string& folder, const manifest::Signed<manifest::Task>& task,
                     const manifest::Signed<manifest::Proof>& proof, const protocol::OpeningDraw& draw,
                     int threads) {
  const std::string sample = fmt::format("{}/{}", folder, kOpenedSample);
  DGX_TRY(const auto segments, protocol::segments_of(task.body, proof.body));
  ProofFiles files{proof, segments, {}, {}};
  DGX_TRY(files.states, read_states(fmt::format("{}/{}", folder, kOpenedStates), proof.body));
  DGX_TRY(StartStates starts, StartStates::open(sample, files, threads));
  if (const auto absent = starts.missing(draw.segments); !absent.empty())
    return malformed(
        fmt::format("{}: has no start state of these drawn segments: {}", sample, listed(absent)));
  const StopFlag never;
  for (const std::int64_t segment : draw.segments) {
    DGX_TRY([[maybe_unused]] const State state, starts.start(segment, nullptr, never));
  }
  return {};
}

}  // namespace dgx::jobs
