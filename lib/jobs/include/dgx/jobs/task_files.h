#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dgx/bundle/dataset.h"
#include "dgx/bundle/opened.h"
#include "dgx/core/job_context.h"
#include "dgx/core/result.h"
#include "dgx/exchange/exchange.h"
#include "dgx/exec/executor.h"
#include "dgx/exec/parts_executor.h"
#include "dgx/jobs/compute_device.h"
#include "dgx/jobs/proof_files.h"
#include "dgx/jobs/task_program.h"
#include "dgx/manifest/statement.h"
#include "dgx/merkle/digests.h"
#include "dgx/program/program.h"
#include "dgx/protocol/segments.h"

namespace dgx::jobs {

/// A task and the files next to it, checked against what the task binds.
struct TaskFiles {
  manifest::Signed<manifest::Task> task;
  std::shared_ptr<const program::Program> program;
  protocol::Segments segments;
  std::string path;  ///< the task's file

  [[nodiscard]] const manifest::Task& body() const { return task.body; }
};

/// Opens the task that `path` stands for (find_task_file) and its step program: `program_path`, or the one
/// next to the task (find_program). Checks that the
/// program has the task's root and number of lines and is valid, alone and with the task
/// (protocol/admission.h). Looks on `shelf` first, if it is not null, and puts the program there. kMissing,
/// kMalformed, kUsage (its market's policy does not admit it), kUnauthorised
/// (signature, or a submitter whom `trust` does not name).
[[nodiscard]] Result<TaskFiles> open_task(const std::string& path,
                                          const std::optional<std::string>& program_path,
                                          const manifest::TrustView& trust, ProgramShelf* shelf = nullptr);

/// Reads the task's dataset as a whole, for who needs most of it. kMalformed unless the digest, the number of
/// samples, their types and their shapes are those the task names.
[[nodiscard]] Result<bundle::Dataset> read_task_dataset(const std::string& path, const manifest::Task& task,
                                                        int threads);
/// Opens the task's dataset, for who needs some of its rows; which ones are damaged shows when they are read.
/// The same errors, but of no number. Gives its warnings to the progress. `cache` as in OpenEffort.
[[nodiscard]] Result<bundle::OpenedDataset> open_task_dataset(
    const std::string& path, const manifest::Task& task, const JobContext& context,
    const std::optional<std::string>& cache = std::nullopt);

/// kMalformed unless the bundle states the digest of the task's dataset. Reads none of its numbers.
[[nodiscard]] Status check_stated_dataset(const std::string& path, const manifest::Task& task);

/// The initial state of the task's built-in model with this seed. kMalformed if its model is not a built-in
/// one.
[[nodiscard]] Result<State> seeded_state(const TaskFiles& files, std::uint64_t seed);

/// The state that training starts from, checked against the task's digest: made from the seed, or read from
/// `init` or TASK.init.h5 next to the task, which if the task was renamed is known by its digest.
[[nodiscard]] Result<State> initial_state(const TaskFiles& files, const std::optional<std::string>& init);

/// An executor for this task's steps, on the CPU. What `data` is a view of must outlive it.
[[nodiscard]] Result<std::unique_ptr<exec::ExactExecutor>> make_executor(const TaskFiles& files,
                                                                         const FieldRows& data, int threads);

/// An executor for this task's steps on `device`, of which StepExecutor::watched() gives `watched`; on the
/// CPU in `parts` parts, one after another, if they are not 1. For a
/// GPU, notes which one it is, and whether it lacks a kernel compiler. kInternal, with a hint, if there is no
/// such device; kUsage for parts on a GPU, and those that the task's program forbids; errors of
/// DeviceExecutor::create and PartsExecutor::create.
[[nodiscard]] Result<std::unique_ptr<exec::StepExecutor>> make_executor_on(
    ComputeDevice device, std::int64_t parts, const TaskFiles& files, const FieldRows& data,
    const JobContext& context, const std::vector<kernels::ValueIndex>& watched = {});

/// The shares of ranks in a step: by slices, rank n having those between bounds n and n + 1, if there are
/// any; or in the stages of pipelines, which begin at these lines and whose parts have these bounds.
struct Sharing {
  std::vector<std::int64_t> bounds = {};
  std::optional<std::vector<kernels::ValueIndex>> cuts = {};
  int ranks = 1;
  exec::ExpertsAt experts = exec::ExpertsAt::kEveryRank;  ///< of ranks that share by slices
};

/// An executor that makes a share of each of this task's steps on each of `ranks`, which must outlive it, on
/// the CPU. Errors of PartsExecutor::create_on() and create_stage().
[[nodiscard]] Result<std::unique_ptr<exec::PartsExecutor>> make_executor_among(
    exchange::Exchange& ranks, const Sharing& sharing, const TaskFiles& files, const FieldRows& data,
    const JobContext& context, const std::vector<kernels::ValueIndex>& watched = {});

/// Bytes that make_executor_among() takes on one of the ranks. Of `data` only types and shapes count. Errors
/// of PartsExecutor::bytes_of_rank() and bytes_of_stage().
[[nodiscard]] Result<std::int64_t> memory_of_rank(const TaskFiles& files, const FieldRows& data, int threads,
                                                  int rank, const Sharing& sharing);

/// Chooses the instruction set (`--isa`), if one is named. kUsage if this machine does not have it.
[[nodiscard]] Status choose_instruction_set(const std::optional<std::string>& name);

}  // namespace dgx::jobs
