#include <fmt/format.h>

#include "bisect/dispute_chunk.h"
#include "bisect/dispute_files.h"
#include "bisect/dispute_seat.h"
#include "dgx/jobs/dispute.h"
#include "dgx/jobs/dispute_story.h"
#include "dgx/jobs/task_program.h"
#include "dgx/manifest/trust.h"
#include "dgx/protocol/draw.h"

namespace dgx::jobs {
namespace {

using protocol::Game;
using protocol::Side;

std::string said_in_words(const manifest::Move& move) {
  if (move.say == concession()) return "concedes";
  const auto say = protocol::parse_message(move.say);
  return say.ok() ? in_words(*say) : "not a move: " + say.error().message;
}

void note_end(const Game& game, Side side, MoveResult& out) {
  out.decision = game.decision();
  if (out.decision) out.lost = out.decision->falls == (side == Side::kDefender);
  if (!out.decision) out.next = standing_in_words(game);
}

std::string notes_folder(const MoveOptions& options) {
  return options.notes.value_or(options.transcript + ".notes");
}

/// The fault that this side defends. Anybody can write the attribute in which a run notes its drill, so only
/// a proof's signer who asks for it defends one.
Result<std::optional<std::string>> defended_drill(const Game& game, Side side, const MoveOptions& options) {
  if (!options.drill) return std::optional<std::string>();
  if (side != Side::kDefender || game.dispute().verdict)
    return usage_error("--drill is only for the signer of the challenged proof");
  DGX_TRY(auto text, drill_text_of(options.from));
  if (!text)
    return usage_error(fmt::format("--drill: {} is not a run that was made with a drill", options.from));
  return text;
}

/// The hint for a party whose replay does not give what they signed.
std::string hint_for(const Game& game, const MoveOptions& options) {
  const std::string_view ways = "use --concede to concede, or --force to move anyway";
  if (options.drill || game.dispute().verdict) return std::string(ways);
  const auto drill = drill_text_of(options.from);
  if (!drill.ok() || !*drill) return std::string(ways);
  return fmt::format("the run records a drill, which --drill defends; {}", ways);
}

/// A digest by the defender's replay, next to the one that they signed and are bound to.
struct Bound {
  std::string what;
  std::string here;
  std::string signed_for;
};

/// The Bound of the disputed state, or of the witness made from it. Only for stages that have one.
Result<Bound> bound_of(const Game& game, SegmentReplay& party) {
  const protocol::GameState& known = game.state();
  DGX_TRY(const auto broken, party.non_finite_after());
  if (broken && *broken + 1 < known.end_step)
    return Bound{fmt::format("the state at step {}", known.end_step),
                 fmt::format("none, since step {} gives one that is not finite", *broken),
                 known.rejected.hex()};
  DGX_TRY(const Digest state, party.state(known.end_step));
  if (!game.stage<protocol::ShowInterior>())
    return Bound{fmt::format("the state at step {}", known.end_step), state.hex(), known.rejected.hex()};
  return Bound{"the witness", protocol::witness_due(game.dispute(), state).hex(), known.row->witness.hex()};
}

/// The outcome of the diverging step in a replay, next to the one this side has signed.
Result<Bound> divergence_of(SegmentReplay& party) {
  DGX_TRY(const auto broken, party.non_finite_after());
  const std::string signed_for = "one that is not finite";
  return Bound{"the state after the diverging step", broken ? signed_for : "a finite one", signed_for};
}

/// kInconclusive for a defender whose replay does not give what they signed: the numbers they post would
/// convict them. With Clobber::kForce only a warning.
Status check_bound(const Game& game, SegmentReplay& party, const MoveOptions& options,
                   const JobContext& context) {
  if (game.stage<protocol::ShowRow>()) return {};
  const bool of_row = game.state().row && !game.state().row->agrees;
  if (game.stage<protocol::ShowFault>() && of_row) return {};
  DGX_TRY(const Bound bound,
          game.stage<protocol::ShowFault>() ? divergence_of(party) : bound_of(game, party));
  if (bound.here == bound.signed_for) return {};
  const std::string why =
      fmt::format("{}: a replay gives {} as {}, but this side signed {}: the game would be lost",
                  options.from, bound.what, bound.here, bound.signed_for);
  if (context.clobber == Clobber::kForce) return context.progress.warning(why), Status();
  return Error{ErrorCode::kInconclusive, why, hint_for(game, options)};
}

Result<protocol::Message> answer_demand(const Game& game, ReplaySource& source, const MoveOptions& options,
                                        const JobContext& context) {
  if (!options.location && !options.store)
    return usage_error("a chunk is demanded", "--store DIR puts it where the operator fetches it");
  const std::string location = options.location.value_or("chunk-" + game.dispute().challenge.id.brief());
  DGX_TRY(const State* const state, source.start());
  DGX_TRY(auto answer, answer_chunk(game, *state, location, options.store, context.clobber));
  return protocol::Message(std::move(answer));
}

Status give_rows(const Game& game, const MoveOptions& options, SegmentReplay& party) {
  if (!game.stage<protocol::ShowRow>() || !options.rows) return {};
  DGX_TRY(const std::string text, read_file(*options.rows, manifest::kMaxRowsBytes));
  auto rows = manifest::decode_rows(text, game.dispute().verdict->body);
  if (!rows.ok()) return within(*options.rows, std::move(rows).error());
  party.answer_with(*std::move(rows));
  return {};
}

/// The next move of the key's side, by its replay; nullopt if there is none.
Result<std::optional<protocol::Message>> next_of(const TaskFiles& files, const Game& game, Side side,
                                                 const MoveOptions& options, const JobContext& context,
                                                 const Notary& notary, MoveResult& out) {
  const manifest::Challenge& challenge = game.dispute().challenge.body;
  DGX_TRY(const auto drill_text, defended_drill(game, side, options));
  ReplaySource source(files, options.data, options.parts, context);
  source.start_from(options.from, challenge.segment, challenge.start.digest);
  if (game.stage<protocol::ShowChunk>()) {
    DGX_TRY(auto answer, answer_demand(game, source, options, context));
    return std::optional<protocol::Message>(std::move(answer));
  }
  std::optional<Drill> drill;
  if (drill_text) {
    DGX_TRY(drill, parse_drill(*drill_text));
    context.progress.warning("this side defends the run's drill, a deliberate fault");
  }
  const DisputeNotes notes = notes_of(notes_folder(options), game, drill_text, notary);
  SegmentReplay party(game.segment(), source, drill, &notes);
  DGX_CHECK(give_rows(game, options, party));
  Status bound = side == Side::kDefender ? check_bound(game, party, options, context) : Status();
  protocol::Player player(*files.program, party);
  auto say = bound.ok() ? player.next(game) : std::move(bound).error();
  out.replayed_steps = party.replayed_steps();
  if (Status kept = party.keep(notes); !kept.ok())
    context.progress.warning(kept.error().message + ": nothing is noted");
  return say;
}

/// next_of()'s move in the form that is signed.
Result<std::optional<json::Object>> next_object(const TaskFiles& files, const Game& game, Side side,
                                                const MoveOptions& options, const JobContext& context,
                                                const Notary& notary, MoveResult& out) {
  if (options.concede) return std::optional(concession());
  DGX_TRY(const auto say, next_of(files, game, side, options, context, notary, out));
  return say ? std::optional(protocol::print_message(*say)) : std::nullopt;
}

}  // namespace

Result<TranscriptFile> read_transcript(const std::string& path) {
  DGX_TRY(const std::string text, read_file(path, protocol::kMaxTranscriptBytes));
  const std::size_t end = text.rfind('\n');
  const std::size_t whole = end == std::string::npos ? 0 : end + 1;
  auto played = protocol::play_transcript(std::string_view(text).substr(0, whole));
  if (!played.ok()) return within(path, std::move(played).error());
  return TranscriptFile{*std::move(played), whole, text.size() - whole};
}

Result<Side> side_of(const Game& game, const Digest& key) {
  if (key == game.dispute().defender()) return Side::kDefender;
  if (key == game.dispute().challenger()) return Side::kChallenger;
  return unauthorised(fmt::format("key {} belongs to neither side: the defender is {}, the challenger {}",
                                  key.brief(), game.dispute().defender().brief(),
                                  game.dispute().challenger().brief()));
}

Result<Seat> take_seat(const MoveOptions& options, const JobContext& context) {
  DGX_CHECK(choose_instruction_set(options.isa));
  DGX_TRY(TaskFiles files, open_task(options.task, options.program, context.trust));
  DGX_TRY(crypto::SecretKey key, read_key(options.key));
  if (!exists(options.transcript))
    return Error{ErrorCode::kMissing, options.transcript + ": does not exist", {}};
  const Digest key_id = crypto::key_id(key.public_key());
  return Seat{options, context, std::move(files), std::move(key), key_id};
}

namespace {

/// The move signed for this turn: the one noted, or a new one, which is noted before anybody sees it. nullopt
/// if this side has nothing to say.
Result<std::optional<manifest::Signed<manifest::Move>>> signed_move(const Seat& seat, const Game& game,
                                                                    MoveResult& out) {
  const auto& [options, context, files, key, key_id] = seat;
  DGX_CHECK(refuse_link(notes_folder(options)));
  const SignedMoves made(notes_folder(options), game, key_id);
  DGX_TRY(auto found, made.find(game.turn(), game.last()));
  if (found) return found;
  const Notary notary{key_id, WorkKeys::of(key), context.progress};
  DGX_TRY(Output notebook, made.claim());
  DGX_TRY(auto say, next_object(files, game, out.side, options, context, notary, out));
  if (!say) return found;
  manifest::Move body{files.task.id, game.dispute().challenge.id, game.turn(), game.last(), *std::move(say)};
  DGX_TRY(found, manifest::seal(std::move(body), key));
  DGX_CHECK(made.add(*found, notebook));
  return found;
}

}  // namespace

Result<MoveResult> move_in(const Seat& seat) {
  const std::string& path = seat.options.transcript;
  DGX_TRY(TranscriptFile file, read_transcript(path));
  Game& game = file.transcript.game;
  if (game.dispute().task.id != seat.files.task.id)
    return malformed(path + ": belongs to another task than " + seat.options.task);
  MoveResult out;
  DGX_TRY(out.side, side_of(game, seat.key_id));
  out.turn = game.turn() - 1;
  note_end(game, out.side, out);
  if (game.decision()) return out;
  out.waits = game.due().side != out.side;
  if (out.waits) return out;
  if (file.torn_bytes > 0) {
    seat.context.progress.warning(
        fmt::format("{}: dropping the unfinished last line of {} bytes", path, file.torn_bytes));
  }
  DGX_TRY(const auto next, signed_move(seat, game, out));
  out.next.clear();
  out.lost = !next;
  if (!next) return out;
  DGX_CHECK(game.apply(*next));
  if (file.torn_bytes > 0) DGX_CHECK(truncate_file(path, file.whole_bytes));
  DGX_CHECK(append_line(path, next->envelope));
  out.move = next->id;
  out.turn = next->body.turn;
  out.said = said_in_words(next->body);
  out.move_bytes = static_cast<std::int64_t>(next->envelope.size()) + 1;
  note_end(game, out.side, out);
  return out;
}

Result<MoveResult> move(const MoveOptions& options, const JobContext& context) {
  DGX_TRY(const Seat seat, take_seat(options, context));
  DGX_TRY(const FileLock lock, FileLock::acquire(options.transcript, context.lock_wait));
  DGX_TRY(MoveResult out, move_in(seat));
  if (out.waits) return not_allowed("it is not this side's turn: " + out.next);
  return out;
}

namespace {

std::string words_of(const manifest::Challenge& challenge) {
  return fmt::format("of the {}: {} {}", challenge.verdict ? "verdict" : "proof",
                     manifest::name_of(challenge.about), challenge.segment);
}

/// The lines of a transcript, each with what it says.
std::vector<DisputeStanding::Said> lines_in_words(const protocol::Transcript& transcript) {
  std::vector<DisputeStanding::Said> out;
  auto move = transcript.moves.begin();
  for (const protocol::TranscriptLine& line : transcript.lines) {
    std::string words;
    if (line.kind == manifest::Kind::kChallenge) words = words_of(transcript.game.dispute().challenge.body);
    if (line.kind == manifest::Kind::kMove) {
      words = fmt::format("turn {}: {}", move->body.turn, said_in_words(move->body));
      ++move;
    }
    out.push_back({line, std::move(words)});
  }
  return out;
}

/// The names of --trust, which must name the task's submitter.
Result<Cast> cast_of(const Game& game, const std::string& path, const JobContext& context) {
  Cast cast;
  if (context.trust) {
    DGX_TRY(const manifest::Trust trust, manifest::Trust::load(*context.trust));
    DGX_CHECK(trust.check(game.dispute().task.key_id, path + ": the task's submitter"));
    cast = Cast(trust.names());
  }
  cast_dispute(game.dispute(), cast);
  return cast;
}

}  // namespace

Result<DisputeStanding> show_dispute(const ShowOptions& options, const JobContext& context) {
  const std::string& path = options.transcript;
  DGX_TRY(TranscriptFile file, read_transcript(path));
  protocol::Transcript& transcript = file.transcript;
  DGX_TRY(const Cast cast, cast_of(transcript.game, path, context));
  std::shared_ptr<const program::Program> program;
  if (options.program) {
    DGX_TRY(program,
            open_program(*options.program, transcript.game.dispute().task.body.program, "step program"));
  }
  DisputeStory story =
      tell_dispute({transcript.game, transcript.moves, transcript.logged_ms, program.get()}, cast);
  if (transcript.logged_ms.empty())
    story.claims.emplace_back(
        "When is not known: statements carry no dates, and no receipt of a ledger is in the transcript.");
  std::vector<DisputeStanding::Said> lines = lines_in_words(transcript);
  return DisputeStanding{std::move(transcript.game), std::move(lines), std::move(story),
                         static_cast<std::int64_t>(file.whole_bytes),
                         static_cast<std::int64_t>(file.torn_bytes)};
}

}  // namespace dgx::jobs
