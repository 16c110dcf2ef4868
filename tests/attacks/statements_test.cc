// dgx-threats(7), rows 16, 18, 23 and 24: statements that are copied, replayed elsewhere, late or too large.
// Each is correctly signed by someone and offered to a ledger's market.

#include <catch2/catch.hpp>

#include "dgx/manifest/fields.h"
#include "dgx/protocol/draw.h"
#include "dgx/protocol/segments.h"
#include "dgx/protocol/settlement.h"
#include "game.h"

namespace {

using namespace dgx;
using namespace dgx::manifest;
using namespace dgx::protocol;
using test::any;
using test::TinyExecutor;
using test::TinyRun;

Signed<Body> signed_by(std::uint8_t who, Body body) {
  auto out = seal_any(std::move(body), test::key(who));
  REQUIRE(out.ok());
  return *out;
}

/// A market with money for everyone, and with the tasks open and assigned.
Market market_of(const std::vector<const TinyRun*>& runs) {
  Market market;
  REQUIRE(market.apply(signed_by(test::kOperator, test::ledger_policy()), 0).ok());
  for (const std::uint8_t who : {test::kSubmitter, test::kSolver, test::kVerifier}) {
    REQUIRE(market
                .apply(signed_by(test::kOperator,
                                 Deposit{test::key_id(who), 100'000, "first", test::ledger_id()}),
                       0)
                .ok());
  }
  for (const TinyRun* run : runs) {
    REQUIRE(market.apply(any(run->task), 0).ok());
    REQUIRE(market.apply(any(test::offer(*run)), 0).ok());
    REQUIRE(market.apply(any(test::assignment(*run)), 0).ok());
  }
  return market;
}

/// The reason for refusing a statement, which must change nothing.
std::string refused(Market& market, const Signed<Body>& statement) {
  const auto before = market.balances();
  const Status status = market.apply(statement, market.clock().receipt_now());
  CHECK(market.balances() == before);
  return status.ok() ? "accepted" : status.error().message;
}

}  // namespace

TEST_CASE("a solver cannot try proofs until the draw suits them") {
  const TinyRun run = test::tiny_run("grind");
  Market market = market_of({&run});
  SECTION("the secret is not revealed before a proof is logged") {
    CHECK_THAT(refused(market, any(run.beacon)), Catch::Contains("proof") || Catch::Contains("assigned"));
  }
  SECTION("another proof after the first is refused, before and after the reveal") {
    REQUIRE(market.apply(any(run.proof), 1).ok());
    Proof other = run.proof.body;
    const test::Ending ending = test::ending("other");
    other.final_state = ending.state;
    other.loss = ending.loss;
    CHECK(refused(market, signed_by(test::kSolver, other)) != "accepted");
    REQUIRE(market.apply(any(run.beacon), 2).ok());
    CHECK(refused(market, signed_by(test::kSolver, other)) != "accepted");
  }
  SECTION("another proof would have another draw, so that even the same secret tells nothing") {
    const Digest secret = run.beacon.body.secret;
    CHECK(beacon_value(secret, run.proof.id) != beacon_value(secret, test::digest("another proof")));
  }
}

TEST_CASE("a verifier cannot choose the draw either") {
  const TinyRun run = test::tiny_run("choose");
  Market market = market_of({&run});
  REQUIRE(market.apply(any(run.proof), 1).ok());
  Beacon beacon = run.beacon.body;
  for (const char* word : {"a", "b", "c"}) {
    beacon.secret = test::digest(word);
    beacon.value = beacon_value(beacon.secret, beacon.proof);
    CHECK_THAT(refused(market, signed_by(test::kVerifier, beacon)),
               Catch::Contains("is not the one that was committed to"));
  }
}

TEST_CASE("a statement about one task means nothing in another") {
  const TinyRun one = test::tiny_run("one"), two = test::tiny_run("two");
  Market market = market_of({&one, &two});
  REQUIRE(market.apply(any(one.proof), 1).ok());
  REQUIRE(market.apply(any(two.proof), 1).ok());
  SECTION("a proof, relabelled") {
    Proof moved = one.proof.body;
    moved.task = two.task.id;
    CHECK(refused(market, signed_by(test::kSolver, moved)) != "accepted");
  }
  SECTION("a beacon, relabelled") {
    Beacon moved = one.beacon.body;
    moved.task = two.task.id;
    CHECK(refused(market, signed_by(test::kVerifier, moved)) != "accepted");
  }
  SECTION("a verdict, relabelled") {
    REQUIRE(market.apply(any(one.beacon), 2).ok());
    REQUIRE(market.apply(any(two.beacon), 2).ok());
    Verdict moved = test::verdict(one).body;
    moved.task = two.task.id;
    CHECK(refused(market, signed_by(test::kVerifier, moved)) != "accepted");
    moved.proof = two.proof.id;
    CHECK(refused(market, signed_by(test::kVerifier, moved)) != "accepted");
  }
  SECTION("a delivery receipt, relabelled") {
    Delivery moved = test::delivery(one).body;
    moved.task = two.task.id;
    CHECK(refused(market, signed_by(test::kSubmitter, moved)) != "accepted");
  }
}

TEST_CASE("a signature does not move to another kind, body or signer") {
  const auto deposit = *seal(Deposit{test::key_id(2), 5, "x", test::ledger_id()}, test::key(1));
  const auto text = json::parse(deposit.envelope);
  const auto forged = [&](const Body& body, std::uint8_t claimed) {
    json::Value envelope = *text;
    const std::string payload = payload_of(body, test::key(claimed).public_key());
    (*envelope.as_object())["payload"] = to_base64(as_bytes(payload));
    return open_any(envelope.dump());
  };
  REQUIRE(forged(deposit.body, 1).ok());
  CHECK(forged(Withdrawal{test::key_id(2).hex(), 5, "x", test::ledger_id()}, 1).error().code ==
        ErrorCode::kUnauthorised);
  CHECK(forged(Deposit{test::key_id(2), 6, "x", test::ledger_id()}, 1).error().code ==
        ErrorCode::kUnauthorised);
  CHECK(forged(Deposit{test::key_id(3), 5, "x", test::ledger_id()}, 1).error().code ==
        ErrorCode::kUnauthorised);
  CHECK(forged(deposit.body, 2).error().code == ErrorCode::kUnauthorised);
}

TEST_CASE("a statement counts once, however often it is posted") {
  Market market = market_of({});
  const auto deposit =
      signed_by(test::kOperator, Deposit{test::key_id(test::kSolver), 100'000, "first", test::ledger_id()});
  CHECK_THAT(refused(market, deposit), Catch::Contains("is already in the ledger"));
  const auto withdrawal =
      signed_by(test::kSolver, Withdrawal{test::key_id(test::kSolver).hex(), 400, "out", test::ledger_id()});
  REQUIRE(market.apply(withdrawal, 1).ok());
  CHECK_THAT(refused(market, withdrawal), Catch::Contains("is already in the ledger"));
}

TEST_CASE("nothing of one market counts in another of the same operator and rules") {
  const TinyRun run = test::tiny_run("two markets");
  const auto second = signed_by(test::kOperator, LedgerPolicy{test::policy(), test::digest("another nonce")});
  Market market;
  REQUIRE(market.apply(second, 0).ok());
  for (const std::uint8_t who : {test::kSubmitter, test::kSolver, test::kVerifier}) {
    const auto deposit =
        signed_by(test::kOperator, Deposit{test::key_id(who), 100'000, "first", test::ledger_id()});
    CHECK_THAT(refused(market, deposit), Catch::Contains("ledger: names " + test::ledger_id().brief()));
    REQUIRE(
        market.apply(signed_by(test::kOperator, Deposit{test::key_id(who), 100'000, "first", second.id}), 0)
            .ok());
  }
  const Withdrawal all{test::key_id(test::kSolver).hex(), 100'000, "all", test::ledger_id()};
  CHECK_THAT(refused(market, signed_by(test::kSolver, all)), Catch::Contains("ledger: names"));
  CHECK_THAT(refused(market, any(run.task)), Catch::Contains("ledger: names"));
  for (const auto& later : {any(test::offer(run)), any(test::assignment(run)), any(run.proof),
                            any(run.beacon), any(test::verdict(run)), any(test::delivery(run))}) {
    CHECK_THAT(refused(market, later), Catch::Contains("is not in the ledger"));
  }
  Task nowhere = run.task.body;
  nowhere.ledger.reset();
  CHECK_THAT(refused(market, signed_by(test::kSubmitter, nowhere)), Catch::Contains("names no ledger"));
}

TEST_CASE("nobody acts in another's name") {
  const TinyRun run = test::tiny_run("names");
  Market market = market_of({&run});
  for (const std::uint8_t who : {test::kOperator, test::kSubmitter, test::kVerifier, std::uint8_t{9}}) {
    CHECK(refused(market, signed_by(who, run.proof.body)) != "accepted");
  }
  REQUIRE(market.apply(any(run.proof), 1).ok());
  REQUIRE(market.apply(any(run.beacon), 1).ok());
  for (const std::uint8_t who : {test::kOperator, test::kSubmitter, test::kVerifier, std::uint8_t{9}}) {
    CHECK(refused(market, signed_by(who, test::opening(run).body)) != "accepted");
  }
  REQUIRE(market.apply(any(test::opening(run)), 1).ok());
  const Verdict verdict = test::verdict(run).body;
  for (const std::uint8_t who : {test::kOperator, test::kSubmitter, test::kSolver, std::uint8_t{9}}) {
    CHECK(refused(market, signed_by(who, verdict)) != "accepted");
  }
  for (const std::uint8_t who : {test::kSolver, test::kVerifier, std::uint8_t{9}}) {
    CHECK(refused(market, signed_by(who, test::delivery(run).body)) != "accepted");
  }
}

TEST_CASE("a verifier who echoes the proof, or copies another's rows, does not have the witness") {
  const TinyRun run = test::tiny_run("echo");
  const auto segments = *Segments::of(100, 10);
  const auto replayed_by = [&](std::uint8_t who, std::int64_t index) {
    TinyExecutor executor;
    const auto assignment = *assign(run.task, run.proof, std::nullopt, test::key_id(who));
    const auto i = static_cast<std::size_t>(index);
    return *replay_segment(executor, run.states[i], segments[index], run.digests[i], run.digests[i + 1],
                           assignment);
  };
  for (std::int64_t index = 0; index < segments.count(); ++index) {
    const Digest witness = replayed_by(test::kVerifier, index).witness;
    // Everything available without computing: the committed states, plain and bound to the key, and another
    // verifier's witness.
    CHECK(witness != replayed_by(9, index).witness);
    for (const Digest& committed : run.digests) {
      CHECK(witness != committed);
      CHECK(witness != witness_of(test::key_id(test::kVerifier), committed));
    }
    // Anyone who replays for the same key finds the witness, and so can refute an echo.
    CHECK(witness == replayed_by(test::kVerifier, index).witness);
  }
}

TEST_CASE("a verdict cannot be copied from the one committed to, nor committed to after it is seen") {
  const TinyRun run = test::tiny_run("copy");
  Market market = market_of({&run});
  REQUIRE(market.apply(any(run.proof), 1).ok());
  REQUIRE(market.apply(any(run.beacon), 1).ok());
  REQUIRE(market.apply(any(test::opening(run)), 1).ok());
  const auto verdict = test::verdict(run);
  const VerdictCommitment mine{run.task.id, run.proof.id, verdict_commitment(verdict.id, verdict.body.nonce)};
  // The copier signs the same body; its id, and with it the commitment, differs.
  const auto copy = *seal(verdict.body, test::key(9));
  CHECK(verdict_commitment(copy.id, copy.body.nonce) != mine.commitment);
  CHECK(refused(market, signed_by(9, mine)) != "accepted");
  REQUIRE(market.apply(signed_by(test::kVerifier, mine), 2).ok());
  Verdict second_thoughts = verdict.body;
  second_thoughts.nonce = test::digest("another");
  CHECK_THAT(refused(market, signed_by(test::kVerifier, second_thoughts)),
             Catch::Contains("is not the verdict that was committed to"));
}

TEST_CASE("deposits stop where a sum would no longer be exact, and the one too many changes nothing") {
  Market market = market_of({});
  int accepted = 0;
  std::string message;
  while (message.empty() && accepted < 100) {
    const auto deposit = signed_by(test::kOperator, Deposit{test::key_id(5), manifest::kMaxInteger / 8,
                                                            std::to_string(accepted), test::ledger_id()});
    const auto before = market.balances();
    const Status status = market.apply(deposit, 0);
    if (status.ok()) {
      ++accepted;
      continue;
    }
    message = status.error().message;
    CHECK(market.balances() == before);
  }
  // The others' deposits leave no room for the eighth.
  CHECK(accepted == 7);
  CHECK_THAT(message, Catch::EndsWith("deposits exceed 2^53"));
  std::int64_t sum = 0;
  for (const auto& [account, amount] : market.balances()) sum += amount;
  CHECK(sum == market.total());
}
