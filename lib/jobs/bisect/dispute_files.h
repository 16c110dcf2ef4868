#pragma once

#include <optional>
#include <string>

#include "bisect/segment_replay.h"
#include "dgx/protocol/game.h"

namespace dgx::jobs {

/// The drill that a run notes; nullopt for other files.
[[nodiscard]] Result<std::optional<std::string>> drill_text_of(const std::string& from);

/// Identifies the owner of a replay's notes: the key that moves, the work keys that authenticate its notes,
/// and where to report notes of others.
struct Notary {
  Digest key;
  WorkKeys work_keys;
  Progress& progress;
};

/// The notes, in `folder`, of a party that defends `drill` (or nothing) in a game's segment. They depend on
/// the segment alone, so every game about that segment of the proof shares them.
[[nodiscard]] DisputeNotes notes_of(const std::string& folder, const protocol::Game& game,
                                    const std::optional<std::string>& drill, const Notary& notary);

/// The moves that a key has signed in a game, kept so that it never signs two for one turn, even if the
/// transcript is lost.
class SignedMoves {
 public:
  SignedMoves(std::string folder, const protocol::Game& game, const Digest& key);
  /// The move signed for that turn after statement `previous`, if any.
  [[nodiscard]] Result<std::optional<manifest::Signed<manifest::Move>>> find(std::int64_t turn,
                                                                             const Digest& previous) const;
  /// Makes the folder and claims the file: before a replay that would be in vain without them.
  [[nodiscard]] Result<Output> claim() const;
  /// Records a move, durably, in the file that was claimed.
  [[nodiscard]] Status add(const manifest::Signed<manifest::Move>& move, Output& notebook) const;

 private:
  std::string folder_;
  std::string path_;
  Digest game_;
  Digest key_;
};

}  // namespace dgx::jobs
