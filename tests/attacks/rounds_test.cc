// Attacks on the draw of verifiers and segments, each with what it gains without its rule and with it. Money
// is in base units of a task whose reward is 460; chances are shares of drawn rounds.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "dgx/protocol/lots.h"
#include "round_market.h"

using namespace dgx;
using namespace dgx::manifest;
using namespace dgx::protocol;
using test::any;
using test::by;
using test::digest;
using test::kOperator;
using test::kSolver;
using test::RoundMarket;

namespace {

constexpr std::int64_t kBond = 501;

void report(std::string_view attack, double before, double after) {
  fmt::print("{}: {:.3f} without the rule, {:.3f} with it\n", attack, before, after);
}

/// True if the draw misses `bad` of ten segments, three of which are drawn.
bool misses(const Digest& value, const Digest& proof, std::int64_t bad) {
  const auto drawn = *draw_segments(value, proof, Digest{}, 10, 3);
  return std::find(drawn.begin(), drawn.end(), bad) == drawn.end();
}

/// The share of `rounds` rounds in which an offer of `keys` is drawn first.
double share_of(const std::vector<StakedOffer>& offers, const std::vector<Digest>& keys, int rounds) {
  int out = 0;
  for (int i = 0; i < rounds; ++i) {
    const auto drawn = draw_verifiers(digest(fmt::format("round {}", i)), digest("proof"), offers);
    out += std::find(keys.begin(), keys.end(), drawn.front().drawn.verifier) == keys.end() ? 0 : 1;
  }
  return static_cast<double>(out) / rounds;
}

}  // namespace

TEST_CASE("a solver who tries proofs gains nothing, since the round comes after the proof") {
  // One of ten segments is bad, three are drawn: the chance to be missed is 7/10. Who knows the value
  // beforehand changes the proof until its draw misses; who does not has one try.
  int known = 0, unknown = 0;
  constexpr int kRounds = 2'000;
  for (int i = 0; i < kRounds; ++i) {
    const Digest round = digest(fmt::format("round {}", i));
    const auto missed = [&](const Digest& proof) { return misses(beacon_value(round, proof), proof, 5); };
    for (int proof = 0; proof < 64; ++proof) {
      if (!missed(digest(fmt::format("proof {}", proof)))) continue;
      ++known;
      break;
    }
    unknown += missed(digest("proof 0")) ? 1 : 0;
  }
  report("chance that the draw misses a bad segment, proofs tried", 1.0 * known / kRounds,
         1.0 * unknown / kRounds);
  CHECK(known == kRounds);
  // Four standard deviations of a share of 0.7 are 82.
  CHECK(std::abs(unknown - 1'400) < 82);
  // And the ledger takes one proof, and no round of a slot that is not over.
  RoundMarket m;
  m.take(any(m.run().task), 0);
  m.take(m.offer_of(10, kBond), 0);
  m.take(m.assign_of(kSolver), 400);
  m.take(any(m.run().proof), 1'300);
  CHECK(m.refused(by(kSolver, m.run().proof.body), 1'301) == "is already in the ledger");
  CHECK(m.refused(by(kOperator, m.round_of(1)), 1'999) == "slot 1 is not over");
}

TEST_CASE("a verifier who tries keys, or uses many, is drawn as often as their bonds say") {
  const std::vector<StakedOffer> honest{{digest("a"), digest("honest a"), 3'000},
                                        {digest("b"), digest("honest b"), 3'000}};
  // A verifier who knows the round tries keys until one is drawn.
  int known = 0;
  constexpr int kRounds = 500;
  for (int i = 0; i < kRounds; ++i) {
    for (int key = 0; key < 64; ++key) {
      auto offers = honest;
      offers.push_back({digest("s"), digest(fmt::format("key {}", key)), 2'000});
      const auto drawn = draw_verifiers(digest(fmt::format("round {}", i)), digest("proof"), offers);
      if (drawn.front().drawn.offer != digest("s")) continue;
      ++known;
      break;
    }
  }
  auto split = honest;
  std::vector<Digest> keys;
  for (int key = 0; key < 4; ++key) {
    keys.push_back(digest(fmt::format("key {}", key)));
    split.push_back({digest("s"), keys.back(), 500});
  }
  const double share = share_of(split, keys, 8'000);
  report("chance of an accomplice with a quarter of the bonds, keys tried", 1.0 * known / kRounds, share);
  // Three stretches of a quarter each can be reached, before, between and after the honest keys.
  CHECK(std::abs(1.0 * known / kRounds - 0.75) < 4 * 0.0194);
  CHECK(std::abs(share - 0.25) < 4 * 0.00484);
}

TEST_CASE("flooding the 64 places keeps nobody out who stakes more") {
  RoundMarket m;
  m.take(any(m.run().task), 0);
  for (std::uint8_t who = 6; who < 70; ++who) m.take(m.offer_of(who, kBond), 0);
  CHECK(m.refused(m.offer_of(70, kBond), 1).starts_with("bond: is 501: there are 64 offers"));
  m.take(m.offer_of(70, 40'000), 1);
  std::vector<StakedOffer> offers;
  std::vector<Digest> sybils;
  for (const auto& [id, offer] : m.record().offers) {
    offers.push_back({id, offer.statement.key_id, offer.bond});
    if (offer.statement.key_id != test::key_id(70)) sybils.push_back(offer.statement.key_id);
  }
  // 63 of them hold 63 · 501 of 71,563.
  const double share = share_of(offers, sybils, 4'000);
  report("chance of an accomplice after 64 small offers", 1.0, share);
  CHECK(std::abs(share - 0.441) < 4 * 0.00785);
}

TEST_CASE("a solver cannot assign before others have had time to offer") {
  // Without the wait the only offer would be an accomplice's.
  RoundMarket m;
  m.take(any(m.run().task), 0);
  m.take(m.offer_of(10, kBond), 0);
  CHECK(m.refused(m.assign_of(kSolver), 0) == "verifiers may offer themselves for another 400 ms");
  m.take(m.offer_of(11, 3 * kBond), 300);
  m.take(m.assign_of(kSolver), 400);
  std::vector<StakedOffer> offers;
  for (const auto& [id, offer] : m.record().offers)
    offers.push_back({id, offer.statement.key_id, offer.bond});
  const double share = share_of(offers, {test::key_id(10)}, 4'000);
  report("chance of an accomplice after an early assign", 1.0, share);
  CHECK(std::abs(share - 0.25) < 4 * 0.00685);
}

TEST_CASE("a solver who does not open to an honest verifier loses, so accomplices are drawn no more often") {
  // If the next were drawn when nobody can decide, 0.3 of the bonds would make 1 − 0.7^3 of three draws.
  std::vector<StakedOffer> offers;
  std::vector<Digest> sybils;
  for (int i = 0; i < 30; ++i) {
    offers.push_back({digest(fmt::format("h {}", i)), digest(fmt::format("honest {}", i)), 700});
    sybils.push_back(digest(fmt::format("sybil {}", i)));
    offers.push_back({digest(fmt::format("s {}", i)), sybils.back(), 300});
  }
  int any_of_three = 0, first = 0;
  constexpr int kRounds = 4'000;
  for (int i = 0; i < kRounds; ++i) {
    const auto drawn = draw_verifiers(digest(fmt::format("round {}", i)), digest("proof"), offers);
    const auto is_sybil = [&](const DrawnVerifier& one) {
      return std::find(sybils.begin(), sybils.end(), one.drawn.verifier) != sybils.end();
    };
    any_of_three += std::any_of(drawn.begin(), drawn.end(), is_sybil) ? 1 : 0;
    first += is_sybil(drawn.front()) ? 1 : 0;
  }
  report("chance that an accomplice decides", 1.0 * any_of_three / kRounds, 1.0 * first / kRounds);
  CHECK(std::abs(any_of_three - 2'628) < 200);
  CHECK(std::abs(first - 1'200) < 4 * 29);
  // Not to open costs the solver's bond, whoever was drawn.
  RoundMarket m;
  m.draw({{10, kBond}, {11, kBond}, {12, kBond}});
  CHECK(m.settle(3'001) == "no-proof");
  fmt::print("a solver who does not open: 0 without the rule, {} with it\n", m.gain(kSolver));
  CHECK(m.gain(kSolver) == -1'001);
}

TEST_CASE("silence of a drawn verifier costs the bond, and delays the solver by a window at most") {
  RoundMarket m;
  m.draw({{10, kBond}, {11, kBond}, {12, kBond}});
  const auto drawn = m.drawn();
  m.take(m.opening_of(), 2'000);
  m.take(any(m.accepted_by(drawn[1])), 3'001);
  m.take(any(test::delivery(m.run())), 3'001);
  CHECK(m.settle(4'002) == "accepted");
  fmt::print("a silent verifier: 0 without the rule, {} with it\n", m.gain(drawn[0]));
  CHECK(m.gain(drawn[0]) == -kBond);
  CHECK(m.gain(kSolver) == m.run().task.body.estimate.reward);
}

TEST_CASE("a round that is withheld costs no party a bond, and its operator has no other to choose") {
  RoundMarket m;
  m.take(any(m.run().task), 0);
  m.take(m.offer_of(10, kBond), 0);
  m.take(m.assign_of(kSolver), 400);
  m.take(any(m.run().proof), 1'300);
  // Another value for the slot is another head or another origin: neither is taken.
  Round other = m.round_of(1);
  other.head.count -= 1;
  CHECK(m.refused(by(kOperator, other), 2'000).starts_with("head: is not"));
  m.take(by(kSolver, Opening{m.run().task.id, m.run().proof.id, m.run().proof.id, "opening"}), 3'301);
  m.take(any(test::delivery(m.run())), 3'301);
  CHECK(m.settle(4'302) == "unverified");
  fmt::print("a verifier whose round is withheld: {} without the rule, {} with it\n", -kBond, m.gain(10));
  CHECK(m.gain(10) == 0);
}

TEST_CASE("offers in tasks that nobody assigns are taken back after an hour") {
  Policy policy = test::round_policy();
  policy.window_proof_ms = 3 * kLeastOfferMs;
  RoundMarket m(policy);
  m.take(any(m.run().task), 0);
  const auto offer = m.offer_of(10, 50'000);
  m.take(offer, 0);
  // Keeps the operator in sight: otherwise the next entry would end a pause.
  for (std::int64_t now = 60'000; now < kLeastOfferMs; now += 60'000) m.deposit(now);
  const auto end = by(10, OfferEnd{m.run().task.id, offer.id});
  CHECK(m.refused(end, kLeastOfferMs - 1) == "an offer stands for at least 3600000 ms");
  m.take(end, kLeastOfferMs);
  fmt::print("bond locked by a task that nobody assigns, after an hour: 50000 without the rule, {} with it\n",
             -m.gain(10));
  CHECK(m.gain(10) == 0);
}
