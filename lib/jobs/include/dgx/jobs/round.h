#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dgx/core/job_context.h"
#include "dgx/jobs/settle.h"

/// The rounds of a ledger (dgx-protocol(7), "ROUNDS"): their computing, import, logging and checking.
namespace dgx::jobs {

/// dgx-settle round (dgx-settle(1)).
struct RoundOptions {
  LedgerWriter writer;
  std::optional<std::string> pulse;  ///< a pulse of drand, in a market whose source that is
  bool until_logged = false;         ///< also of slots that are not over: wait for their ends
  std::string output;                ///< the new rounds, one a line; empty: none
};

/// A slot whose round is still to come.
struct AwaitedRound {
  std::int64_t slot = 0;
  std::int64_t ends_ms = 0;            ///< in receipt time
  std::optional<std::int64_t> number;  ///< of drand's pulse
};

struct RoundsResult {
  std::vector<Logged> logged;
  manifest::RootReference head;
  std::vector<AwaitedRound> awaited;  ///< over or not, ascending
  /// The milliseconds since the first awaited slot ended, at the call's end; 0 if none has ended.
  std::int64_t behind_ms = 0;
  std::int64_t steps = 0;       ///< computed by this call
  double steps_per_second = 0;  ///< of one thread; 0 if nothing was computed
};

/// Makes the rounds of all slots that are over and that something in the ledger waits for, and logs each as
/// soon as it is there. With `until_logged` it goes on until nothing waits for a round.
///
/// Delays are computed on context.threads threads, one each: a delay by itself cannot be made faster. How far
/// each has come is kept in LEDGER.rounds, so that a call that was stopped or killed is continued by the
/// next. A pulse is imported for the slots whose number it has: it is checked by number and hash, and its
/// signature is kept without being verified. A ledger that is a stranger's is refused before anything is
/// computed.
///
/// kUsage in a market without rounds, or if a pulse is given where a delay is asked for, or `until_logged`
/// where rounds are pulses; kMalformed for what is no pulse of quicknet, or one for which no slot waits;
/// kLocked if another call is computing; kInterrupted if context.stop was set, after saving how far it came;
/// errors of append_statements().
[[nodiscard]] Result<RoundsResult> log_rounds(const RoundOptions& options, const JobContext& context);

/// The rounds that check_rounds() looked at.
struct RoundsCheck {
  std::int64_t delays = 0;
  std::int64_t intervals = 0;  ///< recomputed
  std::int64_t steps = 0;      ///< recomputed
  std::int64_t pulses = 0;     ///< their signatures are kept, not verified
  std::vector<std::string> faults;
};
/// Recomputes the delays of a ledger's rounds on `threads` threads: whole, or `sample` intervals of each,
/// drawn at random. Each false interval is a fault, which convicts the operator.
[[nodiscard]] Result<RoundsCheck> check_rounds(const ledger::Log& log, std::optional<std::int64_t> sample,
                                               int threads);

}  // namespace dgx::jobs
