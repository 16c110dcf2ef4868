#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dgx/core/bytes.h"
#include "dgx/core/result.h"
#include "dgx/placement/forecast.h"
#include "dgx/placement/machines.h"
#include "dgx/placement/step_work.h"

namespace dgx::placement {

inline constexpr std::size_t kMaxRanks = 1024;
inline constexpr std::size_t kMaxPlanBytes = std::size_t{4} << 20;

/// A rank of a plan: its machine, and how many slices of a batch it makes, or its pipeline.
struct Seat {
  std::string machine;
  std::int64_t slices = 1;
  bool operator==(const Seat&) const = default;
};

/// A task's ranks, each with its machine and its slices of a batch (dgx-plan(1), PLANS). Rank n, from 0, has
/// the nth seat, and the slices behind those of the ranks before it. In pipelines of S stages it is stage
/// n mod S of pipeline n / S, which has the slices behind those of the pipelines before it.
struct Plan {
  Digest task, program;
  std::int64_t slices = 1;  ///< of a batch: the sum of all ranks', or of all pipelines'
  std::vector<Seat> ranks;  ///< 1 to kMaxRanks
  /// Stages that begin at these lines, one more than these are, and parts in which each pipeline's slices go
  /// through.
  struct Pipeline {
    std::vector<kernels::ValueIndex> cuts;  ///< ascending
    std::int64_t parts = 1;
    bool operator==(const Pipeline&) const = default;
    [[nodiscard]] std::size_t stages() const { return cuts.size() + 1; }
  };
  std::optional<Pipeline> pipeline = {};
  bool experts = false;  ///< each at home on one rank; never with a pipeline
  /// Nanoseconds of a step, as forecast: by the plan; with the machines in the order of their regions; by
  /// random orders, the mean; by the fastest machine alone. 0: unknown.
  struct Predicted {
    std::int64_t plan = 0, by_region = 0, random = 0, alone = 0;
    bool operator==(const Predicted&) const = default;
  } predicted;
  bool operator==(const Plan&) const = default;

  /// The number of pipelines side by side, if there are stages.
  [[nodiscard]] std::size_t pipelines() const { return pipeline ? ranks.size() / pipeline->stages() : 0; }
  /// The first slice of each rank, or of each part of all pipelines, and the number of all behind them.
  [[nodiscard]] std::vector<std::int64_t> bounds() const;
};

/// Appends the ends of a pipeline's parts, the slices from `begin` on.
void append_parts(std::int64_t begin, std::int64_t slices, std::int64_t parts,
                  std::vector<std::int64_t>& bounds);

/// Reads a plan. kMalformed, with the field or the place, for another form, caps, seats that do not have all
/// slices, and seats that are not as many as stages for each pipeline, each with its slices. Whether there
/// are such forward lines, only the program says.
[[nodiscard]] Result<Plan> parse_plan(std::string_view text);
/// Canonical text that parse_plan() reads, and a newline.
[[nodiscard]] std::string print_plan(const Plan& plan);

struct PlanOptions {
  std::size_t ranks = 0;   ///< machines to take, the fastest; 0: as many as make a step soonest
  std::uint64_t seed = 0;  ///< of the search
};

/// A plan's parts that follow from machines and work: seats, slices and what is predicted, and the forecast
/// of a step.
struct Choice {
  Plan plan;
  Forecast forecast;
};

/// The work of a step on so many ranks, which has the same slices for any number.
using WorkOn = std::function<Result<StepWork>(std::size_t ranks)>;

/// Plans which machine has which rank. Up to eight are tried in every order; more are ordered by a seeded
/// search that starts from the order of their regions, so the result is never worse than that. Each has
/// slices in proportion to its speed, at least one. Without a number of ranks, numbers up to eight, and
/// powers of two, are tried. kUsage, naming the machines or numbers, if they are not connected, or more ranks
/// are wanted than there are machines or slices; errors of `work_on`, which is asked once for each number
/// that is tried, and for one rank.
[[nodiscard]] Result<Choice> choose_plan(const Machines& machines, const WorkOn& work_on,
                                         const PlanOptions& options);

/// The slices of machines that make so many operations a second, in proportion, at least one each. There must
/// be as many slices as machines.
[[nodiscard]] std::vector<std::int64_t> share_slices(std::int64_t slices,
                                                     std::span<const std::int64_t> operations_per_second);

}  // namespace dgx::placement
