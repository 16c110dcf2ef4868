#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dgx/core/job_context.h"
#include "dgx/core/result.h"
#include "dgx/exchange/delayed.h"
#include "dgx/jobs/task_files.h"
#include "dgx/placement/plan.h"

namespace dgx::jobs {

/// dgx-plan(1).
struct PlacementOptions {
  std::string task;
  std::optional<std::string> program;
  std::string machines;  ///< MACHINES.json
  std::string output;    ///< PLAN.json
  std::size_t ranks = 0;
  bool experts = false;               ///< each on one rank alone
  std::size_t stages = 0;             ///< of pipelines; 0: ranks share the slices
  std::size_t pipelines = 1;          ///< side by side
  std::optional<std::int64_t> parts;  ///< in which each one's slices go through a pipeline
  std::uint64_t seed = 0;
  std::optional<std::string> against;  ///< other machines, to compare with
};

struct PlacementResult {
  placement::Choice choice;
  double operations = 0;                       ///< of a step, on all ranks together
  std::vector<placement::Machine> machines;    ///< of each rank
  std::size_t all_machines = 0;                ///< in the file
  std::vector<std::int64_t> memory_bytes;      ///< that each rank takes
  std::optional<double> seconds_against;       ///< of a step on as many ranks of the other machines
  std::optional<double> seconds_with_experts;  ///< of the best plan that has experts at home, of a mixture
                                               ///< that was planned without
};

/// Plans which machine makes what of a task's steps, and writes the plan. Errors of open_task(),
/// program::classify() and place_experts(), placement::parse_machines(), choose_plan() and choose_pipeline(),
/// with the file; kUsage, with both numbers, if a rank takes more memory than its machine has.
[[nodiscard]] Result<PlacementResult> plan_placement(const PlacementOptions& options,
                                                     const JobContext& context);

/// dgx-plan measure.
struct MeasureOptions {
  std::string task;
  std::string data;
  std::optional<std::string> program;
  std::optional<std::string> init;
  std::string output;  ///< MACHINES.json
  double seconds = 2;  ///< of steps
};

struct MeasureResult {
  placement::Machines machines;
  bool follows = false;  ///< this process is not rank 0, which has the result
};

/// Measures the machines of all ranks, which MPI has started: the rate at which each makes steps of this
/// task, alone and all at the same time, their memory, and what connects every two. Rank 0 writes the file.
/// Machines have their hosts' names, with the number of the rank behind a colon where several ranks share
/// one. Errors as train() in several processes.
[[nodiscard]] Result<MeasureResult> measure_machines(const MeasureOptions& options,
                                                     const JobContext& context);

/// dgx-plan rehearse.
struct RehearseOptions {
  std::string task;
  std::string placement;  ///< PLAN.json
  std::string machines;   ///< MACHINES.json
  std::string data;
  std::optional<std::string> program;
  std::optional<std::string> init;
  double seconds = 5;  ///< of steps
};

struct RehearseResult {
  placement::Plan plan;
  placement::Forecast forecast;
  double measured = 0;               ///< seconds of a step, the median
  std::int64_t steps = 0;            ///< that were rehearsed
  double operations_per_second = 0;  ///< of a rank here
  std::vector<double> sleeps;        ///< seconds of each rank in a step
  bool follows = false;              ///< this process is not rank 0, which has the result
};

/// Rehearses a plan on processes of one machine, which MPI has started (dgx-plan(1)): after some steps the
/// ranks sleep for what they would compute on the plan's machines, and exchange a step's messages over their
/// network. Writes nothing. Errors as train() in several processes; kUsage for ranks on several machines, and
/// for more than one thread a rank.
[[nodiscard]] Result<RehearseResult> rehearse_placement(const RehearseOptions& options,
                                                        const JobContext& context);

/// Reads a plan. kMissing, kMalformed.
[[nodiscard]] Result<placement::Plan> read_placement(const std::string& path);

/// Slices of the task's batch, of which ranks have whole ones: its workers, or else its samples.
[[nodiscard]] std::int64_t slices_of(const manifest::Task& task);

/// The share of a step that each of the plan's ranks has.
[[nodiscard]] Sharing sharing_of(const placement::Plan& plan);

/// kUsage unless the plan is for this task.
[[nodiscard]] Status check_placement(const placement::Plan& plan, const TaskFiles& files);
/// kUsage unless the plan is for so many ranks.
[[nodiscard]] Status check_ranks(const placement::Plan& plan, int ranks);

/// The network between so many ranks in a file of machines, where rank n has the plan's nth machine, or
/// without a plan the file's. Errors of placement::parse_machines() and network_of(), with the file; kUsage
/// if the file lacks a machine of the plan, or has fewer than ranks.
[[nodiscard]] Result<exchange::Network> read_network(const std::string& machines,
                                                     const std::optional<placement::Plan>& plan, int ranks);

}  // namespace dgx::jobs
