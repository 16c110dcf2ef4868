#include <fmt/format.h>
#include <unistd.h>

#include <set>

#include "bisect/dispute_seat.h"
#include "dgx/jobs/settle.h"
#include "settle/read_ledger.h"
#include "task/file_watch.h"
#include "task/post.h"

namespace dgx::jobs {
namespace {

using protocol::Side;

/// The record of a game in a ledger; null if it is not there.
const protocol::GameRecord* find_game(const protocol::Market& market, const Digest& game) {
  for (const auto& [id, task] : market.tasks()) {
    for (const protocol::GameRecord& record : task.games) {
      if (record.id() == game) return &record;
    }
  }
  return nullptr;
}

/// Adds to the transcript the moves that the ledger has of its game and it has not. Returns the game's end if
/// the ledger has ended it: by a move, or by a deadline that its time has passed. The caller holds the lock.
Result<std::optional<protocol::Decision>> follow(const std::string& ledger, const Seat& seat) {
  const std::string& path = seat.options.transcript;
  DGX_TRY(const TranscriptFile file, read_transcript(path));
  DGX_TRY(const LedgerView view, view_ledger(ledger_file(ledger, seat.context)));
  const Digest& game = file.transcript.game.dispute().challenge.id;
  const protocol::GameRecord* const record = find_game(view.market, game);
  if (record == nullptr) return std::optional<protocol::Decision>();
  std::set<Digest> known;
  for (const protocol::TranscriptLine& line : file.transcript.lines) known.insert(line.id);
  std::string news;
  DGX_TRY(const auto moves, moves_of(view.log, record->game));
  for (const auto& move : moves) {
    if (!known.contains(move.id)) news += move.envelope + "\n";
  }
  if (!news.empty()) {
    if (file.torn_bytes > 0) DGX_CHECK(truncate_file(path, file.whole_bytes));
    DGX_CHECK(append_text(path, news));
  }
  return protocol::game_at(*record, view.market.clock().now()).decision();
}

/// One look at the transcript, under its lock.
struct Look {
  std::optional<MoveResult> made;  ///< empty if somebody else holds the lock
  std::optional<protocol::Decision>
      decision;  ///< the game's end, whether by its moves or by the ledger's time
};

/// Takes what is new and, if it is this side's turn, moves.
Result<Look> look_and_move(const PlayOptions& options, const Seat& seat) {
  Look out;
  // A lock that another process holds is no error here: the file was there, and the other side is moving.
  const auto lock = FileLock::acquire(options.moves.transcript);
  if (!lock.ok() && lock.error().code == ErrorCode::kMissing) return lock.error();
  if (!lock.ok()) return out;
  if (options.ledger) {
    DGX_TRY(out.decision, follow(*options.ledger, seat));
  }
  if (out.decision) {
    DGX_TRY(const TranscriptFile file, read_transcript(options.moves.transcript));
    out.made.emplace().turn = file.transcript.game.turn() - 1;
    return out;
  }
  DGX_TRY(out.made, move_in(seat));
  out.decision = out.made->decision;
  return out;
}

/// The error for a challenger who finds nothing wrong.
Error nothing_to_object(const std::string& from) {
  return {ErrorCode::kInconclusive, from + ": this replay gives no reason to object: the game is lost",
          "dgx-bisect move --concede ends it now; else it ends, in a ledger, when this move is late"};
}

/// The files in which the other side's moves appear. A ledger's receipts are written after its entries.
std::vector<std::string> watched_by(const PlayOptions& options) {
  std::vector<std::string> out{options.moves.transcript};
  if (options.ledger) out.push_back(ledger::receipts_path(*options.ledger));
  return out;
}

std::string side_awaited(Side ours) {
  return fmt::format("the {}'s move",
                     protocol::name_of(ours == Side::kDefender ? Side::kChallenger : Side::kDefender));
}

}  // namespace

Result<PlayResult> play(const PlayOptions& options, const JobContext& context) {
  DGX_TRY(const Seat seat, take_seat(options.moves, context));
  DGX_TRY(const TranscriptFile before, read_transcript(options.moves.transcript));
  PlayResult out;
  DGX_TRY(out.side, side_of(before.transcript.game, seat.key_id));
  const auto hand_on = [&] {
    return options.post ? post(*options.post, options.moves.transcript) : Status();
  };
  if (::access(options.moves.transcript.c_str(), W_OK) != 0)
    return errno_error(options.moves.transcript, "write");
  DGX_CHECK(hand_on());
  FileWatch watch(watched_by(options), context.stop, options.timeout);
  for (;;) {
    watch.look();
    DGX_TRY(const Look look, look_and_move(options, seat));
    if (look.made && look.made->move) {
      ++out.moves;
      context.progress.note(fmt::format("turn {}: {}", look.made->turn, look.made->said));
      DGX_CHECK(hand_on());
      watch.expect();
    }
    if (look.decision) {
      out.turns = look.made->turn;
      out.decision = *look.decision;
      out.lost = out.decision.falls == (out.side == Side::kDefender);
      return out;
    }
    if (look.made && look.made->lost) return nothing_to_object(options.moves.from);
    constexpr std::chrono::milliseconds kRetry{200};
    if (look.made && look.made->waits) DGX_CHECK(watch.wait(side_awaited(out.side)));
    if (!look.made) DGX_CHECK(watch.wait("another process that moves", kRetry));
  }
}

}  // namespace dgx::jobs
