#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "dgx/core/bytes.h"
#include "dgx/core/result.h"
#include "dgx/manifest/policy.h"
#include "dgx/manifest/round.h"
#include "dgx/merkle/tree.h"

/// Rounds: public values that nobody knew while the entries of a slot were logged (dgx-protocol(7),
/// "ROUNDS").
///
/// A slot is a stretch of receipt time. Its round is made of the ledger's head after its last entry, by a
/// delay or by a network that nobody here runs, and everything that is drawn for a statement is drawn by the
/// round of the slot in which it was logged. So whoever would like another draw has to know a value before
/// the slot ends that cannot be known before.
///
/// This module decides, purely, which rounds are right: slots of a market, the number of a pulse, the
/// intervals of a delay. Computing and checking delays, which takes long, is for jobs.
namespace dgx::protocol {

/// The slot of an entry whose receipt says `milliseconds`.
[[nodiscard]] std::int64_t slot_of(std::int64_t milliseconds, const manifest::Policy& policy);
/// The time at which a slot ends, in receipt milliseconds: that of the next slot's first.
[[nodiscard]] std::int64_t end_of_slot(std::int64_t slot, const manifest::Policy& policy);

/// The number of the pulse of drand's network quicknet that is a slot's: the first one at or after the time
/// one slot later than the slot's end, since its operator could otherwise see it and still date an entry into
/// the slot. 1 before the network began.
[[nodiscard]] std::int64_t pulse_number(std::int64_t slot, const manifest::Policy& policy);
/// The time of a pulse in Unix milliseconds; quicknet has one every three seconds.
[[nodiscard]] std::int64_t pulse_milliseconds(std::int64_t number);

/// Steps of a delay that a core with SHA instructions computes in a millisecond.
inline constexpr std::int64_t kDelayStepsPerMillisecond = 12'700;

/// The receipt time from which a slot's round can be known: that of its pulse, or the slot's end and the time
/// that the delay takes at kDelayStepsPerMillisecond.
[[nodiscard]] std::int64_t known_from(std::int64_t slot, const manifest::Policy& policy);

/// The part of a delay between two checkpoints, which can be checked without the others.
struct DelayInterval {
  Digest from;
  Digest to;
  std::int64_t first = 0;  ///< number of steps before it
  std::int64_t steps = 0;
};
/// The intervals of a round's delay, in order; the first begins at its delay_start().
[[nodiscard]] std::vector<DelayInterval> intervals_of(const manifest::Round& round,
                                                      const manifest::DelayChain& chain);

/// A slot in which something was logged.
struct SlotRecord {
  manifest::RootReference head;  ///< the ledger's after its last entry, once there is one of a later slot
  std::optional<Digest> round;   ///< id of its round
};

/// The slots of a market with rounds, and the tree of its entries, which gives their heads. A market without
/// rounds keeps none.
struct Slots {
  merkle::TreeBuilder tree;
  std::map<std::int64_t, SlotRecord> all;  ///< by number; only those with entries

  /// Adds the next entry. Cost: of the first of a slot, logarithmic in the entries; else constant on average.
  void add(const Digest& statement, std::int64_t milliseconds, const manifest::Policy& policy);
  /// The ledger's head after the last entry so far of a slot, in which there is one: asserted. Cost: of the
  /// last slot, logarithmic in the entries.
  [[nodiscard]] manifest::RootReference head_of(std::int64_t slot) const;
};

/// kMalformed unless a round's origin is the one that the policy asks of its slot: the source, and the number
/// of steps or of the pulse.
[[nodiscard]] Status check_origin(const manifest::Round& round, const manifest::Policy& policy);

}  // namespace dgx::protocol
