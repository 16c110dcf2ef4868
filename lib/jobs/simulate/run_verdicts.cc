// Verdicts, audits, and the games that follow from them.
#include <algorithm>

#include "dgx/protocol/message.h"
#include "dgx/protocol/settlement.h"
#include "simulate/run.h"

namespace dgx::jobs {
namespace {

using manifest::Outcome;
using protocol::TaskRecord;

}  // namespace

bool MarketRun::looks(const Life& life, std::size_t who) const {
  const AgentKind kind = person(who).kind;
  if (kind == AgentKind::kColluder) return person(life.solver).kind != AgentKind::kCheat;
  return kind == AgentKind::kHonest || kind == AgentKind::kFarmer || kind == AgentKind::kVolunteer;
}

/// A farmer knows their own task.
std::int64_t MarketRun::replay_price(const Life& life, std::size_t who) const {
  return person(who).owner == person(life.solver).owner && person(who).kind == AgentKind::kFarmer
             ? 0
             : plan_.recheck;
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
  for (std::int64_t n = 0; plan_.has_audits() && n < plan_.drawn; ++n)
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
  const bool rechecked = plan_.has_audits() && body.outcome == Outcome::kAccepted;
  DGX_CHECK(world_.say(std::move(body), person(who).key, life.verdict));
  if (!rechecked) {
    schedule(world_.now(), Step::kObject, number);
    return {};
  }
  const std::int64_t last = world_.now() + plan_.policy.window_challenge_ms;
  const std::int64_t round = plan_round();
  schedule(round <= last ? round : world_.now(), Step::kCommit, number);
  return {};
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
  for (const std::size_t who : life.volunteers) DGX_CHECK(commit_one(life, who));
  const std::int64_t ends = protocol::recheck_times(record(life)).commit_ms;
  schedule(ends + 1, life.audits.empty() ? Step::kObject : Step::kShow, number);
  return {};
}

/// Somebody who looks finds a fault of the proof first, and then witnesses that nobody has replayed.
Status MarketRun::commit_one(Life& life, std::size_t who) {
  manifest::Verdict body = acceptance(life);
  body.draw = manifest::Draw::kAudit;
  body.audits = life.verdict;
  if (looks(life, who)) {
    life.work.emplace_back(who, replay_price(life, who));
    if (const auto fault = life.fault()) {
      refute(life, body, *fault);
    } else if (life.unseen) {
      body.denied = life.drawn;
    }
  } else if (person(who).kind == AgentKind::kAccomplice) {
    refute(life, body, life.drawn.front());
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

Status MarketRun::show(Life& life, std::int64_t number) {
  for (const HiddenAudit& audit : life.audits)
    DGX_CHECK(world_.say(audit.body, person(audit.by).key, audit.id));
  schedule(world_.now(), Step::kObject, number);
  return {};
}

Status MarketRun::object(Life& life, std::int64_t number) {
  if (protocol::source_of(record(life))) {
    DGX_CHECK(answer_refutations(life));
    for (const HiddenAudit& audit : life.audits) DGX_CHECK(bear_out(life, audit));
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

/// Denials, and refutations of volunteers, have to be borne out by a game. Whoever said it first wins; a
/// second game about the same is still theirs to open, and to share in.
Status MarketRun::bear_out(Life& life, const HiddenAudit& audit) {
  if (!looks(life, audit.by)) return {};
  const bool drawn = protocol::is_auditor(record(life), person(audit.by).key);
  if (audit.body.outcome == Outcome::kRefuted)
    return drawn ? Status() : challenge_proof(life, audit.by, audit.body.first_disagreement->index);
  if (audit.body.denied.empty()) return {};
  const std::int64_t segment = life.drawn.front();
  manifest::Challenge body = challenge_of(life, segment);
  const Digest& end = body.end->digest;
  body.verdict = life.verdict;
  body.about = manifest::About::kWitness;
  body.row = manifest::OpenedRow{
      0,
      {},
      {segment, end, end, true, manifest::RowReason::kEqual, record(life).verdict->body.witnesses.front()}};
  return challenge(life, audit.by, std::move(body), false);
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
