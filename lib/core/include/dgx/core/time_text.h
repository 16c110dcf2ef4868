#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "dgx/core/result.h"

namespace dgx {

/// Times and durations as people read and write them.

/// "2026-11-22 14:03:07 UTC", of Unix milliseconds.
[[nodiscard]] std::string utc_text(std::int64_t milliseconds);

/// "7 d", "1 h 30 min", "2.5 s", of milliseconds from 0 on: units of which there are none are left out.
[[nodiscard]] std::string duration_text(std::int64_t milliseconds);

/// Reads days, hours, minutes and seconds in this order, of which any may be missing: "1h30m", "2d", "90s".
/// kUsage for anything else, for less than a second, and for more than 366 days.
[[nodiscard]] Result<std::chrono::seconds> parse_duration(const std::string& text);

}  // namespace dgx
