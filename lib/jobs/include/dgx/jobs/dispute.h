#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dgx/core/bytes.h"
#include "dgx/core/job_context.h"
#include "dgx/core/result.h"
#include "dgx/jobs/key.h"
#include "dgx/jobs/story.h"
#include "dgx/protocol/game.h"
#include "dgx/protocol/referee.h"

namespace dgx::jobs {

/// dgx-bisect open (dgx-bisect(1)).
struct OpenDisputeOptions {
  std::string task;
  std::string proof;
  std::optional<std::string> program;
  std::optional<std::string> from;  ///< START.h5|RUN; needed where something is replayed
  std::optional<std::string> data;  ///< the dataset; needed in the same cases
  std::optional<std::int64_t> segment;
  std::optional<std::string> verdict;  ///< one's own, which refutes: its first disagreement gives the segment
  std::optional<std::string> against;  ///< the verdict challenged instead of the proof
  std::optional<std::string> beacon;   ///< the beacon of the verdict challenged
  std::optional<std::string> secret = {};  ///< its verifier's secret, where the market forces errors
  std::optional<std::string> offer = {};   ///< the offer that committed to the secret; needed with it
  std::optional<std::string> chunk;        ///< demand a piece of this entry of committed state `segment`
  std::int64_t part = 0;                   ///< the piece: which MiB of the entry
  bool initial = false;                    ///< challenge the first committed state
  bool final_state = false;                ///< challenge the last committed state
  std::optional<std::string> notes;        ///< as MoveOptions::notes
  KeyFile key;
  std::int64_t parts = 1;  ///< of each batch, made one after another
  std::optional<std::string> isa;
  std::string output;  ///< DISPUTE.jsonl
};

struct OpenDisputeResult {
  Digest game;  ///< id of the challenge
  Digest statement;
  Digest defender;
  manifest::About about = manifest::About::kSegment;
  std::int64_t segment = 0;
  std::int64_t replayed_steps = 0;
  std::int64_t bytes = 0;  ///< length of the transcript
  std::optional<protocol::Decision> decision;
};

/// Signs a challenge of a proof or of a verdict, and writes the transcript that it begins.
///
/// A challenge that an honest replay does not support is refused with kInconclusive, unless forced with
/// Clobber::kForce: of a named segment, of a verdict's rows, of the initial or the final state. One's own
/// verdict is believed. kMalformed for files of another task or proof, for a start state that is not the
/// committed one, and for rows that cannot be played on; kUsage for options that do not go together.
[[nodiscard]] Result<OpenDisputeResult> open_dispute(const OpenDisputeOptions& options,
                                                     const JobContext& context);

/// dgx-bisect move (dgx-bisect(1)).
struct MoveOptions {
  std::string task;
  std::string transcript;
  std::optional<std::string> program;
  std::string from;  ///< START.h5|RUN
  std::string data;
  /// The place from which a demanded chunk can be fetched; with a store, the one there.
  std::optional<std::string> location;
  std::optional<std::string> store;  ///< the store that the chunk is put into
  std::optional<std::string> rows;   ///< the rows of this side's verdict, if one of them is demanded
  std::optional<std::string> notes;  ///< a folder; none: DISPUTE.jsonl.notes
  bool drill = false;                ///< defend the fault that the run notes; only for the proof's signer
  bool concede = false;              ///< lose the game now
  KeyFile key;
  std::int64_t parts = 1;  ///< of each batch, made one after another
  std::optional<std::string> isa;
};

struct MoveResult {
  protocol::Side side = protocol::Side::kDefender;
  std::optional<Digest> move;  ///< none: nothing to say, or the game was already over
  std::int64_t turn = 0;       ///< the turn taken
  std::string said;            ///< the move in words
  std::int64_t move_bytes = 0;
  std::int64_t replayed_steps = 0;
  std::string next;  ///< what the other side must do; empty once the game is over or given up
  std::optional<protocol::Decision> decision;
  bool lost = false;   ///< decided against this side, or it has no reason to object
  bool waits = false;  ///< nothing was done: it is the other side's turn
};

/// Makes the next move for the key's side and appends it durably; called again for the same turn, it makes
/// the same move again. Both sides replay honestly and take only the start state from a run; only with
/// `drill` is the fault that the run notes defended. Everything computed and every move signed is noted, so
/// no turn is ever signed twice differently.
///
/// kNotAllowed if it is the other side's turn; kInconclusive for a defender whose replay does not give what
/// they signed (with Clobber::kForce they move nonetheless); kUsage for a drill defended by anyone but the
/// proof's signer; kUnauthorised for a key of neither side; kMalformed for a transcript of another task, or a
/// start state that is not the committed one; kLocked if another process is moving.
[[nodiscard]] Result<MoveResult> move(const MoveOptions& options, const JobContext& context);

/// dgx-bisect play (dgx-bisect(1)).
struct PlayOptions {
  MoveOptions moves;                  ///< without `concede`
  std::optional<std::string> ledger;  ///< from which moves and missed deadlines are taken, too
  std::optional<std::string> post;    ///< a command that is run with the transcript after each of one's moves
  /// The longest wait for the other side, each time; none: for ever.
  std::optional<std::chrono::seconds> timeout;
};

struct PlayResult {
  protocol::Side side = protocol::Side::kDefender;
  std::int64_t moves = 0;  ///< made by this call
  std::int64_t turns = 0;  ///< taken by both sides, as the transcript has them
  protocol::Decision decision;
  bool lost = false;
};

/// Makes every move of the key's side, as move() does, until the game is over. Between them it waits until
/// the other side has added its move to the transcript or, with a ledger, until that has it: the transcript
/// then gets it. The transcript is locked only while it is read and written, so two parties can share one.
///
/// A ledger that says that a side has missed its deadline ends the game, too. `post` hands on what was said:
/// it runs at the beginning, since an earlier call may have been killed before it, and after each move. If it
/// fails, so does the call (kIo); the move stays.
///
/// kInterrupted if it is stopped while it waits or has waited for `timeout`: the same call goes on.
/// kInconclusive for a challenger whose replay gives no reason to object. Other errors are those of move(),
/// and of reading the ledger.
[[nodiscard]] Result<PlayResult> play(const PlayOptions& options, const JobContext& context);

/// dgx-bisect show (dgx-bisect(1)).
struct ShowOptions {
  std::string transcript;
  std::optional<std::string> program;  ///< the task's step program, for the roles of numbers
};

/// The state of a dispute, its moves in a few words each, and its story, for observers.
struct DisputeStanding {
  struct Said {
    protocol::TranscriptLine line;
    std::string words;
  };
  protocol::Game game;
  std::vector<Said> lines;
  DisputeStory story;
  std::int64_t bytes = 0;
  std::int64_t torn = 0;  ///< bytes of an unfinished last line, which is ignored
};
/// Errors of protocol::play_transcript; kUnauthorised for a task whose submitter `trust` does not name;
/// kMalformed for a program that is not the task's.
[[nodiscard]] Result<DisputeStanding> show_dispute(const ShowOptions& options, const JobContext& context);

/// "199 states", "names 17", "claim d: index 3, 2 operands", …
[[nodiscard]] std::string in_words(const protocol::Message& say);

}  // namespace dgx::jobs
