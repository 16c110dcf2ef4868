#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dgx/core/bytes.h"
#include "dgx/core/job_context.h"
#include "dgx/core/result.h"
#include "dgx/jobs/key.h"
#include "dgx/manifest/proof.h"

namespace dgx::jobs {

/// dgx-prove(1).
struct ProveOptions {
  std::string task;
  std::string run;
  KeyFile key;
  std::string output;  ///< PROOF.json; PROOF.states goes beside it
};

struct ProveResult {
  Digest id;  ///< of the proof
  manifest::Proof proof;
  std::string drill;  ///< the run was made with this deliberate fault; empty: none
};

/// Commits to a finished run: signs the root of its states' digests. The first and the last bundle are read
/// and their digests recomputed; the others are believed, since it is the solver himself who would suffer.
///
/// kUsage for a run that is not finished; kMalformed for one of another task, program or initial state, and
/// for a damaged bundle.
[[nodiscard]] Result<ProveResult> prove(const ProveOptions& options, const JobContext& context);

/// dgx-prove open.
struct OpenSampleOptions {
  std::string task;
  std::string proof;
  std::string beacon;
  std::string run;
  std::optional<std::string> program;
  std::optional<std::string> data;  ///< to recompute checkpoints that were not kept
  std::optional<std::string> isa;
  std::string output;  ///< SAMPLE.h5
};

struct OpenSampleResult {
  std::vector<std::int64_t> segments;  ///< whose start states were written
  std::int64_t recomputed = 0;         ///< of them not kept, and so recomputed
  std::int64_t recomputed_steps = 0;
};

/// Writes the start states of the segments that the policy draws for the beacon's signer, each with its path
/// to the proof's root.
///
/// kUsage if a checkpoint was not kept and there is no data; kMalformed if the run is not the one that was
/// proved, or a recomputed state is not the committed one.
[[nodiscard]] Result<OpenSampleResult> open_sample(const OpenSampleOptions& options,
                                                   const JobContext& context);

}  // namespace dgx::jobs
