#include <fmt/format.h>

#include <algorithm>

#include "bisect/dispute_chunk.h"
#include "bisect/dispute_files.h"
#include "dgx/jobs/dispute.h"
#include "dgx/jobs/proof_files.h"
#include "dgx/merkle/tree.h"
#include "dgx/protocol/draw.h"
#include "dgx/protocol/forced.h"
#include "dgx/protocol/verify.h"

namespace dgx::jobs {
namespace {

using manifest::About;
using manifest::Challenge;
using manifest::RowReason;
using manifest::Signed;
using manifest::VerdictRow;

struct Inputs {
  const OpenDisputeOptions& options;
  const JobContext& context;
  const TaskFiles& files;
  const ProofFiles& proof;
};

/// A verdict with its rows.
struct OpenVerdict {
  Signed<manifest::Verdict> verdict;
  std::vector<VerdictRow> rows;
  std::optional<protocol::DrawSource> beacon;
  std::string beacon_envelope;
  bool hidden = false;  ///< its signer withholds the rows
  std::optional<Signed<manifest::Beacon>> secret = {};
  std::optional<Signed<manifest::BeaconCommitment>> offer = {};  ///< with `secret`
};

/// This side's replay of the segment that was checked last, kept for the moves.
struct OwnReplay {
  std::unique_ptr<ReplaySource> source;
  std::unique_ptr<SegmentReplay> party;
  std::int64_t steps = 0;  ///< taken in all segments that were checked
};

Status check_about(const Signed<manifest::Verdict>& verdict, const ProofFiles& proof,
                   const std::string& path) {
  if (verdict.body.task == proof.proof.body.task && verdict.body.proof == proof.proof.id) return {};
  return malformed(path + ": belongs to another proof");
}

Status check_segment(const ProofFiles& proof, std::int64_t segment) {
  if (segment >= 0 && segment < proof.segments.count()) return {};
  return usage_error(
      fmt::format("--segment {}: the proof has segments 0 to {}", segment, proof.segments.count() - 1));
}

/// Refuses a challenge that the replay does not support; with Clobber::kForce only warns.
Status unfounded(const JobContext& context, const std::string& why) {
  if (context.clobber == Clobber::kForce) return context.progress.warning(why), Status();
  return Error{ErrorCode::kInconclusive, why + ": the challenge would be lost", "--force makes it anyway"};
}

Result<manifest::CommittedState> committed(const ProofFiles& proof, std::int64_t index) {
  std::vector<Digest> leaves;
  for (const Digest& digest : proof.states) leaves.push_back(merkle::committed_state_leaf(digest));
  DGX_TRY(auto path, merkle::inclusion_path(leaves, static_cast<std::uint64_t>(index)));
  return manifest::CommittedState{proof.states[static_cast<std::size_t>(index)], std::move(path)};
}

/// A challenge that opens committed state `index`, and no more yet.
Result<Challenge> challenge_state(const Inputs& in, std::int64_t index) {
  Challenge out;
  out.task = in.files.task.id;
  out.proof = in.proof.proof.id;
  out.segment = index;
  DGX_TRY(out.start, committed(in.proof, index));
  return out;
}

Result<Challenge> challenge_segment(const Inputs& in, std::int64_t segment) {
  DGX_TRY(Challenge out, challenge_state(in, segment));
  if (!in.proof.segments.diverges(segment)) {
    DGX_TRY(out.end, committed(in.proof, segment + 1));
  }
  return out;
}

/// The challenge of --initial or of --final.
Result<Challenge> challenge_end(const Inputs& in) {
  const auto& [options, context, files, proof] = in;
  const std::int64_t segment = options.initial ? 0 : proof.segments.between() - 1;
  if (segment < 0) return usage_error("--final: the proof has one state, which is its first and its last");
  DGX_TRY(Challenge out, challenge_segment(in, segment));
  out.about = options.initial ? About::kInitial : About::kFinal;
  const manifest::Proof& body = proof.proof.body;
  const Digest& must = files.body().initial.digest;
  const bool right = options.initial ? proof.states.front() == must && body.initial == must
                                     : proof.states.back() == body.final_state;
  if (right)
    DGX_CHECK(unfounded(context, options.initial ? "the proof begins at the task's initial state"
                                                 : "the proof ends at its final state"));
  return out;
}

Result<Challenge> challenge_chunk(const Inputs& in) {
  const std::int64_t index = *in.options.segment, states = in.proof.segments.states();
  if (index < 0 || index >= states)
    return usage_error(fmt::format("--segment {}: the proof has states 0 to {}", index, states - 1));
  DGX_TRY(Challenge out, challenge_state(in, index));
  out.about = About::kChunk;
  DGX_TRY(out.chunk, chunk_reference(*in.files.program, *in.options.chunk, in.options.part));
  return out;
}

/// The segment that this side's own verdict refutes.
Result<std::int64_t> refuted_segment(const Inputs& in) {
  const std::string& path = *in.options.verdict;
  DGX_TRY(const auto mine, manifest::read_statement<manifest::Verdict>(path));
  DGX_CHECK(check_about(mine, in.proof, path));
  const auto& row = mine.body.first_disagreement;
  if (!row)
    return Error{ErrorCode::kInconclusive, path + ": refutes nothing", "name a segment with --segment"};
  if (row->reason != RowReason::kStep && row->reason != RowReason::kState) return row->index;
  return malformed(fmt::format("{}: segment {} does not begin at a state of the program (reason \"{}\")",
                               path, row->index, manifest::name_of(row->reason)),
                   row->index > 0 ? fmt::format("the segment before ends there: --segment {}", row->index - 1)
                                  : "--initial");
}

/// Makes `own` a replay of a segment, from its committed start.
Status look_at(const Inputs& in, std::int64_t segment, OwnReplay& own) {
  if (!in.options.from || !in.options.data)
    return usage_error("--from and --data are required to replay segment " + std::to_string(segment));
  own.party.reset();
  own.source = std::make_unique<ReplaySource>(in.files, *in.options.data, in.options.parts, in.context);
  own.source->start_from(*in.options.from, segment, in.proof.states[static_cast<std::size_t>(segment)]);
  own.party = std::make_unique<SegmentReplay>(in.proof.segments[segment], *own.source);
  return {};
}

/// The step after which the replay is not finite, if there is one.
Result<std::optional<std::int64_t>> non_finite_after(OwnReplay& own) {
  auto found = own.party->non_finite_after();
  own.steps += own.party->replayed_steps();
  return found;
}

/// Refuses a start state at another step than the segment's first. A game numbers its steps by the segment, a
/// replay by the start state's counter: if they differ, the start itself is wrong, and a game about what
/// follows from it would be lost.
Status check_start(const Inputs& in, std::int64_t segment, OwnReplay& own) {
  DGX_TRY(const State* const start, own.source->start());
  const auto step = step_of(*start);
  const std::int64_t first = in.proof.segments[segment].first;
  if (!step.ok() || *step == first) return {};
  return unfounded(
      in.context,
      fmt::format("the committed start of segment {} is at step {}, not {}: {} is wrong", segment, *step,
                  first, segment > 0 ? fmt::format("segment {}", segment - 1) : "the initial state"));
}

/// True if the replay ends in another state than `end`, or, for nullopt, does not diverge.
Result<bool> contradicts_end(const Inputs& in, std::int64_t segment, const std::optional<Digest>& end,
                             OwnReplay& own) {
  DGX_CHECK(look_at(in, segment, own));
  DGX_CHECK(check_start(in, segment, own));
  DGX_TRY(const auto broken, non_finite_after(own));
  if (broken || !end) return broken.has_value() == end.has_value();
  DGX_TRY(const Digest digest, own.party->state(in.proof.segments[segment].end));
  return digest != end;
}

/// The challenge of --segment, made without a verdict.
Result<Challenge> challenge_replayed(const Inputs& in, OwnReplay& own) {
  const auto& [options, context, files, proof] = in;
  const std::int64_t segment = *options.segment;
  DGX_CHECK(check_segment(proof, segment));
  DGX_TRY(const bool borne_out,
          contradicts_end(in, segment, protocol::committed_end(proof.segments, proof.states, segment), own));
  if (!borne_out)
    DGX_CHECK(
        unfounded(context, proof.segments.diverges(segment)
                               ? fmt::format("in a replay, step {} diverges", proof.segments.steps())
                               : fmt::format("a replay of segment {} ends in the committed state", segment)));
  return challenge_segment(in, segment);
}

/// The rows of an acceptance that states its witnesses: everything else in them follows from the proof and
/// the draw. Empty if it states none, or the draw is not known.
Result<std::vector<VerdictRow>> stated_rows(const Inputs& in, const OpenVerdict& against) {
  const std::vector<Digest>& witnesses = against.verdict.body.witnesses;
  std::vector<VerdictRow> out;
  if (witnesses.empty() || !against.beacon) return out;
  const protocol::Segments& segments = in.proof.segments;
  DGX_TRY(const auto drawn, protocol::policy_draw(in.files.body(), segments, against.beacon->value,
                                                  in.proof.proof.id, against.verdict.key_id));
  if (drawn.size() != witnesses.size())
    return malformed(*in.options.against + ": does not state the witnesses of the segments drawn");
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    const Digest end =
        protocol::committed_end(segments, in.proof.states, drawn[i]).value_or(manifest::diverged_end());
    out.push_back({drawn[i], end, end, true, RowReason::kEqual, witnesses[i]});
  }
  return out;
}

/// Checks that the secret is the one to which the verdict's signer has committed: with another the challenge
/// is void, and its bond may be lost by what it says.
Status check_committed(const Inputs& in, const Digest& verifier, const Signed<manifest::Beacon>& secret,
                       const Signed<manifest::BeaconCommitment>& offer) {
  if (secret.body.proof != in.proof.proof.id || secret.body.task != in.files.task.id)
    return malformed(*in.options.secret + ": belongs to another proof");
  if (offer.key_id != verifier || offer.body.task != in.files.task.id)
    return malformed(*in.options.offer + ": is not the offer of whoever gave the verdict");
  const bool same = secret.body.commitment == offer.id &&
                    manifest::beacon_commitment(secret.body.secret) == offer.body.commitment;
  return same ? Status{} : malformed(*in.options.secret + ": is not the secret of the offer");
}

/// Reads the secret that says which of the verdict's witnesses had to be false, and the offer that committed
/// to it; neither where none is forced.
Status read_secret_of(const Inputs& in, OpenVerdict& against) {
  const auto& path = in.options.secret;
  const bool forced = protocol::may_be_forced(in.files.body(), against.verdict.body) && against.beacon;
  if (!path && !forced) return {};
  if (!forced) return usage_error("--secret has no effect: no error was forced in this verdict");
  if (!path)
    return usage_error("--secret is required: this market forces errors",
                       "dgx-settle extract --secret takes it out of the ledger");
  if (!in.options.offer)
    return usage_error(
        "--offer is required with --secret: the offer that committed to it",
        "the first line of dgx-settle extract --statement, with the commitment that the secret names");
  DGX_TRY(against.secret, manifest::read_statement<manifest::Beacon>(*path));
  DGX_TRY(against.offer, manifest::read_statement<manifest::BeaconCommitment>(*in.options.offer));
  return check_committed(in, against.verdict.key_id, *against.secret, *against.offer);
}

/// The witness that a row of the verdict must have for the state inside its segment.
Digest witness_due(const Inputs& in, const OpenVerdict& against, std::int64_t index, const Digest& interior) {
  const Digest honest = protocol::witness_of(against.verdict.key_id, interior);
  if (!against.secret) return honest;
  const auto forced = protocol::forced_segment(in.files.body(), in.proof.segments, *against.beacon,
                                               against.secret->body.secret);
  return forced == index ? protocol::false_witness(honest) : honest;
}

/// Reads the verdict that is challenged.
Result<OpenVerdict> read_verdict(const Inputs& in) {
  const OpenDisputeOptions& options = in.options;
  DGX_TRY(auto verdict, manifest::read_statement<manifest::Verdict>(*options.against));
  DGX_CHECK(check_about(verdict, in.proof, *options.against));
  const std::string path = beside(*options.against, ".rows.jsonl");
  OpenVerdict out{std::move(verdict), {}, std::nullopt, {}, !exists(path)};
  const manifest::Verdict& body = out.verdict.body;
  if (out.hidden) {
    if (body.first_disagreement) out.rows = {*body.first_disagreement};
  } else {
    DGX_TRY(const std::string text, read_file(path, manifest::kMaxRowsBytes));
    auto rows = manifest::decode_rows(text, body);
    if (!rows.ok()) return within(path, std::move(rows).error());
    out.rows = *std::move(rows);
  }
  if (options.beacon) {
    DGX_TRY(const auto statement, manifest::read_any(*options.beacon, "beacon"));
    auto source = protocol::draw_source(statement, in.proof.proof.id);
    if (!source.ok()) return within(*options.beacon, std::move(source).error());
    out.beacon = *source;
    out.beacon_envelope = statement.envelope;
    if (body.beacon != out.beacon->id) return malformed(*options.beacon + ": is not the verdict's beacon");
  }
  DGX_CHECK(read_secret_of(in, out));
  if (body.first_disagreement) return out;
  DGX_TRY(std::vector<VerdictRow> stated, stated_rows(in, out));
  // Witnesses that are stated bind as rows do: rows that are handed out with others hide what is wrong.
  if (out.hidden || (!stated.empty() && stated != out.rows)) {
    if (!out.hidden) in.context.progress.warning(path + ": has other witnesses than the verdict states");
    out.rows = std::move(stated);
    out.hidden = true;
  }
  return out;
}

/// The part of a row that this side's replay contradicts, if any.
Result<std::optional<About>> contradicted(const Inputs& in, const OpenVerdict& against, const VerdictRow& row,
                                          OwnReplay& own) {
  const auto segment = [](bool yes) { return yes ? std::optional(About::kSegment) : std::nullopt; };
  if (row.reason != RowReason::kEqual && row.reason != RowReason::kDigest) {
    DGX_CHECK(look_at(in, row.index, own));
    const auto broken = non_finite_after(own);
    if (broken.ok()) return segment(row.reason != RowReason::kNonFinite || !*broken);
    // The start state does not have the program's entries, as a row of reason "step" or "state" says.
    if (broken.error().code == ErrorCode::kMalformed) return segment(row.reason == RowReason::kNonFinite);
    return broken.error();
  }
  const protocol::Segments& segments = in.proof.segments;
  const bool says_diverged = row.agrees && segments.diverges(row.index);
  DGX_TRY(const bool end,
          contradicts_end(in, row.index, says_diverged ? std::nullopt : std::optional(row.recomputed), own));
  if (end) return segment(true);
  if (segments[row.index].length() < 2) return std::optional<About>();  // it has no witness
  DGX_TRY(const Digest interior, own.party->state(protocol::witness_step(segments[row.index])));
  if (witness_due(in, against, row.index, interior) == row.witness) return std::optional<About>();
  if (against.verdict.body.beacon && !against.beacon)
    return usage_error("--beacon is required: a game about a witness has it");
  return std::optional(About::kWitness);
}

Result<Challenge> challenge_row(const Inputs& in, const OpenVerdict& against, std::size_t index,
                                About about) {
  const VerdictRow& row = against.rows[index];
  DGX_TRY(Challenge out, challenge_segment(in, row.index));
  out.verdict = against.verdict.id;
  out.about = about;
  const bool in_tree = !against.hidden || manifest::rows_root(against.rows) == against.verdict.body.rows;
  if (against.hidden && (!in_tree || !row.agrees)) {
    // The verdict's first disagreement, or the witness at this place, which its own signature binds.
    out.row = manifest::OpenedRow{static_cast<std::int64_t>(index), {}, row};
  } else {
    DGX_TRY(out.row, open_row(against.rows, index));
  }
  return out;
}

/// Demands a row that the verdict's signer hides; its content is not known until they show it.
Result<Challenge> challenge_hidden_row(const Inputs& in, const OpenVerdict& against) {
  if (!in.options.segment) {
    return Error{ErrorCode::kMissing, beside(*in.options.against, ".rows.jsonl") + ": does not exist",
                 "to demand the row of a segment that the policy drew, give --segment and --beacon"};
  }
  if (!against.beacon)
    return usage_error("--beacon is required: it determines which segments have rows in the verdict");
  DGX_TRY(Challenge out, challenge_segment(in, *in.options.segment));
  out.verdict = against.verdict.id;
  out.about = About::kRow;
  return out;
}

Result<Challenge> challenge_verdict(const Inputs& in, const OpenVerdict& against, OwnReplay& own) {
  const std::optional<std::int64_t>& segment = in.options.segment;
  if (segment) DGX_CHECK(check_segment(in.proof, *segment));
  std::optional<std::size_t> looked_at;
  for (std::size_t i = 0; i < against.rows.size(); ++i) {
    if (segment && against.rows[i].index != *segment) continue;
    looked_at = i;
    DGX_TRY(const auto about, contradicted(in, against, against.rows[i], own));
    if (about) return challenge_row(in, against, i, *about);
  }
  if (!looked_at && against.hidden) return challenge_hidden_row(in, against);
  if (!looked_at) return malformed(*in.options.against + ": has no row of that segment");
  DGX_CHECK(unfounded(in.context, "a replay confirms the verdict"));
  return challenge_row(in, against, *looked_at, About::kSegment);
}

/// Chooses what to challenge: what the options name, if a replay supports it.
Result<Challenge> choose(const Inputs& in, const std::optional<OpenVerdict>& against, OwnReplay& own) {
  if (against) return challenge_verdict(in, *against, own);
  if (in.options.initial || in.options.final_state) return challenge_end(in);
  if (in.options.verdict) {
    DGX_TRY(const std::int64_t segment, refuted_segment(in));
    return challenge_segment(in, segment);
  }
  return in.options.chunk ? challenge_chunk(in) : challenge_replayed(in, own);
}

Status check_options(const OpenDisputeOptions& options) {
  const int said = static_cast<int>(options.segment.has_value() && !options.against) +
                   static_cast<int>(options.verdict.has_value()) +
                   static_cast<int>(options.against.has_value()) + static_cast<int>(options.initial) +
                   static_cast<int>(options.final_state);
  if (options.chunk && (!options.segment || options.against))
    return usage_error("--chunk needs a committed state of the proof", "name it with --segment");
  if (said == 1) return {};
  return usage_error("exactly one of --segment, --verdict, --against, --initial and --final is required",
                     "--segment may be combined with --against");
}

}  // namespace

Result<OpenDisputeResult> open_dispute(const OpenDisputeOptions& options, const JobContext& context) {
  DGX_CHECK(choose_instruction_set(options.isa));
  DGX_CHECK(check_options(options));
  if (options.output.empty() || options.output == "-") return usage_error("-o DISPUTE.jsonl is required");
  DGX_TRY(Output output, Output::claim(options.output, context.clobber));
  DGX_TRY(const TaskFiles files, open_task(options.task, options.program, context.trust));
  // A challenge may be about the proof's first or last state.
  DGX_TRY(const ProofFiles proof,
          open_proof(options.proof, files.task, std::nullopt, options.from, manifest::Ends::kUnchecked));
  DGX_TRY(const crypto::SecretKey key, read_key(options.key));
  const Inputs in{options, context, files, proof};
  std::optional<OpenVerdict> against;
  if (options.against) {
    DGX_TRY(against, read_verdict(in));
  }
  OwnReplay own;
  DGX_TRY(Challenge body, choose(in, against, own));
  DGX_TRY(const auto challenge, manifest::seal(std::move(body), key));

  const About about = challenge.body.about;
  std::string text = files.task.envelope + "\n" + proof.proof.envelope + "\n";
  if (against) {
    text += against->verdict.envelope + "\n";
    if (against->beacon && (about == About::kWitness || about == About::kRow))
      text += against->beacon_envelope + "\n";
    if (against->secret && (about == About::kWitness || about == About::kRow))
      text += against->offer->envelope + "\n" + against->secret->envelope + "\n";
  }
  text += challenge.envelope + "\n";
  DGX_TRY(const protocol::Transcript transcript, protocol::play_transcript(text));
  DGX_CHECK(output.write(text));
  if (own.party) {
    // Notes the replay, so that it need not be repeated to move.
    const Notary notary{crypto::key_id(key.public_key()), WorkKeys::of(key), context.progress};
    const std::string folder = options.notes.value_or(options.output + ".notes");
    const Status kept = own.party->keep(notes_of(folder, transcript.game, std::nullopt, notary));
    if (!kept.ok()) context.progress.warning(kept.error().message + ": nothing is noted");
  }
  const protocol::Dispute& dispute = transcript.game.dispute();
  return OpenDisputeResult{challenge.id,
                           challenge.body.statement(),
                           dispute.defender(),
                           about,
                           challenge.body.segment,
                           own.steps,
                           static_cast<std::int64_t>(text.size()),
                           transcript.game.decision()};
}

}  // namespace dgx::jobs
