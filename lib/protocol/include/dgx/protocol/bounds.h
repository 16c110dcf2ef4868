#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dgx/core/result.h"
#include "dgx/manifest/task.h"

namespace dgx::protocol {

/// A policy key with the number that it should have.
struct Mend {
  std::string_view key;
  std::int64_t value = 0;
  bool operator==(const Mend&) const = default;
};

/// One row of `dgx-settle bounds`: a number that a closed form gives, next to the policy's own.
struct Bound {
  std::string name;     ///< "solver_bond", …
  std::string formula;  ///< as in dgx-money(7), "Closed forms"
  std::string value;    ///< decimal, or words where there is no number
  std::string policy;   ///< the policy's own number, or empty
  bool holds = true;    ///< true if the policy's number satisfies it
  /// The numbers in the formula, by their symbols.
  std::vector<std::pair<std::string, std::string>> inputs = {};
  /// The keys' numbers nearest to the policy's with which the row holds once the mends of all rows before it
  /// are made; empty if it then holds as it is, or if no number in the keys' ranges helps.
  std::vector<Mend> mend = {};
  /// The lie or the sloth that pays in a market with such a policy: "lazy verifying pays: …"; empty if the
  /// row holds, or if nobody gains.
  std::string warning = {};
};

/// The inputs of the closed forms that are neither a policy's nor a task's.
struct BoundsInput {
  std::int64_t alpha_ppm = 0;  ///< part of all verifiers' bonds that accomplices hold, 0 to 999,999
  std::int64_t tasks = 1;      ///< open at a time, 1 to 1,000,000
};

/// The closed forms of dgx-money(7) in integer arithmetic: the same text on every machine. `task` may be
/// null: costs are then those of a task of 10^6 base units in 100 segments. kUsage for an input out of range.
[[nodiscard]] Result<std::vector<Bound>> bounds(const manifest::Policy& policy, const manifest::Task* task,
                                                const BoundsInput& input = {});

/// The policy with all mends of these rows.
[[nodiscard]] manifest::Policy mended(manifest::Policy policy, const std::vector<Bound>& rows);

}  // namespace dgx::protocol
