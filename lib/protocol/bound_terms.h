#pragma once

#include <cstdint>
#include <string>

#include "dgx/protocol/bounds.h"

namespace dgx::protocol {

inline constexpr std::int64_t kMillion = 1'000'000;

/// Products of the closed forms are below 2^126: money is at most 2^62, most rates are parts per million.
using Wide = __int128;

/// The quantities of the closed forms (dgx-money(7)), in base units and parts per million.
struct Terms {
  manifest::Policy policy;
  BoundsInput input;
  std::int64_t segments = 100;     ///< N
  std::int64_t sampled = 1;        ///< q
  std::int64_t cost = kMillion;    ///< C
  std::int64_t reward = kMillion;  ///< R
  std::int64_t segment = 0;        ///< C_v: the replay of one segment, rounded up
  std::int64_t recheck = 0;        ///< C_w, rounded up
  std::int64_t replay_price = 0;   ///< the part of the fee that pays for C_w, rounded down
  std::int64_t fee = 0;
  std::int64_t tax = 0;
  std::int64_t treasury = 0;
  std::int64_t solver_bond = 0;      ///< D_s
  std::int64_t verifier_bond = 0;    ///< D_v
  std::int64_t challenger_bond = 0;  ///< D_w

  /// rho J and c fee, times 10^6.
  [[nodiscard]] Wide jackpots() const { return Wide{policy.forced_error_ppm} * policy.jackpot; }
  [[nodiscard]] Wide audits() const { return Wide{policy.audit_ppm} * fee; }
};

/// The terms of a policy, with the numbers of `task`, or without one those of a task of 10^6 base units in
/// 100 segments.
[[nodiscard]] Result<Terms> terms_of(const manifest::Policy& policy, const manifest::Task* task,
                                     const BoundsInput& input);

/// F: the most that the finders of a false proof share.
[[nodiscard]] Wide finders_sum(const Terms& terms);

/// A number; above 2^62 it is 2^62.
[[nodiscard]] std::string text_of(Wide number);

/// a / b, rounded up; a at least 0, b positive.
[[nodiscard]] constexpr Wide wide_ceil(Wide a, Wide b) { return (a + b - 1) / b; }

}  // namespace dgx::protocol
