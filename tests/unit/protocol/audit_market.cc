#include "audit_market.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "dgx/protocol/draw.h"

namespace dgx::test {

using namespace manifest;
using namespace protocol;

namespace {

constexpr std::uint8_t kIdler = 60;

}  // namespace

AuditMarket::AuditMarket(const Policy& policy, bool filled, bool diverges) : RoundMarket(policy, diverges) {
  if (!filled) return;
  // A solver who proves nothing loses the bond to the jackpot.
  Task other = run().task.body;
  other.seed += 1;
  const auto task = *seal(other, key(kSubmitter));
  take(any(task), 0);
  BeaconCommitment offered = offer(run()).body;
  offered.task = task.id;
  offered.bond = kOfferBond;
  take(by(61, offered), 0);
  Assign assigned = assignment(run()).body;
  assigned.task = task.id;
  assigned.commitment.reset();
  take(by(kIdler, assigned), 400);
  const auto due = market().due(1'401);
  REQUIRE(due.size() == 1);
  take(by(kOperator, due[0]), 1'401);
  REQUIRE(jackpot() >= fee());
}

void AuditMarket::open() {
  std::vector<std::pair<std::uint8_t, std::int64_t>> offers;
  for (std::uint8_t who = 10; who < 14; ++who) offers.emplace_back(who, bond_of(who));
  draw(offers, kFrom);
  take(opening_of(), at(2'500));
  take(any(delivery(run())), at(2'500));
}

void AuditMarket::give_verdict(bool lazy) {
  open();
  Verdict body = replayed(verifier());
  if (lazy) body.witnesses[0] = digest("a guess");
  take(by(verifier(), body), at(3'500));
}

void AuditMarket::draw_auditor(bool lazy) {
  give_verdict(lazy);
  take(by(kOperator, round_of(slot_of(at(3'500), *market().policy()))), at(4'000));
}

Verdict AuditMarket::refuting_audit(std::uint8_t who) const {
  Verdict out = audit(who);
  const std::int64_t index = segments_drawn().front();
  out.outcome = Outcome::kRefuted;
  out.witnesses.clear();
  std::erase(out.denied, index);
  out.first_disagreement = VerdictRow{index,
                                      run().digests[static_cast<std::size_t>(index) + 1],
                                      digest("no state"),
                                      false,
                                      RowReason::kDigest,
                                      digest("w")};
  return out;
}

Signed<Body> AuditMarket::commitment_to(std::uint8_t who, const Verdict& audit) const {
  const Digest id = seal(audit, key(who))->id;
  return by(who, VerdictCommitment{run().task.id, run().proof.id, verdict_commitment(id, audit.nonce),
                                   record().verdict->id});
}

std::vector<std::int64_t> AuditMarket::segments_drawn() const {
  return *policy_draw(run().task.body, run().segments(), record().round->source.value, run().proof.id, {});
}

Challenge AuditMarket::witness_challenge(std::optional<std::int64_t> segment) const {
  const auto drawn = segments_drawn();
  const std::int64_t index = segment.value_or(drawn.front());
  const std::int64_t place = std::find(drawn.begin(), drawn.end(), index) - drawn.begin();
  const Signed<Verdict>& verdict = *record().verdict;
  Challenge out = challenge_of(run(), index);
  const Digest& end = run().digests[static_cast<std::size_t>(index) + 1];
  out.verdict = verdict.id;
  out.about = About::kWitness;
  out.row = OpenedRow{place,
                      {},
                      VerdictRow{index, end, end, true, RowReason::kEqual,
                                 verdict.body.witnesses[static_cast<std::size_t>(place)]}};
  return out;
}

std::vector<std::uint8_t> AuditMarket::others(std::size_t count) const {
  std::vector<std::uint8_t> out;
  for (std::uint8_t who = kStranger + 1; out.size() < count; ++who) {
    if (who < 10 || who > 13) out.push_back(who);
  }
  return out;
}

void AuditMarket::audit_by_drawn(const Verdict& body) {
  take(commitment_to(auditor(), body), at(4'900));
  take(by(auditor(), body), at(5'001));
}

std::uint8_t AuditMarket::auditor() const {
  REQUIRE(record().audit);
  REQUIRE(record().audit->auditor);
  std::uint8_t who = 1;
  while (key_id(who) != record().audit->auditor->drawn.verifier) ++who;
  return who;
}

}  // namespace dgx::test
