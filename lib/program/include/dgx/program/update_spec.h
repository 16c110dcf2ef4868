#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dgx/core/json.h"
#include "dgx/core/result.h"

namespace dgx::program {

/// Bytes of a pattern of parameters: a glob on whole names without `model/` (`*` any characters, `?` one), or
/// `rank<N`, those with fewer than N dimensions.
inline constexpr std::size_t kMaxPatternBytes = 256;
/// Most groups of a task, and most patterns of frozen parameters.
inline constexpr std::size_t kMaxGroups = 32;

/// kUsage for a text that is no pattern (dgx-manifest(5), `groups`).
[[nodiscard]] Status check_pattern(std::string_view pattern);
/// True if the pattern, which check_pattern() has accepted, means the parameter. Cost: at most the product of
/// both lengths.
[[nodiscard]] bool matches(std::string_view pattern, std::string_view name, std::size_t rank);

/// Most steps of an update.
inline constexpr std::int64_t kMaxAccumulate = std::int64_t{1} << 20;

/// Most workers of a task.
inline constexpr std::int64_t kMaxWorkers = 4096;

/// True for what a moving average can keep in an update: above 0, below 1.
[[nodiscard]] constexpr bool is_ema(double kept) { return kept > 0 && kept < 1; }

/// Parameters that train otherwise: `head.*:lr=0.1x,weight-decay=0`.
struct ParameterGroup {
  std::string match;
  double rate = 1;                     ///< factor of the optimiser's rate, above 0
  std::optional<double> weight_decay;  ///< in place of the optimiser's
  bool operator==(const ParameterGroup&) const = default;
};
[[nodiscard]] Result<ParameterGroup> parse_group(std::string_view text);

/// The updates of a task: groups, frozen parameters, their average, how often, and from how many gradients.
/// As JSON each part is a key of the task, there only if it is used.
struct UpdateSpec {
  std::vector<ParameterGroup> groups;  ///< the first that matches a parameter is its group
  std::vector<std::string> frozen;     ///< patterns
  std::optional<double> ema = {};      ///< what the parameters' moving average keeps in an update
  std::int64_t accumulate = 1;         ///< steps whose gradients are averaged for an update
  /// Equal ranges of a batch's samples whose gradients are made apart, then added up (dgx-lowerings(7),
  /// "Workers").
  std::int64_t workers = 1;
  bool operator==(const UpdateSpec&) const = default;
};
/// Adds the keys to a task's predicate.
void add_json(json::Object& task, const UpdateSpec& spec);
/// Reads the keys that are there; errors stay in `task`.
[[nodiscard]] UpdateSpec read_update(json::Fields& task);

}  // namespace dgx::program
