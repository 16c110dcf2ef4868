// The room that a ledger reserves: dgx-ledger(5), "LIMITS".
#include <catch2/catch.hpp>

#include "dgx/ledger/ledger.h"
#include "dgx/protocol/message.h"
#include "dgx/protocol/settlement.h"
#include "market_world.h"

using namespace dgx;
using namespace dgx::manifest;
using namespace dgx::protocol;
using test::any;
using test::cheat;
using test::TinyRun;

namespace {

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kAccount = 2 * kKiB, kPosted = 16 * kKiB + kAccount, kLong = 88 * kKiB;
constexpr std::size_t kGame = 46 * 32 * kKiB + 3 * kLong;
constexpr std::int64_t kMost = std::int64_t{1} << 53;

Signed<Body> sealed(const Body& body, std::uint8_t who) { return *seal_any(body, test::key(who)); }

/// Takes a statement, and returns the growth of the reserve.
std::ptrdiff_t growth(Market& market, const Signed<Body>& statement, std::int64_t now = 0) {
  const auto before = static_cast<std::ptrdiff_t>(market.reserved_bytes());
  const auto said = market.reserve_of(statement);
  const Status status = market.apply(statement, now);
  INFO((status.ok() ? "" : status.error().message));
  REQUIRE(status.ok());
  const auto out = static_cast<std::ptrdiff_t>(market.reserved_bytes()) - before;
  if (said) CHECK(out <= static_cast<std::ptrdiff_t>(*said));
  return out;
}

Market funded() {
  Market market;
  growth(market, sealed(test::ledger_policy(), test::kOperator));
  for (const std::uint8_t who : {test::kSubmitter, test::kSolver, test::kVerifier, test::kStranger}) {
    CHECK(growth(market, sealed(Deposit{test::key_id(who), 100'000, "first", test::ledger_id()},
                                test::kOperator)) == kAccount);
  }
  return market;
}

/// A market up to the opening. Once a verdict is there, both proof and verdict can be challenged.
Market opened() {
  Market market = funded();
  const TinyRun& run = cheat();
  CHECK(growth(market, any(run.task)) == kPosted);
  CHECK(growth(market, any(test::offer(run))) == kAccount);
  CHECK(growth(market, any(test::assignment(run))) == 7 * 8 * kKiB + kAccount + 2 * (kLong + kGame));
  for (const auto& statement : {any(run.proof), any(run.beacon), any(test::opening(run))})
    CHECK(growth(market, statement) == 0);
  return market;
}

std::size_t line_bytes(const Body& body) { return sealed(body, test::kSolver).envelope.size() + 1; }

}  // namespace

TEST_CASE("room is kept for a task from its posting to its settlement, and given back") {
  Market market = funded();
  const std::size_t before = market.reserved_bytes();
  CHECK(growth(market, any(cheat().task)) == kPosted);
  const auto due = market.due(test::policy().window_proof_ms + 1);
  REQUIRE(due.size() == 1);
  const auto settlement = sealed(due[0], test::kOperator);
  CHECK_FALSE(market.reserve_of(settlement).has_value());
  growth(market, settlement, test::policy().window_proof_ms + 1);
  CHECK(market.reserved_bytes() == before);
}

TEST_CASE("submitter and solver each have room for a game of their own, whoever filled the ledger") {
  Market market = opened();
  const TinyRun& run = cheat();
  const std::vector<std::int64_t> all{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  const auto verdict = test::verdict(run, all);
  CHECK_FALSE(market.reserve_of(any(verdict)).has_value());
  growth(market, any(verdict), 1);
  const auto by_stranger = sealed(test::challenge_of(run, 5), test::kStranger);
  CHECK(market.reserve_of(by_stranger) == kAccount + kGame);
  CHECK(growth(market, by_stranger, 2) == kAccount + kGame);
  const auto by_submitter = sealed(test::challenge_of(run, 5), test::kSubmitter);
  CHECK_FALSE(market.reserve_of(by_submitter).has_value());
  const auto by_solver = sealed(test::challenge_of(run, verdict), test::kSolver);
  CHECK_FALSE(market.reserve_of(by_solver).has_value());
  growth(market, by_submitter, 2);
  growth(market, by_solver, 2);
  CHECK(market.reserve_of(sealed(test::challenge_of(run, 4), test::kSubmitter)).has_value());
  // A decided game needs no more moves.
  const auto game = *as<Challenge>(by_stranger);
  const auto move = any(test::empty_move(game, 1, game.id, test::kSolver));
  CHECK_FALSE(market.reserve_of(move).has_value());
  CHECK(growth(market, move, 3) == -static_cast<std::ptrdiff_t>(kGame));
}

TEST_CASE("a withdrawal of all that an account has needs no room, a part does") {
  Market market = funded();
  const auto part = sealed(Withdrawal{test::key_id(5).hex(), 99'999, "w", test::ledger_id()}, 5);
  const auto all = sealed(Withdrawal{test::key_id(5).hex(), 100'000, "w", test::ledger_id()}, 5);
  CHECK(market.reserve_of(part) == 0);
  CHECK_FALSE(market.reserve_of(all).has_value());
  CHECK(growth(market, all) == -static_cast<std::ptrdiff_t>(kAccount));
}

TEST_CASE("a profile is taken of a task's parties, once each") {
  Market market = opened();
  Profile profile{cheat().task.id, {{"scalar", 1, 3, 30, 0, 9'000'000}}, 0.75, 1'000, 4'096, 12};
  CHECK(market.apply(sealed(profile, test::kStranger), 1).error().code == ErrorCode::kUnauthorised);
  for (const std::uint8_t who : {test::kSubmitter, test::kSolver, test::kVerifier})
    CHECK(market.apply(sealed(profile, who), 1).ok());
  profile.memory_bytes = 1;
  CHECK(market.apply(sealed(profile, test::kSolver), 1).error().code == ErrorCode::kNotAllowed);
}

TEST_CASE("no statement is longer than the room that is kept for it") {
  const Digest any_digest = test::digest("any");
  const std::string location(kMaxLocation, 'l');
  const VerdictRow row{kMaxStates, any_digest, test::digest("other"), false, RowReason::kNonFinite,
                       any_digest};
  const std::string chance = "1.23456e-" + std::string(23, '9');
  const Verdict verdict{any_digest,
                        any_digest,
                        any_digest,
                        Draw::kPolicy,
                        Outcome::kRefuted,
                        kMaxStates,
                        kMaxStates,
                        {any_digest, kMaxStates},
                        row,
                        kMost,
                        {chance, chance, chance},
                        any_digest};
  CHECK(line_bytes(verdict) <= 8 * kKiB);
  CHECK(line_bytes(Opening{any_digest, any_digest, any_digest, location}) <= 8 * kKiB);
  CHECK(line_bytes(Delivery{any_digest, any_digest, any_digest, location}) <= 8 * kKiB);
  CHECK(line_bytes(Withdrawal{any_digest.hex(), kMost, std::string(64, '"'), any_digest}) <= kAccount);
  for (const Body& body : test::bodies()) {
    const Kind kind = kind_of(body);
    const bool one_of_a_task =
        kind == Kind::kProof || kind == Kind::kBeacon || kind == Kind::kVerdictCommitment;
    if (one_of_a_task) CHECK(line_bytes(body) <= 4 * kKiB);
  }
  std::vector<Payout> payouts;
  for (int i = 0; i < 80; ++i) payouts.push_back({test::digest(std::to_string(i)).hex(), kMost});
  std::sort(payouts.begin(), payouts.end(),
            [](const Payout& a, const Payout& b) { return a.account < b.account; });
  CHECK(line_bytes(Settlement{any_digest, Reason::kNoAssignment, payouts}) <= 16 * kKiB);

  const Bytes numbers((kMaxNumbers + kMaxSingles) * 8, 255);
  const auto object = [](const Message& message) { return print_message(message); };
  CHECK(line_bytes(Move{any_digest, any_digest, kMaxTurn, any_digest, object(NumbersPost{numbers})}) <=
        32 * kKiB);
  const std::vector<Digest> listed(kMaxListed, any_digest);
  CHECK(line_bytes(Move{any_digest, any_digest, kMaxTurn, any_digest,
                        object(ValuesPost{any_digest, listed})}) <= 32 * kKiB);
  const OpenedLine line{kMost, std::vector<Digest>(kMaxPath, any_digest), std::string(3072, '\\')};
  CHECK(line_bytes(Move{any_digest, any_digest, kMaxTurn, any_digest, object(Name{kMost, line})}) <=
        32 * kKiB);
  const CommittedState state{any_digest, std::vector<Digest>(kMaxPath, any_digest)};
  CHECK(line_bytes(Challenge{any_digest,
                             any_digest,
                             {},
                             About::kChunk,
                             kMaxStates,
                             state,
                             {},
                             {},
                             ChunkReference{line, kMost}}) <= kLong);
}
