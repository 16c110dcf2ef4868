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

/// audited() in which errors are forced, too, with a bond for which a volunteer's guess does not pay.
manifest::Policy forced(std::int64_t audit_ppm, std::int64_t forced_error_ppm, std::int64_t jackpot) {
  manifest::Policy out = audited(audit_ppm);
  out.forced_error_ppm = forced_error_ppm;
  out.jackpot = jackpot;
  out.jackpot_tax_ppm += forced_error_ppm * jackpot / 1'000'000;
  out.challenger_bond = 1'000'000;
  out.verifier_bond = 1'000'000;
  out.solver_bond_ppm = 400'000;
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
                   group(AgentKind::kGuesser),
                   group(AgentKind::kHonest, 4),
                   group(AgentKind::kInsider),
                   group(AgentKind::kLazy),
                   group(AgentKind::kRobber, 20),
                   group(AgentKind::kSeller),
                   group(AgentKind::kSilent),
                   group(AgentKind::kSybil),
                   group(AgentKind::kVenal, 2),
                   group(AgentKind::kVolunteer, 5)};
  const Simulation one = played(forced(300'000, 300'000, 200'000), all, 1'500, 3, 1);
  const Simulation two = played(forced(300'000, 300'000, 200'000), all, 1'500, 3, 2);
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
  CHECK(row_of(one, AgentKind::kGuesser, Role::kVolunteer).mean < 0);
  CHECK(row_of(one, AgentKind::kSeller, Role::kVerifier).mean < 0);
  CHECK(row_of(one, AgentKind::kRobber, Role::kChallenger).mean > 0);
  CHECK(row_of(one, AgentKind::kInsider, Role::kVolunteer).times > 5);
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

TEST_CASE("errors are forced as often as they should be, and those who look are paid for them") {
  const Simulation out = played(forced(500'000, 200'000, 300'000), standard_agents(), 2'000, 2);
  CHECK(out.reasons == std::map<std::string, std::int64_t>{{"accepted", 2'000}});
  CHECK(*rate_of(out, "forced_error").expected == 0.2);
  CHECK(*rate_of(out, "forced_error").p > 0.01);
  // An auditor, alone with the error, has all of the jackpot; half of the tasks have one.
  const double claims = rate_of(out, "jackpot_whole").rate * 300'000 * 0.2;
  CHECK(is_between(100 + claims, row_of(out, AgentKind::kHonest, Role::kAuditor)));
  CHECK(out.jackpots_percent == Approx(0.5 * claims / 1e4).epsilon(0.15));
  CHECK(out.pool_least >= 0);
}

// An auditor who confirms unseen loses fee and bond with rho: form 2.
TEST_CASE("a lazy auditor breaks even at the bond that the closed form says") {
  manifest::Policy policy = forced(500'000, 400'000, 0);
  constexpr double kForced = 0.4, kReplay = 50'000, kFee = 50'100;
  const double break_even = kReplay / kForced - kFee;
  policy.verifier_bond_ppm = 0;
  policy.verifier_bond = std::llround(break_even);
  const Simulation out = played(policy, {group(AgentKind::kHonest, 6), group(AgentKind::kLazy, 6)}, 3'000, 2);
  CHECK(is_between(kFee - kForced * (kFee + break_even), row_of(out, AgentKind::kLazy, Role::kAuditor)));
  CHECK(rate_of(out, "unseen_audit_caught").low < kForced);
  CHECK(rate_of(out, "unseen_audit_caught").high > kForced);
}

// Above rho = q / (q + 1), here 1/2, an auditor who denies a row unseen is found less than one who confirms.
TEST_CASE("too many forced errors can be guessed") {
  manifest::Policy policy = forced(500'000, 800'000, 0);
  policy.sample_ppm = 10'000;
  const Simulation out = played(
      policy, {group(AgentKind::kGuesser), group(AgentKind::kHonest, 8), group(AgentKind::kLazy)}, 3'000, 2);
  CHECK(*rate_of(out, "guess_right").expected == 0.8);
  CHECK(*rate_of(out, "guess_right").p > 0.01);
  CHECK(rate_of(out, "guessed_audit_caught").high < rate_of(out, "unseen_audit_caught").low);
}

// Auditors who are saved gain nothing by not looking where the bond is what form 2 says of them.
TEST_CASE("an auditor whom the verifier saves breaks even at the bond that the closed form says") {
  manifest::Policy policy = forced(500'000, 200'000, 0);
  constexpr double kForced = 0.2, kReplay = 50'000, kFee = 50'100;
  const double break_even = 2 * kReplay / kForced - 4 * kFee;
  policy.verifier_bond_ppm = 0;
  policy.verifier_bond = std::llround(break_even);
  AgentGroup honest = group(AgentKind::kHonest);
  const AgentGroup venal = group(AgentKind::kVenal, 10);
  const Simulation out = played(policy, {honest, venal}, 4'000, 2);
  double gained = 0;
  for (const Earnings& row : out.earnings) gained += row.kind == AgentKind::kVenal ? row.total : 0;
  const double audits = static_cast<double>(row_of(out, AgentKind::kVenal, Role::kAuditor).times);
  const double verdicts = static_cast<double>(row_of(out, AgentKind::kVenal, Role::kVerifier).times);
  // One in ten verdicts that they audit is honest, and saves nobody, who then loses less at this bond. Of
  // each D_v / 2 the finders have all but 2^-9.
  const double alone = kReplay - kForced * (kFee + break_even);
  const double saved = kReplay - kForced * (2 * kFee + break_even / 2 * (1 + 0.5 / 256));
  const double expected = 100 * (verdicts + audits) + audits * (alone / 10 + saved * 9 / 10);
  const double spread = std::sqrt(audits * kForced * 0.8) * (kFee + break_even);
  CHECK(std::abs(gained - expected) < 4 * spread);
  CHECK(spread < 0.03 * audits * (kFee + break_even));
}

// Volunteers share with the error's maker, who is an insider here, so that one alone has half of a jackpot.
TEST_CASE("volunteers gain up to as many of them as the closed form says") {
  manifest::Policy policy = forced(0, 500'000, 60'000);  // rho J = 3 C_w, C_w = 10000
  policy.sample_ppm = 10'000;
  policy.jackpot_tax_ppm = 100'000;  // so that the pool does not cut what they are promised
  SimulateOptions options;
  options.tasks = 3'000;
  options.markets = 2;
  options.open = 10;
  options.seed = 1;
  double before = 1e9;
  for (const std::int64_t volunteers : {1, 6, 14}) {
    const Agents agents{group(AgentKind::kHonest), group(AgentKind::kInsider, 6),
                        group(AgentKind::kVolunteer, volunteers)};
    Progress progress;
    const auto out = simulate(policy, agents, options, {2, Clobber::kRefuse, {}, progress, kGoOn});
    REQUIRE(out.ok());
    CHECK(out->volunteers_paid_for == "8");
    // One in seven verdicts is an honest verifier's, who claims nothing: a volunteer's jackpot is twice as
    // much then.
    const double alone = 15'000 * std::pow(0.95, static_cast<double>(volunteers) - 1) * (6 + 2 * 1) / 7;
    const Earnings& row = row_of(*out, AgentKind::kVolunteer, Role::kVolunteer);
    CHECK(is_between(alone - 10'000, row));
    CHECK(row.mean < before);
    before = row.mean;
  }
}

TEST_CASE("who farms jackpots pays for them with the tax") {
  const Simulation out = played(forced(0, 500'000, 200'000),
                                {group(AgentKind::kFarmer, 2), group(AgentKind::kHonest, 2)}, 1'000, 2);
  double total = 0, tasks = 0;
  for (const Earnings& row : out.earnings) {
    if (row.kind != AgentKind::kFarmer) continue;
    total += row.total;
    if (row.role == Role::kSubmitter) tasks = static_cast<double>(row.times);
  }
  CHECK(tasks > 400);
  // Training costs them nothing; what they have beside it is the jackpot's, and less than the tax.
  CHECK(row_of(out, AgentKind::kFarmer, Role::kVolunteer).total > 0);
  CHECK(total < 0);
}

TEST_CASE("windows of a millisecond, and rounds that never come in time, end every task") {
  manifest::Policy hasty = audited(500'000);
  hasty.window_reveal_ms = 1;
  hasty.window_challenge_ms = 1;
  hasty.window_delivery_ms = 1;
  hasty.window_move_ms = 8;
  const Simulation out = played(hasty, {group(AgentKind::kHonest, 4), group(AgentKind::kGriefer)}, 200, 2);
  CHECK(out.reasons == std::map<std::string, std::int64_t>{{"unverified", 200}});
  hasty.forced_error_ppm = 500'000;
  hasty.window_reveal_ms = 700'000;
  CHECK(played(hasty,
               {group(AgentKind::kHonest, 4), group(AgentKind::kLazy, 4), group(AgentKind::kGuesser),
                group(AgentKind::kSeller), group(AgentKind::kRobber, 64)},
               400, 2)
            .tasks == 400);
  hasty.window_proof_ms = 1;
  CHECK(played(hasty, standard_agents(), 10, 1).reasons.at("no-assignment") == 10);
}
