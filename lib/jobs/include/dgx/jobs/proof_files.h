#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dgx/core/bytes.h"
#include "dgx/core/files.h"
#include "dgx/core/result.h"
#include "dgx/jobs/task_program.h"
#include "dgx/manifest/statement.h"
#include "dgx/manifest/trust.h"
#include "dgx/protocol/lots.h"
#include "dgx/protocol/segments.h"

namespace dgx::jobs {

/// A proof and the digests of its committed states, checked against the proof's root.
struct ProofFiles {
  manifest::Signed<manifest::Proof> proof;
  protocol::Segments segments;  ///< the proof's segments: up to its divergence, if it diverged
  std::vector<Digest> states;
  std::string path;  ///< the proof's file
};

/// Reads a statement and checks its signer: kUnauthorised for one whom `trust` does not name.
template <class T>
[[nodiscard]] Result<manifest::Signed<T>> read_signed(const std::string& path,
                                                      const manifest::TrustView& trust) {
  DGX_TRY(auto statement, manifest::read_statement<T>(path));
  DGX_CHECK(trust.check(statement.key_id, path));
  return statement;
}

/// Reads the beacon or round that draws for the proof of this id. kMalformed for another kind of statement.
[[nodiscard]] Result<protocol::DrawSource> read_draw_source(const std::string& path, const Digest& proof,
                                                            const manifest::TrustView& trust);

/// Reads the task that `path` stands for (find_task_file), without its program: for jobs that run no step.
[[nodiscard]] Result<manifest::Signed<manifest::Task>> read_task(const std::string& path,
                                                                 const manifest::TrustView& trust);

/// Time of the task's longest segment according to the profile in `path`. The profile must be of this task
/// and signed by `signer`, since it measures the machine that will answer: else kMalformed, kUnauthorised.
[[nodiscard]] Result<std::int64_t> profiled_segment_milliseconds(const std::string& path, const Digest& task,
                                                                 const Digest& signer);

/// The names of an opening's files in its folder (dgx-protocol(7), "OPENING").
inline constexpr std::string_view kOpenedStates = "states";
inline constexpr std::string_view kOpenedSample = "sample.h5";
/// True if `path` is an opening's folder, not a run's.
[[nodiscard]] bool is_opening(const std::string& path);
/// The path at which a proof's states are looked for: in `from` if that is an opening, else next to the
/// proof, or in the opening in which the proof itself lies.
[[nodiscard]] std::string states_path(const std::string& proof_path, const std::optional<std::string>& from);

/// Opens a proof of this task, and its states (states_path). With kUnchecked, its initial state need not be
/// the task's either. kMissing, kMalformed (a proof of another task, states that are not the proof's),
/// kUnauthorised.
[[nodiscard]] Result<ProofFiles> open_proof(const std::string& path,
                                            const manifest::Signed<manifest::Task>& task,
                                            const manifest::TrustView& trust,
                                            const std::optional<std::string>& from = std::nullopt,
                                            manifest::Ends ends = manifest::Ends::kChecked);
/// Reads committed states from a file. Errors of manifest::decode_states().
[[nodiscard]] Result<std::vector<Digest>> read_states(const std::string& path, const manifest::Proof& proof,
                                                      manifest::Ends ends = manifest::Ends::kChecked);

/// Claims a file that belongs next to a statement and is written before it. A file with the same bytes is
/// accepted, so that a call killed between the two writes can be repeated.
[[nodiscard]] Result<Output> claim_beside(const std::string& path, Clobber clobber);

}  // namespace dgx::jobs
