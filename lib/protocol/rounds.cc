#include "dgx/protocol/rounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <iterator>

#include "dgx/merkle/digests.h"

namespace dgx::protocol {
namespace {

// drand's network quicknet, of the chain 52db9ba70e0cc0f6eaf7803dd07447a1f5477735fd3f661792ba94600c84e971.
constexpr std::int64_t kGenesisMs = 1'692'803'367'000;
constexpr std::int64_t kPeriodMs = 3'000;

}  // namespace

std::int64_t slot_of(std::int64_t milliseconds, const manifest::Policy& policy) {
  return milliseconds / policy.beacon_slot_ms;
}

std::int64_t end_of_slot(std::int64_t slot, const manifest::Policy& policy) {
  return (slot + 1) * policy.beacon_slot_ms;
}

std::int64_t pulse_number(std::int64_t slot, const manifest::Policy& policy) {
  const std::int64_t wanted = end_of_slot(slot + 1, policy);
  return 1 + std::max<std::int64_t>(0, wanted - kGenesisMs + kPeriodMs - 1) / kPeriodMs;
}

std::int64_t pulse_milliseconds(std::int64_t number) { return kGenesisMs + (number - 1) * kPeriodMs; }

std::int64_t known_from(std::int64_t slot, const manifest::Policy& policy) {
  if (policy.beacon_source == static_cast<std::int64_t>(manifest::RoundSource::kDrand))
    return pulse_milliseconds(pulse_number(slot, policy));
  return end_of_slot(slot, policy) + policy.beacon_steps / kDelayStepsPerMillisecond;
}

std::vector<DelayInterval> intervals_of(const manifest::Round& round, const manifest::DelayChain& chain) {
  const std::int64_t each = manifest::delay_interval(chain.steps);
  std::vector<DelayInterval> out;
  Digest from = manifest::delay_start(round.ledger, round.slot, round.head);
  std::int64_t first = 0;
  for (const Digest& to : chain.checkpoints) {
    const std::int64_t steps = std::min(each, chain.steps - first);
    out.push_back({from, to, first, steps});
    from = to;
    first += steps;
  }
  return out;
}

void Slots::add(const Digest& statement, std::int64_t milliseconds, const manifest::Policy& policy) {
  const std::int64_t slot = slot_of(milliseconds, policy);
  if (!all.empty() && slot != all.rbegin()->first) all.rbegin()->second.head = head_of(all.rbegin()->first);
  all.try_emplace(all.end(), slot);
  tree.add_hash(merkle::ledger_leaf(statement, static_cast<std::uint64_t>(milliseconds)));
}

manifest::RootReference Slots::head_of(std::int64_t slot) const {
  const auto found = all.find(slot);
  assert(found != all.end());
  if (found != std::prev(all.end())) return found->second.head;
  return {tree.root(), static_cast<std::int64_t>(tree.size())};
}

Status check_origin(const manifest::Round& round, const manifest::Policy& policy) {
  if (static_cast<std::int64_t>(round.source()) != policy.beacon_source)
    return malformed(fmt::format("source: is {}, the market's is another", name_of(round.source())));
  if (const auto* chain = std::get_if<manifest::DelayChain>(&round.origin)) {
    if (chain->steps == policy.beacon_steps) return {};
    return malformed(fmt::format("steps: are {}, the policy asks for {}", chain->steps, policy.beacon_steps));
  }
  const std::int64_t number = std::get<manifest::DrandPulse>(round.origin).number;
  const std::int64_t wanted = pulse_number(round.slot, policy);
  if (number == wanted) return {};
  return malformed(fmt::format("number: is {}, slot {} has pulse {}", number, round.slot, wanted));
}

}  // namespace dgx::protocol
