#include "simulate/world.h"

#include <fmt/format.h>

#include <algorithm>

#include "dgx/manifest/round.h"
#include "dgx/protocol/rounds.h"

namespace dgx::jobs {
namespace {

/// The stream of what belongs to no task.
constexpr std::uint64_t kOwn = ~std::uint64_t{0};
/// 2025-01-01, when drand's network had begun.
constexpr std::int64_t kBegin = 1'735'689'600'000;

}  // namespace

World::World(const Plan& plan, std::int64_t market)
    : plan_(plan), own_(plan.seed, static_cast<std::uint64_t>(market), kOwn), now_(kBegin), last_(kBegin) {
  ledger_ = own_.digest();
  operator_ = own_.digest();
}

Status World::begin() { return say(manifest::LedgerPolicy{plan_.policy, own_.digest()}, operator_, ledger_); }

Status World::log(const manifest::Signed<manifest::Body>& statement) {
  ++statements_;
  last_ = now_;
  return market_.apply(statement, now_);
}

Status World::fund(const Person& person, std::int64_t amount) {
  const std::int64_t has = market_.balance(person.account);
  if (has >= amount) return {};
  const __int128 wanted = static_cast<__int128>(amount) * (1 + plan_.open) - has;
  constexpr __int128 kMost = std::int64_t{1} << 53;
  const auto deposit = static_cast<std::int64_t>(std::min(wanted, kMost));
  Status status =
      say(manifest::Deposit{person.key, deposit, fmt::format("{}", ++deposits_), ledger_}, operator_);
  if (status.ok()) return {};
  Error error = std::move(status).error();
  error.hint = "let the bonds be smaller, or fewer tasks be open at a time";
  return error;
}

Status World::advance(std::int64_t milliseconds) {
  const std::int64_t gap = 2 * protocol::heartbeat_ms(plan_.policy);
  while (milliseconds - last_ > gap) {
    now_ = last_ + gap;
    DGX_CHECK(say(manifest::TreeHead{ledger_, {}, now_, false}, operator_));
  }
  now_ = milliseconds;
  return {};
}

Status World::log_round(std::int64_t slot) {
  manifest::Round round{ledger_, slot, market_.slots().head_of(slot), {}, own_.digest()};
  if (plan_.policy.beacon_source == static_cast<std::int64_t>(manifest::RoundSource::kDelay)) {
    round.origin = manifest::DelayChain{plan_.policy.beacon_steps, {}};
  } else {
    round.origin = manifest::DrandPulse{protocol::pulse_number(slot, plan_.policy), {}};
  }
  return say(std::move(round), operator_);
}

}  // namespace dgx::jobs
