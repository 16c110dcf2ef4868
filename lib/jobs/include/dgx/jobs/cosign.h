#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "dgx/core/files.h"
#include "dgx/core/result.h"
#include "dgx/jobs/settle.h"
#include "dgx/ledger/note.h"

/// The operator watched: notes of a ledger's head, and witnesses who cosign them (dgx-ledger(5), "NOTES").
namespace dgx::jobs {

/// The ledger's head as a note that the operator signs; with `old_count`, in the body of an add-checkpoint
/// request to a witness who saw so many entries last, 0 for none. kUnauthorised unless the key is the
/// operator's; kUsage if the ledger has fewer entries.
[[nodiscard]] Result<std::string> note_of_ledger(const LedgerWriter& writer,
                                                 std::optional<std::int64_t> old_count);

/// A witness, and the clock by which they sign: Unix milliseconds.
struct Witness {
  KeyFile key;
  std::optional<std::string> name = {};  ///< in lines of signatures; dgx-witness/KEY-ID unless given
  std::function<std::int64_t()> clock = ledger::clock_milliseconds;
};

/// A note to cosign.
struct CosignRequest {
  std::string note;          ///< file: an add-checkpoint request, or a note that has nothing new
  std::string operator_key;  ///< file with the public key of the ledger's operator
  /// File of the note that this witness cosigned last, as this call left it. It is replaced, durably, before
  /// the call returns a line.
  std::string seen;
  bool first = false;  ///< `seen` must not exist: no note of this ledger was cosigned before
  LockWait wait = {};
};
/// The answer to a request.
struct Cosignature {
  ledger::VerifierKey witness;
  ledger::Checkpoint checkpoint;
  std::int64_t seconds = 0;
  std::string line;  ///< of the witness, with its newline; empty if they refused
  /// For a refusal: why this note is not one of the same log as the last one, and both.
  std::string refusal;
  std::string last_note;
  std::string note;
};
/// Cosigns the note if the operator signed it and it continues the last one. A smaller tree, another root of
/// as many entries and a proof that does not lead from one to the other are refusals. Errors: kMissing
/// without `seen` unless `first`; kMalformed for a `seen` of another ledger, and for another log's note;
/// kUnauthorised for a note that the operator did not sign, and a `seen` that this witness did not;
/// kNotAllowed for a proof from another number of entries, and a clock that is behind the last note's;
/// kLocked if another process is cosigning.
[[nodiscard]] Result<Cosignature> cosign(const CosignRequest& request, const Witness& witness);

/// A witness's note that they were shown a statement (file `statement`), meant for the ledger that `ledger`
/// names as in read_ledger_name().
[[nodiscard]] Result<std::string> sight_statement(const std::string& statement, const std::string& ledger,
                                                  const Witness& witness);

}  // namespace dgx::jobs
