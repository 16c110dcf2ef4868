#pragma once

#include <string>

#include "dgx/crypto/ed25519.h"
#include "dgx/jobs/dispute.h"
#include "dgx/jobs/task_files.h"

namespace dgx::jobs {

/// A transcript as its file has it, played, without an unfinished last line, as a killed writer leaves it.
struct TranscriptFile {
  protocol::Transcript transcript;
  std::size_t whole_bytes = 0;  ///< of the complete lines
  std::size_t torn_bytes = 0;   ///< of the unfinished one
};

/// Reads and plays a transcript. Errors name the file: those of play_transcript(), kMissing.
[[nodiscard]] Result<TranscriptFile> read_transcript(const std::string& path);

/// One side of a dispute, ready to move: its task's files, its key and its options. Borrows options and
/// context.
struct Seat {
  const MoveOptions& options;
  const JobContext& context;
  TaskFiles files;
  crypto::SecretKey key;
  Digest key_id;
};

/// Opens task and key. kMissing if there is no transcript.
[[nodiscard]] Result<Seat> take_seat(const MoveOptions& options, const JobContext& context);

/// The side of a key; kUnauthorised for a key of neither.
[[nodiscard]] Result<protocol::Side> side_of(const protocol::Game& game, const Digest& key);

/// Makes the side's next move, as move() does, but for the lock on the transcript, which the caller holds. In
/// the other side's turn it does nothing, and the result says so.
[[nodiscard]] Result<MoveResult> move_in(const Seat& seat);

}  // namespace dgx::jobs
