// Verdicts, audits, and the games that follow from them.
#include <algorithm>

#include "dgx/protocol/forced.h"
#include "dgx/protocol/message.h"
#include "dgx/protocol/settlement.h"
#include "dgx/protocol/verify.h"
#include "simulate/run.h"

namespace dgx::jobs {
namespace {

using manifest::Outcome;
using protocol::TaskRecord;

}  // namespace

bool MarketRun::looks(const Life& life, std::size_t who) const {
  const AgentKind kind = person(who).kind;
  if (kind == AgentKind::kColluder) return person(life.solver).kind != AgentKind::kCheat;
  if (kind == AgentKind::kVenal) return who == life.verifier;
  return kind == AgentKind::kHonest || kind == AgentKind::kFarmer || kind == AgentKind::kVolunteer ||
         kind == AgentKind::kInsider || kind == AgentKind::kSeller;
}

/// People tell themselves, and colluders each other.
bool MarketRun::is_told(const Life& life, std::size_t who) const {
  const bool collude =
      person(who).kind == AgentKind::kColluder && person(life.verifier).kind == AgentKind::kColluder;
  return collude || person(who).owner == person(life.verifier).owner;
}

/// A farmer knows their own task, and who has replayed it for a verdict does not do it again.
std::int64_t MarketRun::replay_price(const Life& life, std::size_t who) const {
  const bool farms = person(who).owner == person(life.solver).owner && person(who).kind == AgentKind::kFarmer;
  const bool again = who != life.verifier && person(who).owner == person(life.verifier).owner;
  return farms || again ? 0 : plan_.recheck;
}

manifest::Verdict MarketRun::acceptance(Life& life) const {
  manifest::Verdict out;
  out.task = life.task;
  out.proof = life.proof;
  out.beacon = protocol::source_of(record(life))->id;
  out.draw = manifest::Draw::kPolicy;
  out.segments = plan_.segments;
  out.replayed = plan_.drawn;
  out.rows = {life.chance.digest(), plan_.drawn};
  out.work = plan_.work;
  out.miss_probability = plan_.missed;
  out.nonce = life.chance.digest();
  for (std::int64_t n = 0; plan_.has_rechecks() && n < plan_.drawn; ++n)
    out.witnesses.push_back(life.chance.digest());
  return out;
}

void MarketRun::refute(Life& life, manifest::Verdict& body, std::int64_t segment) const {
  body.outcome = Outcome::kRefuted;
  body.witnesses.clear();
  manifest::VerdictRow row;
  row.index = segment;
  row.expected = plan_.states[static_cast<std::size_t>(segment) + 1];
  row.recomputed = life.chance.digest();
  row.reason = manifest::RowReason::kDigest;
  row.witness = life.chance.digest();
  body.first_disagreement = row;
}

Status MarketRun::give_verdict(Life& life, std::int64_t number, std::size_t turn) {
  const TaskRecord& now = record(life);
  const auto turns = protocol::turns_of(now);
  const std::size_t who = people_.of_key(turns[turn].verifier);
  if (person(who).kind == AgentKind::kSilent) {
    const bool last = turn + 1 == turns.size();
    schedule(turns[turn].deadline_ms + 1, last ? Step::kObject : Step::kVerdict, number, turn + 1);
    return {};
  }
  life.verifier = who;
  manifest::Verdict body = acceptance(life);
  if (looks(life, who)) {
    life.work.emplace_back(who, replay_price(life, who));
    if (const auto fault = life.fault()) refute(life, body, *fault);
  } else if (person(who).kind == AgentKind::kAccomplice) {
    refute(life, body, life.drawn.front());
  } else {
    life.unseen = true;
  }
  life.verdict = life.chance.digest();
  const bool rechecked = plan_.has_rechecks() && body.outcome == Outcome::kAccepted;
  if (rechecked && plan_.forces_errors()) {
    DGX_TRY(const auto segments, protocol::segments_of(plan_.task, now.proof->body));
    life.forced = protocol::forced_segment(plan_.task, segments, now.round->source, secret_of(life).secret);
  }
  DGX_CHECK(world_.say(std::move(body), person(who).key, life.verdict));
  if (!rechecked) {
    schedule(world_.now(), Step::kObject, number);
    return {};
  }
  const std::int64_t last = world_.now() + plan_.policy.window_challenge_ms;
  const std::int64_t round = plan_.has_audits() ? plan_round() : world_.now();
  schedule(round <= last ? round : world_.now(), Step::kCommit, number);
  return {};
}

manifest::Beacon MarketRun::secret_of(const Life& life) const {
  const auto own = std::find_if(life.secrets.begin(), life.secrets.end(),
                                [&](const HiddenSecret& one) { return one.by == life.verifier; });
  return {life.task, own->offer, life.proof, own->secret, manifest::beacon_value(own->secret, life.proof)};
}

Status MarketRun::commit(Life& life, std::int64_t number) {
  const TaskRecord& now = record(life);
  if (now.audit) {
    tally_.of(Counted::kAudit).add(now.audit->hits);
    const auto& auditor = now.audit->auditor;
    if (now.audit->hits) tally_.of(Counted::kAuditor).add(auditor.has_value());
    const std::size_t who = auditor ? people_.of_key(auditor->drawn.verifier) : 0;
    if (life.unseen) tally_.of(Counted::kUnseenAudited).add(auditor.has_value() && looks(life, who));
    if (auditor && person(who).kind != AgentKind::kSilent) DGX_CHECK(commit_one(life, who));
  }
  for (const std::size_t who : unasked(life)) DGX_CHECK(commit_one(life, who));
  DGX_CHECK(rob(life));
  const std::int64_t ends = protocol::recheck_times(record(life)).commit_ms;
  schedule(ends + 1, Step::kShow, number);
  return {};
}

/// Those who know of a forced error claim it; volunteers and guessers see what there is.
std::vector<std::size_t> MarketRun::unasked(const Life& life) const {
  std::vector<std::size_t> out;
  for (const std::size_t knows : {life.solver, life.verifier}) {
    const auto claimant = people_.claimants.find(knows);
    if (life.forced && !life.unseen && claimant != people_.claimants.end()) out.push_back(claimant->second);
  }
  out.insert(out.end(), life.volunteers.begin(), life.volunteers.end());
  out.insert(out.end(), life.guessers.begin(), life.guessers.end());
  out.resize(std::min(out.size(), protocol::kMostVolunteers));
  return out;
}

/// People who look find all witnesses that were invented, or the one that had to be. A guess about a verdict
/// whose witnesses are invented is not counted.
std::vector<std::int64_t> MarketRun::denied_by(Life& life, std::size_t who) {
  if (looks(life, who) && life.unseen) return life.drawn;
  const bool guesses = person(who).kind == AgentKind::kGuesser && !is_told(life, who);
  if (guesses) {
    const std::int64_t guess = life.drawn[static_cast<std::size_t>(life.chance.below(plan_.drawn))];
    if (plan_.forces_errors() && !life.unseen) tally_.of(Counted::kGuess).add(life.forced == guess);
    return {guess};
  }
  const bool knows = looks(life, who) || is_told(life, who);
  return knows && life.forced ? std::vector{*life.forced} : std::vector<std::int64_t>{};
}

/// Somebody who looks finds a fault of the proof first, and then witnesses that are false.
Status MarketRun::commit_one(Life& life, std::size_t who) {
  manifest::Verdict body = acceptance(life);
  body.draw = manifest::Draw::kAudit;
  body.audits = life.verdict;
  const bool sees = looks(life, who);
  const auto fault = life.fault();
  if (sees) life.work.emplace_back(who, replay_price(life, who));
  if (sees && fault) {
    refute(life, body, *fault);
  } else if (person(who).kind == AgentKind::kAccomplice) {
    refute(life, body, life.drawn.front());
  } else {
    body.denied = denied_by(life, who);
  }
  const Digest id = life.chance.digest();
  DGX_CHECK(world_.fund(person(who), plan_.bonds.challenger));
  DGX_CHECK(
      world_.say(manifest::VerdictCommitment{life.task, life.proof,
                                             manifest::verdict_commitment(id, body.nonce), life.verdict},
                 person(who).key, life.chance.digest()));
  life.audits.push_back({who, id, std::move(body)});
  return {};
}

/// After those who commit: a robber has no reason to spoil what they do.
Status MarketRun::rob(Life& life) {
  const bool sold = plan_.forces_errors() && person(life.verifier).kind == AgentKind::kSeller;
  if (!sold || life.robbers.empty()) return {};
  return world_.say(secret_of(life), person(life.robbers.front()).key, life.chance.digest());
}

Status MarketRun::show(Life& life, std::int64_t number) {
  for (const HiddenAudit& audit : life.audits)
    DGX_CHECK(world_.say(audit.body, person(audit.by).key, audit.id));
  const TaskRecord& now = record(life);
  if (protocol::owes_secret(now) && !now.secret)
    DGX_CHECK(world_.say(secret_of(life), person(life.verifier).key, life.chance.digest()));
  const protocol::Standing stands = protocol::standing(now, world_.now());
  const bool waits = stands.state == protocol::TaskState::kReveal;
  schedule(waits ? *stands.deadline_ms + 1 : world_.now(), Step::kObject, number);
  return {};
}

Status MarketRun::object(Life& life, std::int64_t number) {
  if (protocol::source_of(record(life))) {
    DGX_CHECK(answer_refutations(life));
    for (const HiddenAudit& audit : life.audits) DGX_CHECK(bear_out(life, audit));
    DGX_CHECK(save_auditor(life));
  }
  DGX_CHECK(visit(life));
  schedule(world_.now(), Step::kSettle, number);
  return {};
}

/// The solver challenges whoever refutes what is true: the verifier, or the auditor who was drawn.
Status MarketRun::answer_refutations(Life& life) {
  const TaskRecord& now = record(life);
  std::vector<manifest::Signed<manifest::Verdict>> false_ones;
  const auto look_at = [&](const manifest::Signed<manifest::Verdict>& one) {
    const auto& row = one.body.first_disagreement;
    if (row && !life.is_faked(row->index)) false_ones.push_back(one);
  };
  if (now.verdict) look_at(*now.verdict);
  for (const protocol::Recheck& one : now.rechecks) {
    if (one.audit && protocol::is_auditor(now, one.who)) look_at(*one.audit);
  }
  for (const auto& one : false_ones) DGX_CHECK(challenge_refutation(life, one.id, one.body));
  return {};
}

/// Denials of witnesses that were invented, and refutations of volunteers, have to be borne out by a game;
/// that of a forced error has not. Whoever said it first wins; a second game about the same is still theirs
/// to open, and to share in.
Status MarketRun::bear_out(Life& life, const HiddenAudit& audit) {
  if (!looks(life, audit.by)) return {};
  const bool drawn = protocol::is_auditor(record(life), person(audit.by).key);
  if (audit.body.outcome == Outcome::kRefuted)
    return drawn ? Status() : challenge_proof(life, audit.by, audit.body.first_disagreement->index);
  if (audit.body.denied.empty() || !life.unseen) return {};
  return challenge(life, audit.by, witness_challenge(life, life.drawn.front()), false);
}

/// The challengers are the coalition's keys, so that its finders have nearly half of the verifier's bond
/// back.
Status MarketRun::save_auditor(Life& life) {
  constexpr std::size_t kMostFinders = 16;
  const TaskRecord& now = record(life);
  if (!life.forced || life.unseen || life.fault() || !now.audit || !now.audit->auditor) return {};
  const Person& auditor = person(people_.of_key(now.audit->auditor->drawn.verifier));
  const Person& verifier = person(life.verifier);
  const bool venal = auditor.kind == AgentKind::kVenal && verifier.kind == AgentKind::kVenal;
  if (!venal || auditor.bond <= plan_.task.estimate.fee + verifier.bond / 2) return {};
  std::size_t finders = 0;
  for (const std::size_t who : people_.verifiers) {
    if (person(who).kind != AgentKind::kVenal || who == life.verifier || ++finders > kMostFinders) continue;
    DGX_CHECK(challenge(life, who, witness_challenge(life, *life.forced), false));
  }
  return {};
}

manifest::Challenge MarketRun::witness_challenge(const Life& life, std::int64_t segment) const {
  const auto place = std::lower_bound(life.drawn.begin(), life.drawn.end(), segment) - life.drawn.begin();
  manifest::Challenge out = challenge_of(life, segment);
  const Digest& end = out.end->digest;
  out.verdict = life.verdict;
  out.about = manifest::About::kWitness;
  out.row = manifest::OpenedRow{place,
                                {},
                                {segment, end, end, true, manifest::RowReason::kEqual,
                                 record(life).verdict->body.witnesses[static_cast<std::size_t>(place)]}};
  return out;
}

/// Griefers challenge what they have not seen, and copiers what others have challenged.
Status MarketRun::visit(Life& life) {
  for (const std::size_t who : life.griefers)
    DGX_CHECK(challenge_proof(life, who, life.chance.below(plan_.segments)));
  if (record(life).games.empty()) return {};
  for (const std::size_t who : life.copiers) {
    const protocol::Game& first = record(life).games.front().game;
    const manifest::Challenge& body = first.dispute().challenge.body;
    const bool of_verdict = body.verdict.has_value();
    DGX_CHECK(challenge(life, who, body, !of_verdict && !life.is_faked(body.segment)));
  }
  return {};
}

manifest::Challenge MarketRun::challenge_of(const Life& life, std::int64_t segment) const {
  const auto opened = [&](std::int64_t state) {
    return manifest::CommittedState{
        plan_.states[static_cast<std::size_t>(state)],
        *plan_.tree.inclusion_path(static_cast<std::uint64_t>(state), plan_.tree.size())};
  };
  manifest::Challenge out;
  out.task = life.task;
  out.proof = life.proof;
  out.segment = segment;
  out.start = opened(segment);
  out.end = opened(segment + 1);
  return out;
}

Status MarketRun::challenge_proof(Life& life, std::size_t who, std::int64_t segment) {
  return challenge(life, who, challenge_of(life, segment), !life.is_faked(segment));
}

Status MarketRun::challenge_refutation(Life& life, const Digest& id, const manifest::Verdict& body) {
  manifest::Challenge out = challenge_of(life, body.first_disagreement->index);
  out.verdict = id;
  out.row = manifest::OpenedRow{0, {}, *body.first_disagreement};
  return challenge(life, life.solver, std::move(out), false);
}

/// Opens a game. Who is right about the proof answers once, and then it is the challenger who stalls; all
/// others stall at once.
Status MarketRun::challenge(Life& life, std::size_t who, manifest::Challenge body, bool answered) {
  const auto games = std::min<std::size_t>(record(life).games.size(), 20);
  DGX_CHECK(world_.fund(person(who), plan_.bonds.challenger << games));
  const Digest game = life.chance.digest();
  DGX_CHECK(world_.say(std::move(body), person(who).key, game));
  if (!answered) return {};
  manifest::Move answer{life.task, game, 1, game,
                        protocol::print_message(protocol::StatesPost{{life.chance.digest()}})};
  return world_.say(std::move(answer), person(life.solver).key, life.chance.digest());
}

}  // namespace dgx::jobs
