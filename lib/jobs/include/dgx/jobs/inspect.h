#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dgx/core/job_context.h"
#include "dgx/core/json_output.h"
#include "dgx/core/result.h"
#include "dgx/manifest/verdict.h"

namespace dgx::jobs {

/// The description of one of our files: its fields in order, for people and as JSON.
struct Description {
  struct Field {
    std::string name;
    json::Output value;
    /// If not empty, `value` is a table: an array of objects with these keys.
    std::vector<std::string> columns = {};
  };
  std::string kind;  ///< "dataset", "state", "run", "sample", "trace", "program", "ledger", "task", …
  std::vector<Field> fields;
  /// The digests and signatures that were recomputed, with Recompute::kYes, and agree.
  std::vector<std::string> recomputed;
  /// The digests that could not be recomputed, since the hashed file is not there.
  std::vector<std::string> absent;
  std::optional<manifest::Verdict> verdict = {};  ///< the body, if the file is one verdict
  bool is_usable = true;                          ///< false: a model with operations that dgx-submit refuses
};

enum class Recompute { kNo, kYes };

/// Describes a dataset, state, sample or trace bundle, a run's folder, a signed statement or several (one a
/// line), a step program, a ledger, PROOF.states, VERDICT.rows.jsonl, a shard, an unsigned policy, a key (of
/// a private key only its id), a model (safetensors, NPZ as dgx writes it, or an archive of torch.export),
/// COMMIT.secret (not the secret itself), COMMIT.revealed, RUN/log.csv, RUN/validation.csv,
/// RUN/resume.losses, or the folder of a dispute's notes. The content decides, not the name, but for
/// *.states, *.losses, *.secret and *.revealed, which have no form of their own. "-" is standard input (no
/// bundle, no model).
///
/// Statements' signatures are always checked. With Recompute::kYes every digest in the file, and every digest
/// by which a statement binds a file next to it, is recomputed: kMalformed at the first that does not agree.
/// Agreement means that the file is whole, not that its claims are true. kUnauthorised for a bad signature,
/// or a signer whom `trust` does not name. kMalformed for any other kind of file.
[[nodiscard]] Result<Description> describe(const std::string& path, Recompute recompute,
                                           const JobContext& context);

struct FieldDifference {
  std::string field;             ///< "predicate.optimizer.lr", "checkpoints[3].digest"
  std::optional<std::string> a;  ///< nullopt: not there
  std::optional<std::string> b;
};
struct Comparison {
  std::string kind;
  std::vector<FieldDifference> differences;
};

/// Compares two files of the same kind field by field, ignoring statement ids. kMalformed if their kinds
/// differ.
[[nodiscard]] Result<Comparison> compare(const std::string& a, const std::string& b,
                                         const JobContext& context);

struct ExportOptions {
  std::string from;                  ///< a run, or a state bundle
  std::optional<std::int64_t> step;  ///< the checkpoint at this step; none: the last
  std::string output;                ///< MODEL.safetensors, MODEL.npz or STATE.h5
  bool averages = false;             ///< parameters as their moving averages, not for STATE.h5
};
struct ExportResult {
  std::int64_t step = 0;
  Digest state;  ///< the state that the numbers are from
  std::int64_t tensors = 0;
  std::int64_t numbers = 0;
};

/// Writes a state for other programs to load: as .safetensors or .npz its `model/` entries, without that
/// prefix, and what check_model() needs; as .h5 all of it, a state bundle without compression. kUsage: an
/// output with another extension, or a run without a checkpoint at `step`; kMissing: that checkpoint was not
/// kept.
/// kUsage, too, for averages that the state does not have.
[[nodiscard]] Result<ExportResult> export_model(const ExportOptions& options, const JobContext& context);

}  // namespace dgx::jobs
