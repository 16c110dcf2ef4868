#include "simulate/tally.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace dgx::jobs {
namespace {

/// The normal distribution's 97.5 % quantile.
constexpr double kNormal = 1.959963984540054;
constexpr double kMillion = 1e6;

std::optional<double> chance_of(std::int64_t times, std::int64_t hits, double expected) {
  if (times == 0 || expected <= 0 || expected >= 1) return std::nullopt;
  const auto n = static_cast<double>(times);
  const double difference = static_cast<double>(hits) - n * expected;
  return std::erfc(std::sqrt(difference * difference / (n * expected * (1 - expected)) / 2));
}

/// `tries` is not empty.
Rate rate_of(std::string name, const Tries& tries, std::optional<double> expected) {
  Rate out{std::move(name), tries.times, tries.hits, 0, 0, 1, expected, std::nullopt};
  const auto n = static_cast<double>(tries.times);
  const double rate = static_cast<double>(tries.hits) / n;
  const double square = kNormal * kNormal / n;
  const double middle = (rate + square / 2) / (1 + square);
  const double half = kNormal * std::sqrt(rate * (1 - rate) / n + square / n / 4) / (1 + square);
  out.rate = rate;
  out.low = std::max(0.0, middle - half);
  out.high = std::min(1.0, middle + half);
  if (expected) out.p = chance_of(tries.times, tries.hits, *expected);
  return out;
}

/// The chance that the draw has one of the cheats' faked segments, if all cheats fake alike.
std::optional<double> drawn_chance(const Plan& plan) {
  for (const AgentGroup& group : plan.agents) {
    if (group.kind != AgentKind::kCheat) continue;
    double missed = 1;
    const std::int64_t faked = plan.faked(group);
    for (std::int64_t i = 0; i < plan.drawn; ++i) {
      missed *= std::max(0.0, static_cast<double>(plan.segments - faked - i)) /
                static_cast<double>(plan.segments - i);
    }
    return 1 - missed;
  }
  return std::nullopt;
}

}  // namespace

void Moments::add(std::int64_t number) {
  ++times;
  sum += number;
  squares += static_cast<__int128>(number) * number;
}

void Moments::add(const Moments& other) {
  times += other.times;
  sum += other.sum;
  squares += other.squares;
}

void Tally::add(const Tally& other) {
  for (std::size_t kind = 0; kind < kAgentKinds; ++kind) {
    for (std::size_t role = 0; role < kRoles; ++role) gains[kind][role].add(other.gains[kind][role]);
  }
  for (std::size_t what = 0; what < kCounted; ++what) tries[what].add(other.tries[what]);
  for (const auto& [kind, drawn] : other.first_drawn) first_drawn[kind].add(drawn);
  for (const auto& [reason, count] : other.reasons) reasons[reason] += count;
  statements += other.statements;
  paid += other.paid;
  paid_by_submitters += other.paid_by_submitters;
  paid_to_auditors += other.paid_to_auditors;
  paid_to_claimants += other.paid_to_claimants;
  if (other.pool_least >= 0 && (pool_least < 0 || other.pool_least < pool_least))
    pool_least = other.pool_least;
}

std::vector<Earnings> earnings_of(const Tally& tally) {
  std::vector<Earnings> out;
  for (std::size_t kind = 0; kind < kAgentKinds; ++kind) {
    for (std::size_t role = 0; role < kRoles; ++role) {
      const Moments& gains = tally.gains[kind][role];
      if (gains.times == 0) continue;
      const auto n = static_cast<double>(gains.times);
      const auto sum = static_cast<double>(gains.sum);
      const double mean = sum / n;
      const auto exact = static_cast<long double>(gains.sum);
      const long double spread = static_cast<long double>(gains.squares) - exact * exact / gains.times;
      const double variance = gains.times > 1 ? static_cast<double>(spread / (gains.times - 1)) : 0;
      const double half = kNormal * std::sqrt(std::max(0.0, variance) / n);
      out.push_back({static_cast<AgentKind>(kind), static_cast<Role>(role), gains.times, mean, mean - half,
                     mean + half, sum});
    }
  }
  return out;
}

std::vector<Rate> rates_of(const Plan& plan, const People& people, const Tally& tally) {
  const auto tries = [&](Counted what) { return tally.tries[static_cast<std::size_t>(what)]; };
  std::vector<Rate> out;
  const auto add = [&](std::string name, const Tries& of, std::optional<double> expected = std::nullopt) {
    if (of.times > 0) out.push_back(rate_of(std::move(name), of, expected));
  };
  add("audit", tries(Counted::kAudit), static_cast<double>(plan.policy.audit_ppm) / kMillion);
  add("auditor_paid_for", tries(Counted::kAuditor));
  add("false_proof_drawn", tries(Counted::kFalseDrawn), drawn_chance(plan));
  add("false_proof_caught", tries(Counted::kFalseCaught));
  add("unseen_verdict_audited", tries(Counted::kUnseenAudited));
  add("unseen_verdict_caught", tries(Counted::kUnseenCaught));
  const double forced = static_cast<double>(plan.policy.forced_error_ppm) / kMillion;
  add("forced_error", tries(Counted::kForced), forced);
  add("jackpot_whole", tries(Counted::kJackpot));
  add("guess_right", tries(Counted::kGuess), forced / static_cast<double>(plan.drawn));
  add("unseen_audit_caught", tries(Counted::kUnseenAudit));
  add("guessed_audit_caught", tries(Counted::kGuessedAudit));
  double bonds = 0;
  std::map<AgentKind, double> staked;
  for (const std::size_t verifier : people.verifiers) {
    const Person& person = people.all[verifier];
    bonds += static_cast<double>(person.bond);
    staked[person.kind] += static_cast<double>(person.bond);
  }
  for (const auto& [kind, drawn] : tally.first_drawn) {
    // A farmer's offers differ from task to task.
    const bool fixed = people.farm_verifiers.empty() && bonds > 0 && staked.size() > 1;
    add(fmt::format("verifier_{}", name_of(kind)), drawn,
        fixed ? std::optional(staked[kind] / bonds) : std::nullopt);
  }
  return out;
}

}  // namespace dgx::jobs
