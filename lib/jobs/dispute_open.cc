#include <fmt/format.h>

#include <algorithm>

#include "dgx/jobs/dispute.h"
#include "dgx/jobs/proof_files.h"
#include "dgx/merkle/tree.h"
#include "dgx/protocol/draw.h"
#include "dgx/protocol/verify.h"
#include "dispute_chunk.h"
#include "dispute_files.h"

namespace dgx::jobs {
namespace {

using manifest::About;
using manifest::Challenge;
using manifest::RowReason;
using manifest::Signed;
using manifest::VerdictRow;

/// A verdict with its rows.
struct OpenVerdict {
  Signed<manifest::Verdict> verdict;
  std::vector<VerdictRow> rows;
  std::optional<Signed<manifest::Beacon>> beacon;
  bool hidden = false;  ///< its signer withholds the rows
};

Status check_about(const Signed<manifest::Verdict>& verdict, const ProofFiles& proof,
                   const std::string& path) {
  if (verdict.body.task == proof.proof.body.task && verdict.body.proof == proof.proof.id) return {};
  return malformed(path + ": is a verdict on another proof");
}

class Opening {
 public:
  Opening(const OpenDisputeOptions& options, const JobContext& context, const TaskFiles& files,
          const ProofFiles& proof)
      : options_(options), context_(context), files_(files), proof_(proof) {}

  /// Chooses what to challenge. Verdict and rows outlive the challenge.
  Result<Challenge> choose() {
    if (options_.against) return of_verdict();
    if (options_.initial || options_.final_state) return of_end();
    if (options_.verdict) {
      DGX_TRY(const std::int64_t segment, refuted_segment());
      return of_segment(segment);
    }
    if (options_.chunk) return of_chunk();
    DGX_CHECK(check_segment(*options_.segment));
    DGX_TRY(const bool borne_out,
            contradicts_end(*options_.segment,
                            protocol::committed_end(proof_.segments, proof_.states, *options_.segment)));
    if (!borne_out) DGX_CHECK(unfounded(confirmed_end(*options_.segment)));
    return of_segment(*options_.segment);
  }

  [[nodiscard]] const std::optional<OpenVerdict>& verdict() const { return verdict_; }
  [[nodiscard]] std::int64_t replayed_steps() const { return replayed_; }

  /// Keeps notes of the replay that led to the challenge, so that it need not be repeated to move.
  Status keep(const protocol::Game& game, const crypto::SecretKey& key) const {
    if (!party_) return {};
    const Notary notary{crypto::key_id(key.public_key()), WorkKeys::of(key), context_.progress};
    return party_->keep(
        notes_of(options_.notes.value_or(options_.output + ".notes"), game, std::nullopt, notary));
  }

 private:
  [[nodiscard]] const Digest& state(std::int64_t index) const {
    return proof_.states[static_cast<std::size_t>(index)];
  }

  Result<manifest::CommittedState> committed(std::int64_t index) const {
    std::vector<Digest> leaves;
    for (const Digest& digest : proof_.states) leaves.push_back(merkle::committed_state_leaf(digest));
    DGX_TRY(auto path, merkle::inclusion_path(leaves, static_cast<std::uint64_t>(index)));
    return manifest::CommittedState{state(index), std::move(path)};
  }

  Result<Challenge> of_segment(std::int64_t segment) const {
    Challenge out;
    out.task = files_.task.id;
    out.proof = proof_.proof.id;
    out.segment = segment;
    DGX_TRY(out.start, committed(segment));
    if (!proof_.segments.diverges(segment)) {
      DGX_TRY(out.end, committed(segment + 1));
    }
    return out;
  }

  [[nodiscard]] std::string confirmed_end(std::int64_t segment) const {
    if (proof_.segments.diverges(segment))
      return fmt::format("in a replay, step {} diverges", proof_.segments.steps());
    return fmt::format("a replay of segment {} ends in the committed state", segment);
  }

  Status check_segment(std::int64_t segment) const {
    if (segment >= 0 && segment < proof_.segments.count()) return {};
    return usage_error(
        fmt::format("--segment {}: the proof has segments 0 to {}", segment, proof_.segments.count() - 1));
  }

  /// Refuses a challenge that the replay does not support; with Clobber::kReplace only warns.
  Status unfounded(const std::string& why) const {
    if (context_.clobber == Clobber::kReplace) return context_.progress.warning(why), Status();
    return Error{ErrorCode::kInconclusive, why + ": the challenge would be lost",
                 "--force makes it nonetheless"};
  }

  Result<Challenge> of_end() {
    const std::int64_t segment = options_.initial ? 0 : proof_.segments.between() - 1;
    if (segment < 0) return usage_error("--final: the proof has one state, which is its first and its last");
    DGX_TRY(Challenge out, of_segment(segment));
    out.about = options_.initial ? About::kInitial : About::kFinal;
    const manifest::Proof& body = proof_.proof.body;
    const Digest& must = files_.body().initial.digest;
    const bool right = options_.initial ? state(0) == must && body.initial == must
                                        : proof_.states.back() == body.final_state;
    if (right)
      DGX_CHECK(unfounded(options_.initial ? "the proof begins at the task's initial state"
                                           : "the proof ends at its final state"));
    return out;
  }

  Result<Challenge> of_chunk() const {
    const std::int64_t index = *options_.segment;
    if (index < 0 || index >= proof_.segments.states())
      return usage_error(
          fmt::format("--segment {}: the proof has states 0 to {}", index, proof_.segments.states() - 1));
    Challenge out;
    out.task = files_.task.id;
    out.proof = proof_.proof.id;
    out.about = About::kChunk;
    out.segment = index;
    DGX_TRY(out.start, committed(index));
    DGX_TRY(out.chunk, chunk_reference(*files_.program, *options_.chunk, options_.part));
    return out;
  }

  Result<std::int64_t> refuted_segment() const {
    DGX_TRY(const auto mine, manifest::read_statement<manifest::Verdict>(*options_.verdict));
    DGX_CHECK(check_about(mine, proof_, *options_.verdict));
    const auto& row = mine.body.first_disagreement;
    if (!row)
      return Error{ErrorCode::kInconclusive, *options_.verdict + ": refutes nothing",
                   "name a segment with --segment"};
    if (row->reason != RowReason::kStep && row->reason != RowReason::kState) return row->index;
    return malformed(
        fmt::format("{}: segment {} does not even begin at a state of the program (reason \"{}\")",
                    *options_.verdict, row->index, manifest::name_of(row->reason)),
        row->index > 0 ? fmt::format("the segment before ends there: --segment {}", row->index - 1)
                       : "--initial");
  }

  /// The party that replays the segment, kept for the moves.
  Result<SegmentReplay*> party(std::int64_t segment) {
    if (!options_.from || !options_.data)
      return usage_error("--from and --data are needed to replay segment " + std::to_string(segment));
    party_.reset();
    source_ = std::make_unique<ReplaySource>(files_, *options_.data, context_);
    source_->start_from(*options_.from, segment, state(segment));
    party_ = std::make_unique<SegmentReplay>(proof_.segments[segment], *source_);
    return party_.get();
  }

  /// A game takes its steps at the segment's numbers, a replay at the start state's: if the start is at
  /// another step, the start itself is wrong, and a game about what follows from it would be lost.
  Status check_start(std::int64_t segment) {
    DGX_TRY(const State* const start, source_->start());
    const auto step = step_of(*start);
    const std::int64_t first = proof_.segments[segment].first;
    if (!step.ok() || *step == first) return {};
    return unfounded(fmt::format("the committed start of segment {} is at step {}, not {}: {} is wrong",
                                 segment, *step, first,
                                 segment > 0 ? fmt::format("segment {}", segment - 1) : "the initial state"));
  }

  /// True if the replay ends in another state than `end`, or, for nullopt, does not diverge.
  Result<bool> contradicts_end(std::int64_t segment, const std::optional<Digest>& end) {
    DGX_TRY(SegmentReplay* const mine, party(segment));
    DGX_CHECK(check_start(segment));
    DGX_TRY(const auto broken, mine->non_finite_after());
    replayed_ += mine->replayed_steps();
    if (broken || !end) return broken.has_value() == end.has_value();
    DGX_TRY(const Digest digest, mine->state(proof_.segments[segment].end));
    return digest != end;
  }

  Status read_verdict() {
    DGX_TRY(auto verdict, manifest::read_statement<manifest::Verdict>(*options_.against));
    DGX_CHECK(check_about(verdict, proof_, *options_.against));
    const std::string path = beside(*options_.against, ".rows.jsonl");
    verdict_.emplace(OpenVerdict{std::move(verdict), {}, std::nullopt, !exists(path)});
    const manifest::Verdict& body = verdict_->verdict.body;
    if (verdict_->hidden) {
      if (body.first_disagreement) verdict_->rows = {*body.first_disagreement};
    } else {
      DGX_TRY(const std::string text, read_file(path, manifest::kMaxRowsBytes));
      auto rows = manifest::decode_rows(text, body);
      if (!rows.ok()) return within(path, std::move(rows).error());
      verdict_->rows = *std::move(rows);
    }
    if (!options_.beacon) return {};
    DGX_TRY(auto beacon, manifest::read_statement<manifest::Beacon>(*options_.beacon));
    if (verdict_->verdict.body.beacon != beacon.id)
      return malformed(*options_.beacon + ": is not the verdict's beacon");
    verdict_->beacon.emplace(std::move(beacon));
    return {};
  }

  /// The part of a row that this side's replay contradicts, if any.
  Result<std::optional<About>> contradicted(const VerdictRow& row) {
    const auto segment = [](bool yes) { return yes ? std::optional<About>(About::kSegment) : std::nullopt; };
    if (row.reason != RowReason::kEqual && row.reason != RowReason::kDigest) {
      DGX_TRY(SegmentReplay* const mine, party(row.index));
      const auto broken = mine->non_finite_after();
      replayed_ += mine->replayed_steps();
      if (broken.ok()) return segment(row.reason != RowReason::kNonFinite || !*broken);
      // The start state does not have the program's entries, as a row of reason "step" or "state" says.
      if (broken.error().code == ErrorCode::kMalformed) return segment(row.reason == RowReason::kNonFinite);
      return broken.error();
    }
    const bool says_diverged = row.agrees && proof_.segments.diverges(row.index);
    DGX_TRY(const bool end,
            contradicts_end(row.index, says_diverged ? std::nullopt : std::optional(row.recomputed)));
    if (end) return segment(true);
    if (proof_.segments[row.index].length() < 2) return std::optional<About>();  // it has no witness
    const bool policy = verdict_->verdict.body.beacon.has_value();
    if (policy && !verdict_->beacon)
      return usage_error("--beacon is needed: the verdict's witnesses depend on it");
    const Digest beacon = policy ? verdict_->beacon->body.value : Digest{};
    const std::int64_t step =
        protocol::witness_step(beacon, proof_.proof.id, verdict_->verdict.key_id, proof_.segments[row.index]);
    DGX_TRY(const Digest interior, party_->state(step));
    if (protocol::witness_of(verdict_->verdict.key_id, interior) != row.witness)
      return std::optional<About>(About::kWitness);
    return std::optional<About>();
  }

  Result<Challenge> of_row(std::size_t index, About about) {
    const VerdictRow& row = verdict_->rows[index];
    DGX_TRY(Challenge out, of_segment(row.index));
    out.verdict = verdict_->verdict.id;
    out.about = about;
    if (verdict_->hidden) {
      // The verdict's first disagreement, which its own signature binds.
      out.row = manifest::OpenedRow{0, {}, row};
    } else {
      DGX_TRY(out.row, open_row(verdict_->rows, index));
    }
    if (about != About::kWitness) verdict_->beacon.reset();
    return out;
  }

  /// Demands a row that the verdict's signer hides; its content is not known until they show it.
  Result<Challenge> of_hidden_row() {
    if (!options_.segment) {
      return Error{ErrorCode::kMissing, beside(*options_.against, ".rows.jsonl") + ": is not there",
                   "--segment and --beacon demand the row of a segment that the policy drew"};
    }
    if (!verdict_->beacon)
      return usage_error("--beacon is needed: it says which segments the verdict has rows of");
    DGX_TRY(Challenge out, of_segment(*options_.segment));
    out.verdict = verdict_->verdict.id;
    out.about = About::kRow;
    return out;
  }

  Result<Challenge> of_verdict() {
    DGX_CHECK(read_verdict());
    if (options_.segment) DGX_CHECK(check_segment(*options_.segment));
    std::optional<std::size_t> looked_at;
    for (std::size_t i = 0; i < verdict_->rows.size(); ++i) {
      const VerdictRow& row = verdict_->rows[i];
      if (options_.segment && row.index != *options_.segment) continue;
      looked_at = i;
      DGX_TRY(const auto about, contradicted(row));
      if (about) return of_row(i, *about);
    }
    if (!looked_at && verdict_->hidden) return of_hidden_row();
    if (!looked_at) return malformed(*options_.against + ": has no row of that segment");
    DGX_CHECK(unfounded("a replay confirms the verdict"));
    return of_row(*looked_at, About::kSegment);
  }

  const OpenDisputeOptions& options_;
  const JobContext& context_;
  const TaskFiles& files_;
  const ProofFiles& proof_;
  std::optional<OpenVerdict> verdict_;
  std::unique_ptr<ReplaySource> source_;
  std::unique_ptr<SegmentReplay> party_;
  std::int64_t replayed_ = 0;
};

Status check_options(const OpenDisputeOptions& options) {
  const int said = static_cast<int>(options.segment.has_value() && !options.against) +
                   static_cast<int>(options.verdict.has_value()) +
                   static_cast<int>(options.against.has_value()) + static_cast<int>(options.initial) +
                   static_cast<int>(options.final_state);
  if (options.chunk && (!options.segment || options.against))
    return usage_error("--chunk is of a committed state of the proof", "--segment says which");
  if (said == 1) return {};
  return usage_error(
      "exactly one of --segment, --verdict, --against, --initial and --final says what is challenged",
      "--segment may go with --against");
}

}  // namespace

Result<OpenDisputeResult> open_dispute(const OpenDisputeOptions& options, const JobContext& context) {
  DGX_CHECK(choose_instruction_set(options.isa));
  DGX_CHECK(check_options(options));
  if (options.output.empty() || options.output == "-") return usage_error("-o DISPUTE.jsonl is required");
  DGX_CHECK(refuse_existing(options.output, context.clobber));
  DGX_TRY(const TaskFiles files, open_task(options.task, options.program, context.trust));
  // A challenge may be about the proof's first or last state.
  DGX_TRY(const ProofFiles proof,
          open_proof(options.proof, files.task, std::nullopt, options.from, manifest::Ends::kUnchecked));
  DGX_TRY(const crypto::SecretKey key, read_key(options.key));
  Opening opening(options, context, files, proof);
  DGX_TRY(Challenge body, opening.choose());
  DGX_TRY(const auto challenge, manifest::seal(std::move(body), key));

  std::string text = files.task.envelope + "\n" + proof.proof.envelope + "\n";
  if (const auto& verdict = opening.verdict()) {
    text += verdict->verdict.envelope + "\n";
    if (verdict->beacon) text += verdict->beacon->envelope + "\n";
  }
  text += challenge.envelope + "\n";
  DGX_TRY(const protocol::Transcript transcript, protocol::play_transcript(text));
  DGX_CHECK(write_file(options.output, text, context.clobber));
  if (Status kept = opening.keep(transcript.game, key); !kept.ok())
    context.progress.warning(kept.error().message + ": nothing is noted");
  const protocol::Dispute& dispute = transcript.game.dispute();
  return OpenDisputeResult{challenge.id,
                           challenge.body.statement(),
                           dispute.defender(),
                           challenge.body.about,
                           challenge.body.segment,
                           opening.replayed_steps(),
                           static_cast<std::int64_t>(text.size()),
                           transcript.game.decision()};
}

}  // namespace dgx::jobs
