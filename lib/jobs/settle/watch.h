#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dgx/jobs/settle.h"
#include "dgx/ledger/note.h"

namespace dgx::jobs {

/// The word of witnesses about a ledger, compared with it (dgx-ledger(5), "NOTES").
///
/// A note binds the operator, who signed it, to a history; the lines of a quorum of witnesses say when. So a
/// ledger that lacks what a note has was cut or forked; an entry that a note of a later time lacks was dated
/// back; and a statement that a quorum was shown, that the rules allowed then, and that a note of a later
/// time still lacks was refused. Whether the rules allowed it needs the market of that moment: before() is
/// told each entry's time before the entry is replayed.
class Watch {
 public:
  /// Opens all files. kUsage if there are not as many witnesses as the quorum; kUnauthorised for a line of a
  /// witness that is not their signature.
  [[nodiscard]] static Result<Watch> open(const LedgerEvidence& evidence);

  /// Begins the replay anew.
  void begin();
  /// An entry of this time comes next, after those that made this market.
  void before(std::int64_t milliseconds, const protocol::Market& market);
  /// The operator's faults, each with the evidence's name. To be called after the last entry.
  [[nodiscard]] Result<std::vector<std::string>> compare(const ledger::Log& log,
                                                         const protocol::Market& market);
  /// The slots with a round that no note anchors. An operator could have put something into them, or kept
  /// something out, by what the round draws. nullopt without notes or rounds. To be called after compare().
  [[nodiscard]] std::optional<std::vector<NotAnchored>> not_anchored(const ledger::Log& log,
                                                                     const protocol::Market& market) const;

 private:
  /// A note that the operator is said to have signed.
  struct Cosigned {
    std::string path;
    ledger::Note note;
    ledger::Checkpoint checkpoint;
    std::vector<std::int64_t> seconds;  ///< when witnesses signed it, ascending, one a witness

    /// The latest time at or after which a quorum signed; nullopt without a quorum.
    [[nodiscard]] std::optional<std::int64_t> latest(std::size_t quorum) const;
    /// The earliest time at or before which a quorum had signed.
    [[nodiscard]] std::optional<std::int64_t> earliest(std::size_t quorum) const;
  };
  /// A statement that a quorum of witnesses had seen by a time.
  struct Seen {
    manifest::Signed<manifest::Body> statement;
    Digest ledger;
    std::int64_t milliseconds = 0;
    std::optional<Status> allowed = {};  ///< by the rules at that time; nullopt until the replay is there
  };

  [[nodiscard]] Status take_witnesses(const LedgerEvidence& evidence);
  [[nodiscard]] Status take_note(const std::string& path);
  [[nodiscard]] Status take_sightings(const std::vector<std::string>& paths);
  [[nodiscard]] Status check_signers(const ledger::Log& log) const;
  void compare_notes(const ledger::Log& log, std::vector<std::string>& faults) const;
  void compare_times(const Cosigned& note, const ledger::Log& log, std::vector<std::string>& faults) const;
  [[nodiscard]] Status compare_seen(const Seen& seen, const ledger::Log& log,
                                    std::vector<std::string>& faults) const;

  std::vector<ledger::VerifierKey> witnesses_;
  std::size_t quorum_ = 0;
  std::vector<Cosigned> notes_;
  std::vector<Seen> seen_;
};

}  // namespace dgx::jobs
