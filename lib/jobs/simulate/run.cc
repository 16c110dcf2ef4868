#include "simulate/run.h"

#include <fmt/format.h>

#include <algorithm>

#include "dgx/protocol/rounds.h"
#include "dgx/protocol/settlement.h"
#include "dgx/protocol/verify.h"

namespace dgx::jobs {
namespace {

using protocol::slot_of;

/// The stream of those who visit tasks that are not theirs.
constexpr std::uint64_t kVisits = ~std::uint64_t{1};
constexpr std::int64_t kStopInterval = 64;

}  // namespace

bool Life::is_faked(std::int64_t segment) const {
  return std::binary_search(faked.begin(), faked.end(), segment);
}

std::optional<std::int64_t> Life::fault() const {
  for (const std::int64_t segment : drawn) {
    if (is_faked(segment)) return segment;
  }
  return std::nullopt;
}

MarketRun::MarketRun(const Plan& plan, People people, std::int64_t market, const StopFlag& stop)
    : plan_(plan),
      people_(std::move(people)),
      market_(market),
      stop_(stop),
      world_(plan, market),
      visits_(plan.seed, static_cast<std::uint64_t>(market), kVisits) {}

Result<Tally> MarketRun::play(std::int64_t tasks) {
  tasks_ = tasks;
  DGX_CHECK(world_.begin());
  for (std::int64_t size = 1; begun_ < tasks; size *= 2) {
    size = std::min({size, plan_.open, tasks - begun_});
    is_full_ = is_full_ || size == plan_.open;
    Status status = play_wave(size);
    if (status.ok()) continue;
    if (status.error().code == ErrorCode::kInterrupted) return std::move(status).error();
    return within(fmt::format("market {}", market_), std::move(status).error());
  }
  DGX_CHECK(check_gains());
  tally_.statements = world_.statements();
  return std::move(tally_);
}

Status MarketRun::play_wave(std::int64_t size) {
  lives_.clear();
  for (std::int64_t n = 0; n < size; ++n) {
    lives_.push_back(
        {Stream(plan_.seed, static_cast<std::uint64_t>(market_), static_cast<std::uint64_t>(begun_ + n))});
  }
  begun_ += size;
  send_visitors();
  // A wave begins with a slot, so that its tasks need few rounds.
  const std::int64_t slot = plan_.policy.beacon_slot_ms;
  DGX_CHECK(world_.advance((world_.now() / slot + 1) * slot));
  for (std::int64_t n = 0; n < size; ++n) DGX_CHECK(post(lives_[static_cast<std::size_t>(n)], n));
  while (!events_.empty()) {
    const Event event = events_.top();
    events_.pop();
    if (event.order % kStopInterval == 0 && stop_.requested())
      return Error{ErrorCode::kInterrupted, "interrupted", {}};
    DGX_CHECK(world_.advance(event.milliseconds));
    DGX_CHECK(take(event));
  }
  world_.forget();
  return {};
}

/// Each visitor looks at one of the tasks that are open.
void MarketRun::send_visitors() {
  const auto send = [&](const std::vector<std::size_t>& visitors, std::vector<std::size_t> Life::*to) {
    for (const std::size_t who : visitors)
      (lives_[static_cast<std::size_t>(visits_.below(std::ssize(lives_)))].*to).push_back(who);
  };
  send(people_.volunteers, &Life::volunteers);
  send(people_.guessers, &Life::guessers);
  send(people_.robbers, &Life::robbers);
  send(people_.griefers, &Life::griefers);
  send(people_.copiers, &Life::copiers);
}

Status MarketRun::take(const Event& event) {
  if (event.step == Step::kRound) return world_.log_round(event.number);
  Life& life = lives_[static_cast<std::size_t>(event.number)];
  switch (event.step) {
    case Step::kAssign: return assign(life, event.number);
    case Step::kProve: return prove(life, event.number);
    case Step::kOpen: return open(life, event.number);
    case Step::kVerdict: return give_verdict(life, event.number, event.turn);
    case Step::kCommit: return commit(life, event.number);
    case Step::kShow: return show(life, event.number);
    case Step::kObject: return object(life, event.number);
    case Step::kRound:
    case Step::kSettle: break;
  }
  return settle(life, event.number);
}

void MarketRun::schedule(std::int64_t milliseconds, Step step, std::int64_t number, std::size_t turn) {
  events_.push({milliseconds, made_++, number, step, turn});
}

std::int64_t MarketRun::plan_round() {
  const std::int64_t slot = slot_of(world_.now(), plan_.policy);
  const std::int64_t when = protocol::known_from(slot, plan_.policy);
  if (planned_.insert(slot).second) schedule(when, Step::kRound, slot);
  return when;
}

Status MarketRun::post(Life& life, std::int64_t number) {
  life.solver = people_.solvers[static_cast<std::size_t>(life.chance.below(std::ssize(people_.solvers)))];
  const bool farmed = person(life.solver).kind == AgentKind::kFarmer;
  life.submitter = farmed ? people_.farm_submitters.at(life.solver) : people_.submitter;
  life.task = life.chance.digest();
  manifest::Task body = plan_.task;
  body.ledger = world_.ledger();
  DGX_CHECK(world_.fund(person(life.submitter), body.estimate.escrow));
  DGX_CHECK(world_.say(std::move(body), person(life.submitter).key, life.task));
  if (farmed) DGX_CHECK(offer(life, people_.farm_verifiers.at(life.solver)));
  if (plan_.has_rounds()) {
    for (const std::size_t verifier : people_.verifiers) DGX_CHECK(offer(life, verifier));
  } else if (!farmed) {
    // The solver names whom they like: a cheat an accomplice, if there is one.
    std::vector<std::size_t> liked;
    for (const std::size_t verifier : people_.verifiers) {
      if (person(verifier).kind == AgentKind::kColluder) liked.push_back(verifier);
    }
    if (person(life.solver).kind != AgentKind::kCheat || liked.empty()) liked = people_.verifiers;
    DGX_CHECK(offer(life, liked[static_cast<std::size_t>(life.chance.below(std::ssize(liked)))]));
  }
  schedule(world_.now() + (plan_.has_rounds() ? plan_.policy.window_move_ms : 0), Step::kAssign, number);
  return {};
}

Status MarketRun::offer(Life& life, std::size_t verifier) {
  const Person& who = person(verifier);
  DGX_CHECK(world_.fund(who, who.bond));
  const Digest secret = life.chance.digest(), id = life.chance.digest();
  life.secrets.push_back({verifier, id, secret});
  manifest::BeaconCommitment body{life.task, manifest::beacon_commitment(secret), plan_.task.dataset.digest,
                                  plan_.task.initial.digest, 1};
  if (plan_.has_rounds()) body.bond = who.bond;
  return world_.say(body, who.key, id);
}

Status MarketRun::assign(Life& life, std::int64_t number) {
  const std::int64_t last = record(life).posted_ms + plan_.policy.window_proof_ms;
  if (world_.now() > last) {
    schedule(world_.now(), Step::kSettle, number);
    return {};
  }
  DGX_CHECK(world_.fund(person(life.solver), plan_.bonds.solver + plan_.bonds.challenger));
  manifest::Assign body{life.task, std::nullopt, plan_.task.dataset.digest, plan_.task.initial.digest, 1};
  if (!plan_.has_rounds()) body.commitment = life.secrets.front().offer;
  DGX_CHECK(world_.say(body, person(life.solver).key, life.chance.digest()));
  schedule(world_.now(), Step::kProve, number);
  return {};
}

void MarketRun::choose_faked(Life& life, const AgentGroup& cheat) {
  const std::int64_t faked = plan_.faked(cheat);
  std::vector<std::int64_t> all(static_cast<std::size_t>(plan_.segments));
  for (std::int64_t n = 0; n < plan_.segments; ++n) all[static_cast<std::size_t>(n)] = n;
  for (std::int64_t n = 0; n < faked; ++n)
    std::swap(all[static_cast<std::size_t>(n)],
              all[static_cast<std::size_t>(n + life.chance.below(plan_.segments - n))]);
  life.faked.assign(all.begin(), all.begin() + faked);
  std::sort(life.faked.begin(), life.faked.end());
}

/// A farmer trains what has a price, but no cost.
Status MarketRun::prove(Life& life, std::int64_t number) {
  const AgentKind kind = person(life.solver).kind;
  std::int64_t cost = kind == AgentKind::kFarmer ? 0 : plan_.cost;
  if (kind == AgentKind::kCheat) {
    for (const AgentGroup& group : plan_.agents) {
      if (group.kind == AgentKind::kCheat) choose_faked(life, group);
    }
    cost -= plan_.cost * std::ssize(life.faked) / plan_.segments;
  }
  life.work.emplace_back(life.solver, cost);
  life.proof = life.chance.digest();
  manifest::Proof body{life.task,           plan_.root,       plan_.states.front(),
                       plan_.states.back(), plan_.task.steps, {}};
  DGX_CHECK(world_.say(std::move(body), person(life.solver).key, life.proof));
  const std::int64_t waits = world_.now() + plan_.policy.window_reveal_ms;
  if (plan_.has_rounds()) {
    const std::int64_t last = waits + plan_.policy.beacon_slot_ms;
    schedule(std::min(plan_round(), last + 1), Step::kOpen, number);
    return {};
  }
  life.verifier = life.secrets.front().by;
  if (person(life.verifier).kind == AgentKind::kSilent) {
    schedule(waits + 1, Step::kOpen, number);
    return {};
  }
  DGX_CHECK(world_.say(secret_of(life), person(life.verifier).key, life.chance.digest()));
  schedule(world_.now(), Step::kOpen, number);
  return {};
}

Status MarketRun::open(Life& life, std::int64_t number) {
  const protocol::TaskRecord& now = record(life);
  const auto source = protocol::source_of(now);
  const Digest after = protocol::opening_duty(now)->after;
  if (source) {
    DGX_TRY(const auto segments, protocol::segments_of(plan_.task, now.proof->body));
    DGX_TRY(life.drawn,
            protocol::policy_draw(plan_.task, segments, source->value, life.proof, source->signer));
    if (!life.faked.empty()) tally_.of(Counted::kFalseDrawn).add(life.fault().has_value());
  }
  if (now.round) {
    const AgentKind first = person(people_.of_key(now.round->drawn.front().drawn.verifier)).kind;
    for (const AgentGroup& group : plan_.agents) {
      const bool drawn = first == group.kind;
      if (drawn || std::any_of(people_.verifiers.begin(), people_.verifiers.end(),
                               [&](std::size_t who) { return person(who).kind == group.kind; }))
        tally_.first_drawn[group.kind].add(drawn);
    }
  }
  const Person& solver = person(life.solver);
  DGX_CHECK(world_.say(manifest::Opening{life.task, life.proof, after, "opening"}, solver.key,
                       life.chance.digest()));
  DGX_CHECK(world_.say(manifest::Delivery{life.task, life.proof, plan_.states.back(), std::nullopt},
                       person(life.submitter).key, life.chance.digest()));
  schedule(world_.now(), source ? Step::kVerdict : Step::kObject, number);
  return {};
}

}  // namespace dgx::jobs
