// The payments of every outcome: tests/vectors/money.json, derived from dgx-money(7) by a second
// implementation.
#include <array>
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "dgx/protocol/payouts.h"
#include "json_vectors.h"
#include "statements.h"

using namespace dgx;
using namespace dgx::manifest;
using namespace dgx::protocol;

namespace {

constexpr std::string_view kAuditOf = "audit of ";

std::string text(const json::Value& value) { return *value.as_string(); }

Reason reason_named(const std::string& name) {
  for (const Reason reason :
       {Reason::kAccepted, Reason::kRefuted, Reason::kUnverified, Reason::kNoAssignment, Reason::kNoProof,
        Reason::kNoDelivery, Reason::kConvicted, Reason::kOverturned}) {
    if (name_of(reason) == name) return reason;
  }
  FAIL("no outcome is called " << name);
  return {};
}

GameResult result_named(const std::string& name) {
  for (const GameResult result : {GameResult::kFalls, GameResult::kStands, GameResult::kReturned}) {
    if (name_of(result) == name) return result;
  }
  FAIL("no game ends in " << name);
  return {};
}

Policy policy_of(const json::Value& one) {
  Policy out = test::policy();
  for (const auto& [key, value] : *test::member(one, "policy").as_object()) {
    const PolicyKey* found = nullptr;
    for (const PolicyKey& known : policy_keys()) {
      if (known.name == key) found = &known;
    }
    REQUIRE(found != nullptr);
    out.*found->member = *value.as_int();
  }
  return out;
}

Task task_of(const json::Value& one) {
  Task out;
  out.policy = policy_of(one);
  const json::Value& estimate = test::member(one, "estimate");
  Estimate& e = out.estimate;
  e.reward = test::integer(estimate, "reward");
  e.fee = test::integer(estimate, "fee");
  e.tax = test::integer(estimate, "tax");
  e.treasury = test::integer(estimate, "treasury");
  e.margin = test::integer(estimate, "margin");
  e.escrow = e.reward + e.fee + e.tax + e.treasury + e.margin;
  return out;
}

Stakes stakes_of(const json::Value& one, Reason reason) {
  Stakes out;
  out.submitter = "submitter";
  if (reason != Reason::kNoAssignment) {
    out.solver = "solver";
    out.verifier_bond = test::integer(one, "verifier_bond");
    out.silent_bonds = test::integer(one, "silent_bonds");
    const bool has_verifier = out.verifier_bond > 0 || *test::member(one, "drawn").as_bool() ||
                              *test::member(one, "named").as_bool();
    out.verifier = has_verifier ? "verifier" : "";
  }
  out.proved = *test::member(one, "proved").as_bool();
  out.drawn = *test::member(one, "drawn").as_bool();
  out.refuted = *test::member(one, "refuted").as_bool();
  const json::Value& earned = test::member(one, "earned");
  out.earned.reward = test::integer(earned, "reward");
  out.earned.tax = test::integer(earned, "tax");
  out.earned.treasury = test::integer(earned, "treasury");
  if (one.as_object()->contains("fee")) out.fee = test::integer(one, "fee");
  for (const json::Value& row : *test::member(one, "games").as_array()) {
    const json::Array& game = *row.as_array();
    const std::string about = text(game.at(1));
    const bool of_audit = about.starts_with(kAuditOf);
    out.games.push_back({text(game.at(0)),
                         of_audit           ? Challenged::kAudit
                         : about == "proof" ? Challenged::kProof
                                            : Challenged::kVerdict,
                         result_named(text(game.at(2))), *game.at(3).as_int(),
                         of_audit ? about.substr(kAuditOf.size()) : ""});
  }
  out.audit_fee = test::integer(one, "audit_fee");
  out.audit_fee_of_task = test::integer(one, "audit_fee_of_task");
  for (const json::Value& row : *test::member(one, "rechecks").as_array()) {
    const auto is = [&](const char* key) { return *test::member(row, key).as_bool(); };
    out.rechecks.push_back({text(test::member(row, "who")), test::integer(row, "bond"), is("drawn"),
                            is("shown"), is("refutes"), is("denies"), is("denies_more"), is("early"),
                            is("found"), is("overlooked"), is("claims"), is("confirmed_forced"),
                            is("after_secret")});
  }
  out.jackpot = test::integer(one, "jackpot");
  const std::string secret = text(test::member(one, "secret"));
  if (secret == "given away") out.revealed_by = "robber";
  out.secret = secret == "kept"         ? SecretFate::kKept
               : secret == "given away" ? SecretFate::kGivenAway
                                        : SecretFate::kWithheld;
  return out;
}

}  // namespace

TEST_CASE("every outcome pays what Python derives from the page") {
  const json::Value vectors = test::read_vectors(DGX_VECTORS "/money.json");
  std::set<Reason> seen;
  for (const json::Value& one : *test::member(vectors, "cases").as_array()) {
    CAPTURE(text(test::member(one, "name")), one.dump());
    const Reason reason = reason_named(text(test::member(one, "reason")));
    seen.insert(reason);
    std::map<std::string, std::int64_t> paid, expected;
    for (const Payout& payout : payouts(task_of(one), reason, stakes_of(one, reason)))
      paid[payout.account] = payout.amount;
    for (const auto& [account, amount] : *test::member(one, "payouts").as_object())
      expected[account] = *amount.as_int();
    REQUIRE(paid == expected);
  }
  CHECK(seen.size() == 8);
}

TEST_CASE("jackpots are what Python derives from the page") {
  const json::Value vectors = test::read_vectors(DGX_VECTORS "/money.json");
  for (const json::Value& one : *test::member(vectors, "jackpots").as_array()) {
    CAPTURE(one.dump());
    Task task;
    task.policy = policy_of(one);
    Estimate earned;
    earned.fee = test::integer(one, "fee");
    earned.tax = test::integer(one, "tax");
    CHECK(jackpot_of(task, earned, test::integer(one, "replayed"), test::integer(one, "pool")) ==
          test::integer(one, "sum"));
  }
}
