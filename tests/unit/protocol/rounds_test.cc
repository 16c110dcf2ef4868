// Rounds and draws against tests/vectors/rounds.json, which Python's standard library derives from
// dgx-protocol(7), and the ledger's rules about rounds.
#include "dgx/protocol/rounds.h"

#include <catch2/catch.hpp>

#include "dgx/crypto/sha256.h"
#include "dgx/protocol/forced.h"
#include "dgx/protocol/lots.h"
#include "json_vectors.h"
#include "round_market.h"

using namespace dgx;
using namespace dgx::manifest;
using namespace dgx::protocol;
using test::RoundMarket;

namespace {

const json::Array& vectors(std::string_view name) {
  static const json::Value all = test::read_vectors(DGX_VECTORS "/rounds.json");
  return *test::member(all, name).as_array();
}

std::int64_t at(const json::Value& row, std::size_t i) { return *row.as_array()->at(i).as_int(); }

Policy with_slots(std::int64_t milliseconds) {
  Policy out = test::policy();
  out.beacon_slot_ms = milliseconds;
  return out;
}

}  // namespace

TEST_CASE("audits are drawn as Python draws them") {
  const auto word = [](const json::Value& one, std::string_view key) {
    return test::digest(*test::member(one, key).as_string());
  };
  for (const json::Value& one : vectors("audits")) {
    const Digest round = word(one, "round"), verdict = word(one, "verdict");
    const Digest chance = lot("audit", round, ByteWriter().digest(verdict).bytes());
    const std::int64_t least = test::integer(one, "least_ppm");
    CHECK(hits(chance, least));
    CHECK(hits(chance, 1'000'000));
    CHECK_FALSE(hits(chance, least - 1));
    CHECK_FALSE(hits(chance, 0));
    std::vector<StakedOffer> offers;
    const std::string keys = *test::member(one, "keys").as_string();
    for (const json::Value& bond : *test::member(one, "bonds").as_array()) {
      const std::string number = std::to_string(offers.size());
      offers.push_back({test::digest("offer " + number), test::digest(keys + number), *bond.as_int()});
    }
    const DrawnVerifier drawn = draw_auditor(round, verdict, offers);
    CHECK(drawn.drawn.verifier == test::digest(keys + std::to_string(test::integer(one, "offer"))));
    CHECK(drawn.ticket == test::integer(one, "ticket"));
    CHECK(drawn.from == test::integer(one, "from"));
    CHECK(drawn.sum == test::integer(one, "sum"));
  }
}

TEST_CASE("a delay is the chain that Python computes") {
  for (const json::Value& one : vectors("delays")) {
    const RootReference head{test::digest("root"), test::integer(one, "count")};
    const std::int64_t steps = test::integer(one, "steps");
    Round round{test::digest("ledger"), test::integer(one, "slot"), head, DelayChain{}, {}};
    DelayChain chain{steps, {}};
    for (const json::Value& text : *test::member(one, "checkpoints").as_array())
      chain.checkpoints.push_back(*digest_from_hex(*text.as_string()));
    CHECK(delay_start(round.ledger, round.slot, head).hex() == *test::member(one, "start").as_string());
    CHECK(round_value(chain).hex() == *test::member(one, "value").as_string());
    const auto intervals = intervals_of(round, chain);
    CHECK(std::ssize(intervals) == delay_checkpoints(steps));
    std::int64_t next = 0;
    for (const DelayInterval& interval : intervals) {
      CHECK(interval.first == next);
      CHECK(crypto::sha256_chain(interval.from, interval.steps) == interval.to);
      next += interval.steps;
    }
    CHECK(next == steps);
  }
  for (const json::Value& row : vectors("intervals")) {
    CHECK(delay_interval(at(row, 0)) == at(row, 1));
    CHECK(delay_checkpoints(at(row, 0)) == at(row, 2));
    CHECK(at(row, 2) <= kMostCheckpoints);
  }
}

TEST_CASE("a slot's pulse is the first that comes a slot after its end") {
  for (const json::Value& row : vectors("pulses")) {
    const Policy policy = with_slots(at(row, 1));
    const std::int64_t number = pulse_number(at(row, 0), policy);
    CHECK(number == at(row, 2));
    const std::int64_t wanted = end_of_slot(at(row, 0) + 1, policy);
    CHECK(pulse_milliseconds(number) >= wanted);
    CHECK((number == 1 || pulse_milliseconds(number - 1) < wanted));
  }
}

TEST_CASE("verifiers are drawn as Python draws them") {
  for (const json::Value& one : vectors("draws")) {
    CAPTURE(one.dump());
    const std::string keys = *test::member(one, "keys").as_string();
    std::vector<StakedOffer> offers;
    for (const json::Value& bond : *test::member(one, "bonds").as_array()) {
      const std::string number = std::to_string(offers.size());
      offers.push_back({test::digest("offer " + number), test::digest(keys + number), *bond.as_int()});
    }
    const auto drawn = draw_verifiers(test::digest(*test::member(one, "round").as_string()),
                                      test::digest(*test::member(one, "proof").as_string()), offers);
    const json::Array& expected = *test::member(one, "drawn").as_array();
    REQUIRE(drawn.size() == expected.size());
    for (std::size_t i = 0; i < drawn.size(); ++i) {
      const auto index = static_cast<std::size_t>(test::integer(expected[i], "offer"));
      CHECK(drawn[i].drawn.verifier == offers[index].verifier);
      CHECK(drawn[i].drawn.offer == offers[index].offer);
      CHECK(drawn[i].ticket == test::integer(expected[i], "ticket"));
      CHECK(drawn[i].from == test::integer(expected[i], "from"));
      CHECK(drawn[i].sum == test::integer(expected[i], "sum"));
    }
  }
}

TEST_CASE("splitting a bond over keys changes no chance") {
  // 10,000 rounds: a bond of 600 beside one of 400 is drawn first as often in one piece as in six.
  int whole = 0, split = 0;
  const auto first = [](const Digest& round, const std::vector<StakedOffer>& offers) {
    return draw_verifiers(round, test::digest("proof"), offers).front().drawn.offer;
  };
  std::vector<StakedOffer> pieces{{test::digest("honest"), test::digest("honest key"), 400}};
  std::vector<StakedOffer> one = pieces;
  one.push_back({test::digest("sybil"), test::digest("sybil key"), 600});
  for (int i = 0; i < 6; ++i)
    pieces.push_back({test::digest("sybil"), test::digest("sybil key " + std::to_string(i)), 100});
  for (int i = 0; i < 10'000; ++i) {
    const Digest round = test::digest("round " + std::to_string(i));
    whole += first(round, one) == test::digest("sybil") ? 1 : 0;
    split += first(round, pieces) == test::digest("sybil") ? 1 : 0;
  }
  // Four standard deviations of a binomial share of 0.6 are 196.
  CHECK(std::abs(whole - 6'000) < 196);
  CHECK(std::abs(split - 6'000) < 196);
}

TEST_CASE("a round is taken once, for a slot that is over, with that slot's head") {
  RoundMarket market;
  market.deposit(1'500);
  const Round good = market.round_of(0);
  const auto refused = [&](const Round& round, std::int64_t now, std::uint8_t who = test::kOperator) {
    return market.refused(test::by(who, round), now);
  };
  CHECK(refused(good, 999) == "earlier than the entry before");
  CHECK(refused(market.round_of(1), 1'999) == "slot 1 is not over");
  CHECK(refused(market.round_of(2), 3'999) == "nothing was logged in slot 2");
  CHECK(refused(good, 2'000, test::kStranger).starts_with("signed by"));
  Round wrong = good;
  wrong.head = market.round_of(1).head;
  CHECK(refused(wrong, 2'000).starts_with("head: is not that of the 70 entries"));
  wrong = good;
  wrong.head.root = test::digest("another");
  CHECK(refused(wrong, 2'000).starts_with("head: is not"));
  wrong = good;
  wrong.ledger = test::ledger_id();
  CHECK(refused(wrong, 2'000).starts_with("ledger: names"));
  wrong = good;
  wrong.origin = DelayChain{131'072, {test::digest("end")}};
  wrong.value = round_value(std::get<DelayChain>(wrong.origin));
  CHECK(refused(wrong, 2'000) == "steps: are 131072, the policy asks for 65536");
  wrong = test::pulse();
  wrong.ledger = good.ledger;
  wrong.slot = 0;
  wrong.head = good.head;
  CHECK(refused(wrong, 2'000) == "source: is drand, the market's is another");
  CHECK(refused(good, 2'000) == "accepted");
  CHECK(refused(good, 2'000) == "is already in the ledger");
  Round twice = good;
  twice.origin = DelayChain{65'536, {test::digest("another end")}};
  twice.value = round_value(std::get<DelayChain>(twice.origin));
  CHECK(refused(twice, 2'000) == "slot 0 has its round already");
}

TEST_CASE("a pulse is taken by its number") {
  Policy policy = test::round_policy();
  policy.beacon_source = 2;
  RoundMarket market(policy);
  market.deposit(1'500);
  Round pulse = test::pulse();
  pulse.ledger = market.ledger();
  pulse.slot = 0;
  pulse.head = market.round_of(0).head;
  std::get<DrandPulse>(pulse.origin).number = 2;
  CHECK(market.refused(test::by(test::kOperator, pulse), 2'000) == "number: is 2, slot 0 has pulse 1");
  std::get<DrandPulse>(pulse.origin).number = 1;
  CHECK(market.refused(test::by(test::kOperator, pulse), 2'000) == "accepted");
}

TEST_CASE("a market without rounds takes none") {
  RoundMarket market(test::policy());
  CHECK(market.refused(test::by(test::kOperator, market.round_of(0)), 1'000) ==
        "this market has no rounds: its beacon_source is 0");
}

TEST_CASE("a forced error is where Python derives it from round, secret and proof") {
  for (const json::Value& one : vectors("forced")) {
    CAPTURE(one.dump());
    const auto word = [&](const char* key) { return test::digest(*test::member(one, key).as_string()); };
    const std::int64_t count = test::integer(one, "segments"), least = test::integer(one, "least_ppm");
    Task task = test::task();
    task.policy.beacon_source = 1;
    task.policy.sample_ppm = 1'000'000;
    task.steps = 2 * count;
    task.checkpoint_every = 2;
    Signed<Round> round{};
    round.body.value = word("round");
    const DrawSource source(round, word("proof"));
    const auto segments = *Segments::of(task.steps, task.checkpoint_every);
    task.policy.forced_error_ppm = least;
    CHECK(forced_segment(task, segments, source, word("secret")) == test::integer(one, "segment"));
    task.policy.forced_error_ppm = least - 1;
    CHECK_FALSE(forced_segment(task, segments, source, word("secret")));
    const Digest witness = *digest_from_hex(*test::member(one, "witness").as_string());
    CHECK(false_witness(witness).hex() == *test::member(one, "false").as_string());
  }
}
