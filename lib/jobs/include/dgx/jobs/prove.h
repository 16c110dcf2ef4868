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
  std::string output;  ///< PROOF.json; PROOF.states goes next to it
};

struct ProveResult {
  Digest id;  ///< the proof's
  manifest::Proof proof;
  std::string drill;  ///< the deliberate fault the run was made with; empty: none
};

/// Commits to a finished run: signs the root of its states' digests. The first and the last bundle are read
/// and their digests recomputed; the others are believed, since only the solver would suffer.
///
/// kNotAllowed for a run that is not finished; kMalformed for one of another task, program or initial state,
/// and for a damaged bundle.
[[nodiscard]] Result<ProveResult> prove(const ProveOptions& options, const JobContext& context);

/// dgx-prove open.
struct OpenSampleOptions {
  std::string task;
  std::string proof;
  std::optional<std::string> beacon;   ///< draws the segments
  std::optional<std::string> receipt;  ///< the proof's receipt; draws the segments if no beacon came
  std::string run;
  std::optional<std::string> program;
  std::optional<std::string> data;  ///< the dataset; needed to recompute checkpoints that were not kept
  std::optional<std::string> isa;
  std::int64_t parts = 1;               ///< of each batch of a step that is recomputed, one after another
  std::optional<std::string> store;     ///< the folder that the operator reads; given, an opening is signed
  std::optional<std::string> location;  ///< its place there; none: a name that follows from the proof
  KeyFile key;                          ///< the solver's; needed with a store
  std::string output;                   ///< OPENING.json; without a store SAMPLE.h5
};

struct OpenSampleResult {
  std::vector<std::int64_t> segments;  ///< the segments whose start states were written
  std::int64_t recomputed = 0;         ///< how many of them were not kept, and so recomputed
  std::int64_t recomputed_steps = 0;
  std::optional<Digest> id;  ///< the opening's; set only with a store, as are the fields below
  Digest after;
  std::string location;
};

/// Writes the start states of the drawn segments, each with its path to the proof's root: to a sample; or,
/// with all committed digests, to a folder in a store, and then signs the opening that names it.
///
/// kUsage if a checkpoint was not kept and there is no data; kMalformed if the run is not the one that was
/// proved, or a recomputed state is not the committed one; kUnauthorised for another key than the proof's;
/// kCannotCreate if something else lies at that place.
[[nodiscard]] Result<OpenSampleResult> open_sample(const OpenSampleOptions& options,
                                                   const JobContext& context);

/// dgx-prove deliver.
struct DeliverOptions {
  std::string task;
  std::string proof;
  std::string run;
  KeyFile key;  ///< the solver's
  std::string store;
  std::optional<std::string> location;
  std::string output;  ///< DELIVERY.json
};
struct DeliverResult {
  Digest id;  ///< the delivery's
  Digest final_state;
  std::string location;
};

/// Puts the final state into a store, and signs the delivery that names its place. Errors of open_sample().
[[nodiscard]] Result<DeliverResult> deliver(const DeliverOptions& options, const JobContext& context);

}  // namespace dgx::jobs
