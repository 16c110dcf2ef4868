#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dgx/core/result.h"
#include "dgx/manifest/log.h"
#include "dgx/protocol/game.h"

namespace dgx::protocol {

/// Transcripts of disputes (dgx-dispute(7), "Transcripts"): reads text into a game, which says how it stands
/// or how it ended. This, the game and what it uses are the whole referee: no model, data, clock, thread or
/// network.

inline constexpr std::size_t kMaxTranscriptBytes = std::size_t{8} << 20;
inline constexpr std::size_t kMaxTranscriptLines = 1024;

/// A statement of a transcript, for display.
struct TranscriptLine {
  manifest::Kind kind = manifest::Kind::kTask;
  Digest id;
  Digest key_id;
  std::size_t bytes = 0;
};

/// A transcript that was read, and its game as it came out.
struct Transcript {
  Game game;
  std::vector<TranscriptLine> lines;
  std::vector<manifest::Signed<manifest::Move>> moves;  ///< in their order
  /// Unix milliseconds by statement, by the receipts of the task's ledger that the signer of the first one
  /// signed. No rule looks at them, and unless an operator was named nobody vouches for the signer.
  std::map<Digest, std::int64_t> logged_ms;
};

/// Reads a transcript and plays its game. Only its statements decide, never time, which only a ledger knows.
/// The answer to a demanded chunk counts only with a receipt by the operator of the task's ledger, whose key
/// id is `operator_key`; without one, kInconclusive. kMalformed or kUnauthorised, with the line, for what is
/// not a transcript: an error is never a verdict. Cost: one signature check per line, and the hashes.
[[nodiscard]] Result<Transcript> play_transcript(std::string_view text,
                                                 const std::optional<Digest>& operator_key = std::nullopt);

}  // namespace dgx::protocol
