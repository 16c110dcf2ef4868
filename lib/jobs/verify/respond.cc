#include "dgx/jobs/respond.h"

#include <fmt/format.h>

#include <algorithm>

#include "dgx/jobs/beacon.h"
#include "dgx/jobs/proof_files.h"
#include "dgx/jobs/verify.h"
#include "dgx/protocol/forced.h"
#include "settle/opening_store.h"
#include "settle/read_ledger.h"
#include "task/allow_urls.h"
#include "task/file_watch.h"
#include "task/post.h"
#include "verify/audited_row.h"
#include "verify/owed_games.h"

namespace dgx::jobs {
namespace {

using manifest::Outcome;
using manifest::Signed;
using protocol::TaskRecord;

/// True if a round drew this key to verify.
bool was_drawn(const TaskRecord& record, const Digest& who) {
  const auto& drawn = record.round->drawn;
  return std::any_of(drawn.begin(), drawn.end(),
                     [&](const protocol::DrawnVerifier& one) { return one.drawn.verifier == who; });
}

/// True if an offer may be, or was, drawn to audit somebody else's verdict: not that of who was asked for it.
bool may_audit(const TaskRecord& record, const Signed<manifest::BeaconCommitment>& offer) {
  if (protocol::is_auditor(record, offer.key_id)) return true;
  if (record.settlement || !protocol::is_rechecked(record) || record.verdict->key_id == offer.key_id)
    return false;
  return record.offers.contains(offer.id) && !protocol::staked_offers(record).contains(offer.id);
}

/// Makes AUDIT.commit.json, which commits to the audit that is there; one from before must commit to it, too.
Status commit_to_audit(const TaskRecord& record, const RespondOptions& options, const Digest& who,
                       Clobber clobber) {
  const std::string path = beside(options.output, ".commit.json");
  DGX_TRY(const auto audit, manifest::read_statement<manifest::Verdict>(options.output));
  if (audit.body.audits != record.verdict->id || audit.key_id != who)
    return malformed(options.output + ": is not this auditor's audit of the verdict in the ledger");
  DGX_TRY(const crypto::SecretKey key, read_key(options.key));
  const Digest hidden = manifest::verdict_commitment(audit.id, audit.body.nonce);
  if (exists(path)) {
    DGX_TRY(const auto made, manifest::read_statement<manifest::VerdictCommitment>(path));
    if (made.body.commitment == hidden && made.body.audits == record.verdict->id && made.key_id == who)
      return {};
    return malformed(fmt::format("{}: does not commit to {}", path, options.output),
                     "the ledger has neither of them yet: remove it, and it is made again");
  }
  DGX_TRY(const auto commitment, manifest::seal(manifest::VerdictCommitment{record.task.id, record.proof->id,
                                                                            hidden, record.verdict->id},
                                                key));
  DGX_TRY(Output output, claim_beside(path, clobber));
  return output.write(commitment.envelope + "\n");
}

/// Reveals the offer's secret for the proof in a file.
Status reveal_to(const std::string& path, const RespondOptions& options, const std::string& proof,
                 const JobContext& context) {
  JobContext again = context;
  again.clobber = Clobber::kReplace;  // the same bytes, if another call is making them, too
  RevealBeaconOptions reveal{options.commitment, proof, options.task, {}, options.key, path};
  reveal.logged.ledger = options.ledger;
  DGX_TRY([[maybe_unused]] const auto revealed, reveal_secret(reveal, again));
  return {};
}

/// The offer's file, where a verdict depends on it.
std::optional<std::string> offer_needed(const TaskRecord& record, const RespondOptions& options) {
  return protocol::forces_errors(record.task.body.policy) ? std::optional(options.commitment) : std::nullopt;
}

/// The files next to an offer of which a verification or an audit is made.
class OfferFiles {
 public:
  OfferFiles(const RespondOptions& options, const JobContext& context)
      : options_(options), clobber_(context.clobber) {}

  [[nodiscard]] std::string proof() const { return beside(options_.commitment, ".proof.json"); }
  [[nodiscard]] std::string beacon() const { return beside(options_.commitment, ".beacon.json"); }

  [[nodiscard]] Status write_proof(const TaskRecord& record) const {
    return write(proof(), record.proof->envelope);
  }

  /// Writes the beacon or round, whose envelope is `source`; the verification of the proof by it.
  [[nodiscard]] Result<VerifyOptions> verification(const TaskRecord& record,
                                                   const std::string& source) const {
    VerifyOptions out;
    out.beacon = record.round ? beside(options_.commitment, ".round.json") : beacon();
    DGX_CHECK(write(*out.beacon, source));
    out.task = options_.task;
    out.proof = proof();
    out.program = options_.program;
    DGX_TRY(out.from, opening(record));
    out.data = options_.data;
    out.cache = options_.cache;
    out.insecure = options_.insecure;
    out.key = options_.key;
    out.isa = options_.isa;
    out.device = options_.device;
    out.parts = options_.parts;
    out.output = options_.output;
    return out;
  }

  /// Writes proof, round and verdict; the audit of the verdict.
  [[nodiscard]] Result<VerifyOptions> audit(const LedgerView& view, const TaskRecord& record) const {
    const std::string verdict = beside(options_.commitment, ".verdict.json");
    DGX_CHECK(write_proof(record));
    DGX_CHECK(write(verdict, record.verdict->envelope));
    DGX_TRY(const auto round, view.log.statement(*view.log.find(record.round->source.id)));
    DGX_TRY(VerifyOptions out, verification(record, round.envelope));
    out.audits = verdict;
    return out;
  }

 private:
  [[nodiscard]] Status write(const std::string& path, const std::string& envelope) const {
    DGX_TRY(Output output, claim_beside(path, clobber_));
    return output.write(envelope + "\n");
  }

  /// The folder with the states that were opened: the one named, or the operator's own.
  [[nodiscard]] Result<std::string> opening(const TaskRecord& record) const {
    if (options_.from) return *options_.from;
    std::string folder = OpeningStore(options_.ledger).folder_of(record.task.id, record.opening->id);
    if (is_opening(folder)) return folder;
    return Error{ErrorCode::kMissing, folder + ": the operator's copy of the opening is not here",
                 "dgx-settle fetch copies it, where the operator keeps it; name that folder with --from"};
  }

  const RespondOptions& options_;
  Clobber clobber_;
};

/// A verifier's part of one task. step() looks at the task's record in the ledger, does the next thing that
/// it asks for, and is called with the record as it is then; the record, not this object, says how far it is.
class Response {
 public:
  Response(const RespondOptions& options, const JobContext& context, Signed<manifest::BeaconCommitment> offer)
      : options_(options), context_(context), files_(options, context), offer_(std::move(offer)) {}

  /// True if something was handed on, so that the ledger is to be read again; false if the work is done, or
  /// waits for others.
  [[nodiscard]] Result<bool> step(const LedgerView& view, const TaskRecord& record) {
    if (record.verdict && may_audit(record, offer_)) return step_audit(view, record);
    if (record.verdict) {
      const bool own = record.verdict->key_id == offer_.key_id;
      result_.outcome = record.verdict->body.outcome;
      if (own && protocol::owes_secret(record) && !record.secret) return step_secret(view, record);
      return wait_for(own ? owed_by_verifier(record, offer_.key_id, view.market.clock()) : "");
    }
    if (record.settlement)
      return Error{ErrorCode::kInconclusive, "the task is settled, and no verdict was given", {}};
    if (!record.solver) return wait_for("a solver to take the task");
    if (record.task.body.policy.beacon_source != 0) return step_drawn(view, record);
    DGX_CHECK(check_chosen(record));
    if (!record.proof) return wait_for("the solver's proof");
    DGX_CHECK(files_.write_proof(record));
    if (!record.beacon) return reveal(view, record);
    if (!record.opening) return wait_for("the solver's opening");
    return give_verdict(record, record.beacon->envelope);
  }

  [[nodiscard]] const RespondResult& result() const { return result_; }

 private:
  /// The same where a round draws the verifiers: whoever is drawn gives a verdict in their turn.
  Result<bool> step_drawn(const LedgerView& view, const TaskRecord& record) {
    if (!record.proof) return wait_for("the solver's proof");
    const auto now = view.market.clock().now();
    const bool waits = protocol::standing(record, now).state == protocol::TaskState::kProofCommitted;
    if (!record.round && waits) return wait_for("the round of the proof's slot");
    if (!record.round) return Error{ErrorCode::kInconclusive, "no round came in time: nobody is drawn", {}};
    if (!record.offers.contains(offer_.id))
      return Error{ErrorCode::kInconclusive, "others were drawn to verify the proof", {}};
    if (!was_drawn(record, offer_.key_id))
      return wait_for(
          "the verdict of others who were drawn: whoever is drawn to audit it is one of those who "
          "were not, whose bonds stay locked until then");
    DGX_CHECK(files_.write_proof(record));
    if (!record.opening) return wait_for("the solver's opening");
    for (const protocol::VerifierTurn& turn : protocol::turns_of(record)) {
      if (turn.verifier != offer_.key_id || now < turn.begins_ms) continue;
      if (now > turn.deadline_ms) {
        const bool last = protocol::verifier_at(record, now) == offer_.key_id;
        return Error{ErrorCode::kInconclusive, "the verdict is late: the ledger takes no acceptance any more",
                     last ? "a refutation is still heard: dgx-verify --all looks for a fault" : ""};
      }
      DGX_TRY(const auto round, view.log.statement(*view.log.find(record.round->source.id)));
      return give_verdict(record, round.envelope);
    }
    return wait_for("the verdict of another who was drawn");
  }

  /// An auditor's part: commits to an audit while the verdict is re-checked, and then shows it.
  Result<bool> step_audit(const LedgerView& view, const TaskRecord& record) {
    const auto state = protocol::standing(record, view.market.clock().now()).state;
    const bool commits = state == protocol::TaskState::kRecheck;
    if (!record.audit && commits) return wait_for("the round of the verdict's slot");
    if (!protocol::is_auditor(record, offer_.key_id)) return end(record.verdict->body.outcome);
    const protocol::Recheck* const own = protocol::recheck_of(record, offer_.key_id);
    if (own != nullptr && own->audit) {
      result_.denied = std::ssize(own->audit->body.denied);
      result_.outcome = own->audit->body.outcome;
      std::string owed = owed_by_auditor(record, offer_.key_id, view.market.clock());
      if (owed.empty()) {
        DGX_TRY(owed, look_for_invention(view, record));
      }
      return wait_for(std::move(owed));
    }
    if (own == nullptr && commits) {
      if (!exists(options_.output)) DGX_CHECK(audit_now(view, record));
      DGX_CHECK(commit_to_audit(record, options_, offer_.key_id, context_.clobber));
      return hand_on(beside(options_.output, ".commit.json"), "committed to the audit");
    }
    if (own != nullptr && commits) return wait_for("the end of the time for commitments");
    if (own != nullptr && state == protocol::TaskState::kReveal)
      return hand_on(options_.output, "handed on the audit");
    return Error{ErrorCode::kInconclusive, "the audit is late: the ledger takes none any more", {}};
  }

  /// Reveals the secret once it is due, where errors are forced.
  Result<bool> step_secret(const LedgerView& view, const TaskRecord& record) {
    const auto state = protocol::standing(record, view.market.clock().now()).state;
    if (state == protocol::TaskState::kRecheck) return wait_for("the time to reveal the secret");
    if (state != protocol::TaskState::kReveal)
      return Error{ErrorCode::kInconclusive, "the secret is late", {}};
    const std::string path = beside(options_.commitment, ".reveal.json");
    DGX_CHECK(files_.write_proof(record));  // the verdict may have been made elsewhere
    if (!exists(path)) DGX_CHECK(reveal_to(path, options_, files_.proof(), context_));
    return hand_on(path, "revealed the secret");
  }

  /// A verifier who knows which witness has to be false can save the replay of that row alone: the game to be
  /// played if its witness is not the false one of the rule. It is replayed once in a call.
  Result<std::string> look_for_invention(const LedgerView& view, const TaskRecord& record) {
    const protocol::MarketClock& clock = view.market.clock();
    const auto forced = found_forced(record, offer_.key_id, clock);
    if (!forced) return std::string();
    if (!forced_witness_) {
      DGX_TRY(const VerifyOptions audit, files_.audit(view, record));
      DGX_TRY(forced_witness_, compare_witness(audit, *forced, context_));
    }
    const bool invented = *forced_witness_ == StatedWitness::kInvented;
    return invented ? gained_by_auditor(record, *forced, clock) : std::string();
  }

  Status audit_now(const LedgerView& view, const TaskRecord& record) {
    DGX_TRY(const VerifyOptions audit, files_.audit(view, record));
    return verify_now(audit);
  }

  bool wait_for(std::string what) {
    result_.waits_for = std::move(what);
    return false;
  }

  bool end(Outcome outcome) {
    result_.outcome = outcome;
    return wait_for("");
  }

  /// Hands a statement on, once in a call; false if that was done before, and the ledger still lacks it.
  Result<bool> hand_on(const std::string& path, std::string done) {
    if (options_.post && posted_ != path) {
      DGX_CHECK(post(*options_.post, path));
      posted_ = path;
      result_.done.push_back(std::move(done));
      return true;
    }
    return wait_for(fmt::format("the operator to log {}", path));
  }

  /// Checks that the task's verifier is the one who made the offer, by this very offer.
  [[nodiscard]] Status check_chosen(const TaskRecord& record) const {
    if (record.verifier != offer_.key_id)
      return unauthorised(fmt::format("{}: is by key {}, the task's verifier is key {}", options_.commitment,
                                      offer_.key_id.brief(), record.verifier->brief()));
    if (record.offers.contains(offer_.id)) return {};
    return malformed(options_.commitment + ": is not the offer that the solver chose");
  }

  Result<bool> reveal(const LedgerView& view, const TaskRecord& record) {
    const auto stands = protocol::standing(record, view.market.clock().now());
    if (stands.state != protocol::TaskState::kProofCommitted)
      return Error{ErrorCode::kInconclusive, "the beacon is late: the ledger takes none any more",
                   "a refutation is still heard: dgx-verify --all looks for a fault"};
    if (!exists(files_.beacon())) {
      DGX_CHECK(reveal_to(files_.beacon(), options_, files_.proof(), context_));
      result_.done.emplace_back("revealed the beacon");
    }
    return hand_on(files_.beacon(), "handed on the beacon");
  }

  Result<bool> give_verdict(const TaskRecord& record, const std::string& source) {
    if (!exists(options_.output)) {
      DGX_TRY(VerifyOptions verification, files_.verification(record, source));
      verification.commitment = offer_needed(record, options_);
      DGX_CHECK(verify_now(verification));
    }
    DGX_TRY(const auto verdict, manifest::read_statement<manifest::Verdict>(options_.output));
    if (verdict.body.proof != record.proof->id || verdict.key_id != offer_.key_id)
      return malformed(options_.output + ": is not this verifier's verdict on the proof in the ledger");
    result_.outcome = verdict.body.outcome;
    return hand_on(options_.output, "handed on the verdict");
  }

  Status verify_now(const VerifyOptions& verification) {
    DGX_TRY(const VerifyResult verified, verify(verification, context_));
    result_.done.push_back(
        fmt::format("replayed {} of {} segments", verified.rows.size(), verified.verdict.segments));
    return {};
  }

  const RespondOptions& options_;
  const JobContext& context_;
  OfferFiles files_;
  Signed<manifest::BeaconCommitment> offer_;
  std::optional<StatedWitness> forced_witness_;  ///< of a forced error that the audit claims
  std::string posted_;
  RespondResult result_;
};

}  // namespace

Result<RespondResult> respond(const RespondOptions& options, const JobContext& context) {
  DGX_CHECK(allow_urls({options.data}, options.insecure, context));
  DGX_TRY(const auto task, read_task(options.task, context.trust));
  DGX_TRY(auto offer, manifest::read_statement<manifest::BeaconCommitment>(options.commitment));
  Response response(options, context, std::move(offer));
  FileWatch watch({ledger::receipts_path(options.ledger)}, context.stop, options.timeout);
  for (;;) {
    watch.look();
    DGX_TRY(const LedgerView view, view_ledger(ledger_file(options.ledger, context)));
    const auto record = view.market.tasks().find(task.id);
    if (record == view.market.tasks().end())
      return Error{
          ErrorCode::kMissing, fmt::format("{}: does not have task {}", options.ledger, task.id.brief()), {}};
    DGX_TRY(const bool again, response.step(view, record->second));
    if (again) {
      watch.expect();
      continue;
    }
    const std::string& awaited = response.result().waits_for;
    if (awaited.empty() || !options.timeout || watch.is_out_of_patience()) return response.result();
    Status waited = watch.wait(awaited);
    if (!waited.ok() && !watch.is_out_of_patience()) return std::move(waited).error();
  }
}

}  // namespace dgx::jobs
