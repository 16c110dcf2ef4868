#include "verify/audited_row.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

#include "dgx/protocol/forced.h"
#include "verify/replay_means.h"
#include "verify/start_states.h"
#include "verify/verify_draw.h"

namespace dgx::jobs {

Result<StatedWitness> compare_witness(const VerifyOptions& options, std::int64_t segment,
                                      const JobContext& context) {
  DGX_CHECK(choose_instruction_set(options.isa));
  DGX_TRY(const Verification v, open_verification(options, context));
  const auto place = std::lower_bound(v.drawn.begin(), v.drawn.end(), segment);
  assert(place != v.drawn.end() && *place == segment);
  DGX_TRY(StartStates starts, StartStates::open(options.from, v.proof, context.threads));
  DGX_CHECK(starts.check_shared(*v.files.program));
  ReplayMeans means;
  DGX_TRY(exec::StepExecutor* const executor, means.executor(options, v.files, context));
  DGX_TRY(const auto start, starts.start(segment, executor, context.stop));
  const protocol::Segments& segments = v.proof.segments;
  Digest honest;
  DGX_TRY(const manifest::VerdictRow row,
          protocol::replay_segment(
              *executor, start, segments[segment], v.proof.states[static_cast<std::size_t>(segment)],
              protocol::committed_end(segments, v.proof.states, segment), v.assignment,
              [&] { return !context.stop.requested(); }, &honest));
  means.warn(context);
  if (!row.agrees)
    return internal_error(fmt::format("segment {}: does not end as it did when it was audited", segment));
  const Digest& stated = v.stated[static_cast<std::size_t>(place - v.drawn.begin())];
  if (stated == honest) return StatedWitness::kTrue;
  return stated == protocol::false_witness(honest) ? StatedWitness::kFalseByRule : StatedWitness::kInvented;
}

}  // namespace dgx::jobs
