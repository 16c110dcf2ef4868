#pragma once

#include <cstdint>

namespace dgx::protocol {

/// Time as deadlines count it (dgx-protocol(7), "TIME"): the receipts' milliseconds, less the pauses in which
/// the operator was away. It never goes back. Without a pause it is the receipts' time.
///
/// A pause stops the clock at the entry before it and lets it go on a heartbeat after the tree head that ends
/// it. So every deadline that had not passed moves by the gap and a heartbeat, and one that had passed stays
/// passed; no stored deadline changes.
class MarketClock {
 public:
  MarketClock() = default;
  explicit MarketClock(std::int64_t milliseconds)
      : receipt_ms_(milliseconds), market_ms_(milliseconds), resumes_ms_(milliseconds) {}

  /// The market's time for a receipt of `milliseconds`, which must not be before the last one.
  [[nodiscard]] std::int64_t at(std::int64_t milliseconds) const;
  /// The receipt time at which the market's time will be `market_ms`, if no pause comes; for a past time,
  /// about when it was.
  [[nodiscard]] std::int64_t receipt_time(std::int64_t market_ms) const;
  /// The last receipt's time.
  [[nodiscard]] std::int64_t receipt_now() const { return receipt_ms_; }
  [[nodiscard]] std::int64_t now() const { return market_ms_; }

  /// Moves to the receipt time of an entry, not before the last one.
  void advance(std::int64_t milliseconds);
  /// Records the entry that ends a pause: the market's time stays where it is until `heartbeat_ms` after it.
  void pause(std::int64_t milliseconds, std::int64_t heartbeat_ms);

 private:
  std::int64_t receipt_ms_ = 0;
  std::int64_t market_ms_ = 0;   ///< at receipt_ms_
  std::int64_t resumes_ms_ = 0;  ///< the clock stands still until then, in receipt time
};

}  // namespace dgx::protocol
