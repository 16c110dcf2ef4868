#include "dgx/protocol/market_clock.h"

#include <algorithm>

namespace dgx::protocol {

std::int64_t MarketClock::at(std::int64_t milliseconds) const {
  return market_ms_ + std::max<std::int64_t>(0, milliseconds - std::max(receipt_ms_, resumes_ms_));
}

std::int64_t MarketClock::receipt_time(std::int64_t market_ms) const {
  if (market_ms <= market_ms_) return receipt_ms_ - (market_ms_ - market_ms);
  return std::max(receipt_ms_, resumes_ms_) + (market_ms - market_ms_);
}

void MarketClock::advance(std::int64_t milliseconds) {
  market_ms_ = at(milliseconds);
  receipt_ms_ = milliseconds;
}

void MarketClock::pause(std::int64_t milliseconds, std::int64_t heartbeat_ms) {
  receipt_ms_ = milliseconds;
  resumes_ms_ = milliseconds + heartbeat_ms;
}

}  // namespace dgx::protocol
