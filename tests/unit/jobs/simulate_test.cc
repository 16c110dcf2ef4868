// Simulated markets: what people gain in them is what the closed forms of dgx-money(7) say.
#include "dgx/jobs/simulate.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "dgx/core/progress.h"
#include "dgx/core/stop.h"

using namespace dgx;
using namespace dgx::jobs;

namespace {

const StopFlag kGoOn;

Simulation played(const manifest::Policy& policy, const Agents& agents, std::int64_t tasks,
                  std::int64_t markets = 10, int threads = 2) {
  SimulateOptions options;
  options.tasks = tasks;
  options.markets = markets;
  options.seed = 1;
  options.picture = true;
  Progress progress;
  auto out = simulate(policy, agents, options, {threads, Clobber::kRefuse, {}, progress, kGoOn});
  INFO((out.ok() ? "" : out.error().message));
  REQUIRE(out.ok());
  return *std::move(out);
}

std::string refused(const manifest::Policy& policy, const Agents& agents, SimulateOptions options = {}) {
  Progress progress;
  if (options.tasks == 0) options.tasks = 10;
  const auto out = simulate(policy, agents, options, {1, Clobber::kRefuse, {}, progress, kGoOn});
  return out.ok() ? "accepted" : out.error().message;
}

/// A market with rounds that audits a part of the verdicts, and whose tax pays for it.
manifest::Policy audited(std::int64_t audit_ppm) {
  manifest::Policy out = manifest::standard_policy();
  out.beacon_source = 1;
  out.audit_ppm = audit_ppm;
  out.jackpot_tax_ppm = 2'000 + audit_ppm * 51 / 1'000;
  out.unsafe_bonds = 1;
  return out;
}

AgentGroup group(AgentKind kind, std::int64_t count = 1) {
  AgentGroup out;
  out.kind = kind;
  out.count = count;
  return out;
}
AgentGroup colluders(std::int64_t share_ppm) {
  AgentGroup out = group(AgentKind::kColluder);
  out.share_ppm = share_ppm;
  return out;
}
AgentGroup cheats(std::int64_t false_ppm) {
  AgentGroup out = group(AgentKind::kCheat);
  out.false_ppm = false_ppm;
  return out;
}

const Earnings& row_of(const Simulation& simulation, AgentKind kind, Role role) {
  const auto& rows = simulation.earnings;
  const auto found = std::find_if(rows.begin(), rows.end(),
                                  [&](const Earnings& row) { return row.kind == kind && row.role == role; });
  REQUIRE(found != rows.end());
  return *found;
}
const Rate& rate_of(const Simulation& simulation, std::string_view name) {
  const auto& rows = simulation.rates;
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const Rate& row) { return row.name == name; });
  REQUIRE(found != rows.end());
  return *found;
}
bool is_between(double number, const Earnings& row) {
  const double more = (row.high - row.low) / 2;  // four standard errors in all
  return number >= row.low - more && number <= row.high + more;
}

}  // namespace

TEST_CASE("honest people gain what the policy pays them, and no bond is lost") {
  const Simulation out = played(audited(300'000), standard_agents(), 1'000);
  CHECK(out.tasks == 1'000);
  CHECK(out.reasons == std::map<std::string, std::int64_t>{{"accepted", 1'000}});
  const Earnings& solver = row_of(out, AgentKind::kHonest, Role::kSolver);
  CHECK(solver.times == 1'000);
  CHECK(solver.mean == 0);  // R = C
  CHECK(solver.high == 0);
  CHECK(row_of(out, AgentKind::kHonest, Role::kVerifier).mean == 100);  // verifier_fee
  CHECK(row_of(out, AgentKind::kHonest, Role::kAuditor).mean == 100);
  CHECK(out.overhead_percent > 0);
}

TEST_CASE("a market without rounds is played, too") {
  const Simulation out =
      played(manifest::standard_policy(), {group(AgentKind::kHonest, 3), group(AgentKind::kSilent)}, 1'000);
  CHECK(out.reasons.size() == 2);
  CHECK(out.reasons.at("unverified") > 200);
  CHECK(row_of(out, AgentKind::kSilent, Role::kVerifier).mean == -110'000);
  // No cheat with an accomplice is caught where solvers name their verifiers.
  manifest::Policy unsafe = manifest::standard_policy();
  const Simulation cheated =
      played(unsafe, {group(AgentKind::kHonest, 3), cheats(1'000'000), colluders(250'000)}, 400);
  CHECK(rate_of(cheated, "false_proof_caught").hits == 0);
  CHECK(row_of(cheated, AgentKind::kCheat, Role::kSolver).mean == 1'000'000);
}

TEST_CASE("the outcome depends on seed and markets, not on threads") {
  const Agents all{group(AgentKind::kAccomplice),
                   cheats(200'000),
                   colluders(200'000),
                   group(AgentKind::kCopier),
                   group(AgentKind::kFarmer),
                   group(AgentKind::kGriefer),
                   group(AgentKind::kHonest, 4),
                   group(AgentKind::kLazy),
                   group(AgentKind::kSilent),
                   group(AgentKind::kSybil),
                   group(AgentKind::kVolunteer, 5)};
  const Simulation one = played(audited(300'000), all, 1'500, 3, 1);
  const Simulation two = played(audited(300'000), all, 1'500, 3, 2);
  CHECK(one.svg == two.svg);
  CHECK(one.statements == two.statements);
  REQUIRE(one.earnings.size() == two.earnings.size());
  for (std::size_t n = 0; n < one.earnings.size(); ++n) {
    CHECK(one.earnings[n].total == two.earnings[n].total);
    CHECK(one.earnings[n].low == two.earnings[n].low);
  }
  // Every kind has acted, and nobody who lies or idles gains by it.
  CHECK(row_of(one, AgentKind::kGriefer, Role::kChallenger).mean < 0);
  CHECK(row_of(one, AgentKind::kFarmer, Role::kSubmitter).times > 50);
  CHECK(row_of(one, AgentKind::kSilent, Role::kVerifier).mean < 0);
  CHECK(row_of(one, AgentKind::kAccomplice, Role::kVerifier).mean < 0);
  CHECK(row_of(one, AgentKind::kVolunteer, Role::kVolunteer).times > 20);
  CHECK(row_of(one, AgentKind::kCopier, Role::kChallenger).times > 5);
  CHECK(one.pool_least >= 0);
}

TEST_CASE("lots hit as often as they should, and bonds draw by their sizes") {
  AgentGroup rich = group(AgentKind::kLazy);
  rich.bond = 1'000'000;
  const Simulation out = played(audited(100'000), {group(AgentKind::kHonest, 4), rich}, 8'000, 4);
  CHECK(*rate_of(out, "audit").p > 0.01);
  CHECK(*rate_of(out, "verifier_lazy").p > 0.01);
  CHECK(*rate_of(out, "verifier_lazy").expected == Approx(1'000'000.0 / 1'440'000));
  CHECK(out.pool_least >= 0);
}

// With R = C, one who fakes everything gains (1 - p) C - p D_s if caught with p: form 1. An accomplice does
// not audit their own verdict, so the others' share of the other bonds is a little more than 1 - alpha.
TEST_CASE("a cheat with accomplices breaks even at the bond that the closed form says") {
  manifest::Policy policy = audited(250'000);
  constexpr double kAlpha = 0.4, kAudits = 0.25, kAccomplices = 16;
  const double form = 1e6 / ((1 - kAlpha) * (1 + kAlpha * kAudits)) - 1e6;
  const double p = (1 - kAlpha) * (1 + kAlpha * kAudits / (1 - kAlpha / kAccomplices));
  const double break_even = 1e6 / p - 1e6;
  CHECK(std::abs(break_even - form) < 0.01 * form);
  policy.solver_bond_ppm = 0;
  policy.solver_bond = std::llround(break_even);
  AgentGroup honest = group(AgentKind::kHonest, 2);
  honest.bond = 20 * 110'000;
  AgentGroup faking = cheats(1'000'000);
  faking.count = 62;
  AgentGroup accomplices = colluders(400'000);
  accomplices.count = static_cast<std::int64_t>(kAccomplices);
  const Simulation out = played(policy, {honest, faking, accomplices}, 16'000, 4);
  const Rate& caught = rate_of(out, "false_proof_caught");
  CHECK(caught.low < p);
  CHECK(caught.high > p);
  CHECK(std::abs(1e6 / caught.rate - 1e6 - form) < 0.04 * form);
  CHECK(is_between(0, row_of(out, AgentKind::kCheat, Role::kSolver)));
}

// A lazy one gains the fee, and loses it and the bond with c (1 - alpha): form 2.
TEST_CASE("a lazy verifier breaks even at the bond that the closed form says") {
  manifest::Policy policy = audited(200'000);
  constexpr double kAudits = 0.2, kAlpha = 0.25, kReplay = 50'000, kFee = 50'100;
  const double break_even = kReplay / (kAudits * (1 - kAlpha)) - kFee;
  policy.verifier_bond_ppm = 0;
  policy.verifier_bond = std::llround(break_even);
  // One sybil's two keys of eight: an audit by the other does not find the first.
  const Simulation out = played(policy, {group(AgentKind::kHonest, 6), group(AgentKind::kSybil)}, 12'000, 4);
  const Earnings& lazy = row_of(out, AgentKind::kSybil, Role::kVerifier);
  // One of the seven others who may audit is lazy, too.
  const double caught = kAudits * 6 / 7;
  CHECK(is_between(kFee - caught * (kFee + break_even), lazy));
  CHECK(lazy.mean < row_of(out, AgentKind::kHonest, Role::kVerifier).mean);
}

TEST_CASE("the jackpot account neither grows nor shrinks where the tax is what audits cost") {
  manifest::Policy policy = audited(200'000);
  policy.jackpot_tax_ppm = 10'020;  // c fee = 10020
  const Simulation out = played(policy, standard_agents(), 8'000, 20);
  // All are paid for: what the account lacks of a fee the margin pays. 8,000 tasks have 1,600 audits or so.
  CHECK(rate_of(out, "auditor_paid_for").rate == 1);
  CHECK(std::abs(out.audits_percent / 1.002 - 1) < 4 * std::sqrt(0.8 / 1600));
  CHECK(out.pool_least >= 0);
  // A step is +10020 or -40080, so its spread is 20040 a task; a market has 400, and the first 100 pay in
  // before all that they promise auditors is there.
  CHECK(out.pool.back().mean < 4 * 20'040 * std::sqrt(400.0 / 20) + 100 * 10'020);
}

TEST_CASE("people and policies that make no market are refused") {
  const manifest::Policy rounds = audited(0);
  CHECK(refused(rounds, {group(AgentKind::kLazy)}) == "agents: nobody solves");
  CHECK(refused(rounds, {group(AgentKind::kCheat)}) == "agents: nobody verifies");
  CHECK(refused(rounds, {group(AgentKind::kHonest, 64), group(AgentKind::kLazy)}) ==
        "agents: 65 keys offer to verify, at most 64 can");
  AgentGroup poor = group(AgentKind::kHonest);
  poor.bond = 5;
  CHECK(refused(rounds, {poor}) == "agents: honest: bond: is 5, must be at least 110000");
  CHECK(refused(manifest::standard_policy(), {poor}) ==
        "agents: honest: bond: without rounds every verifier stakes the policy's");
  CHECK(refused(rounds, {group(AgentKind::kHonest), colluders(1)}) ==
        "agents: colluder: each would stake 1, a verifier's bond is 110000");
  AgentGroup rich = group(AgentKind::kHonest, 64);
  rich.bond = std::int64_t{1} << 43;
  CHECK(refused(rounds, {rich}).find("deposits exceed 2^53") != std::string::npos);
  manifest::Policy forced = rounds;
  forced.forced_error_ppm = 1;
  CHECK(refused(forced, standard_agents()) ==
        "policy: forced_error_ppm: errors are not forced in this version, nor simulated");
  manifest::Policy small = rounds;
  small.segment_operations = 1;
  CHECK(refused(small, standard_agents()).starts_with("policy: the simulated task: "));
  SimulateOptions many;
  many.tasks = 10;
  many.markets = 11;
  CHECK(refused(rounds, standard_agents(), many) == "--markets: is 11, must be 1 to 10");
  many.markets = 1;
  many.open = 0;
  CHECK(refused(rounds, standard_agents(), many) == "--open: is 0, must be 1 to 10000");
}

TEST_CASE("windows of a millisecond, and rounds that never come in time, end every task") {
  manifest::Policy hasty = audited(500'000);
  hasty.window_reveal_ms = 1;
  hasty.window_challenge_ms = 1;
  hasty.window_delivery_ms = 1;
  hasty.window_move_ms = 8;
  const Simulation out = played(hasty, {group(AgentKind::kHonest, 4), group(AgentKind::kGriefer)}, 200, 2);
  CHECK(out.reasons == std::map<std::string, std::int64_t>{{"unverified", 200}});
  hasty.window_proof_ms = 1;
  CHECK(played(hasty, standard_agents(), 10, 1).reasons.at("no-assignment") == 10);
}
