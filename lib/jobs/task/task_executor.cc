// Executors of a task, apart from its files: who only reads a task links no kernels.
#include <fmt/format.h>

#include "dgx/exec/device_executor.h"
#include "dgx/exec/parts_executor.h"
#include "dgx/jobs/cuda_module.h"
#include "dgx/jobs/task_files.h"
#include "dgx/kernels/cpu/dispatch.h"

namespace dgx::jobs {
namespace {

Result<exec::StepInputs> step_inputs(const TaskFiles& files, const FieldRows& data) {
  const manifest::Task& task = files.body();
  DGX_TRY(const auto schedule,
          program::schedule_parameters(task.optimizer, task.schedule, task.steps, task.update));
  exec::StepInputs inputs{schedule, task.seed, task.batch, data};
  inputs.slices = task.update.workers > 1 ? task.update.workers : 0;
  return inputs;
}

}  // namespace

Result<std::unique_ptr<exec::ExactExecutor>> make_executor(const TaskFiles& files, const FieldRows& data,
                                                           int threads) {
  DGX_TRY(const exec::StepInputs inputs, step_inputs(files, data));
  return exec::ExactExecutor::create(files.program, inputs, threads);
}

Result<ComputeDevice> device_from_name(std::string_view name) {
  if (name == "cpu") return ComputeDevice::kCpu;
  if (name == "cuda") return ComputeDevice::kCuda;
  return usage_error("unknown device " + std::string(name), "use cpu or cuda");
}

namespace {

/// The device in words: "NVIDIA H100 80GB HBM3 (compute capability 9.0, its driver knows CUDA 13.0): a step
/// takes 1.3 of 78.9 GiB".
std::string name_of(const exec::DeviceExecutor& executor) {
  const kernels::cuda::DeviceInfo& device = executor.device();
  const auto gib = [](std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); };
  const std::string about =
      device.emulated ? ""
                      : fmt::format(" (compute capability {}.{}, its driver knows CUDA {}.{})", device.major,
                                    device.minor, device.driver / 1000, device.driver % 1000 / 10);
  return fmt::format("{}{}: a step takes {:.3g} of {:.3g} GiB", device.name, about,
                     gib(executor.planned_bytes()), gib(device.memory_bytes));
}

}  // namespace

Result<std::unique_ptr<exec::StepExecutor>> make_executor_on(
    ComputeDevice device, std::int64_t parts, const TaskFiles& files, const FieldRows& data,
    const JobContext& context, const std::vector<kernels::ValueIndex>& watched) {
  if (parts != 1 && device != ComputeDevice::kCpu)
    return usage_error("--parts is for the CPU, not for --device cuda");
  DGX_TRY(exec::StepInputs inputs, step_inputs(files, data));
  inputs.watched = watched;
  if (parts != 1) {
    auto executor = exec::PartsExecutor::create(files.program, inputs, context.threads, parts);
    if (!executor) return within("--parts", std::move(executor).error());
    return std::unique_ptr<exec::StepExecutor>(std::move(executor).value());
  }
  if (device == ComputeDevice::kCpu) {
    DGX_TRY(auto executor, exec::ExactExecutor::create(files.program, inputs, context.threads));
    return std::unique_ptr<exec::StepExecutor>(std::move(executor));
  }
  DGX_TRY(auto opened, open_cuda_device());
  DGX_TRY(auto executor,
          exec::DeviceExecutor::create(files.program, inputs, std::move(opened), context.threads));
  context.progress.note(name_of(*executor));
  return std::unique_ptr<exec::StepExecutor>(std::move(executor));
}

Result<std::unique_ptr<exec::PartsExecutor>> make_executor_among(
    exchange::Exchange& ranks, const Sharing& sharing, const TaskFiles& files, const FieldRows& data,
    const JobContext& context, const std::vector<kernels::ValueIndex>& watched) {
  DGX_TRY(exec::StepInputs inputs, step_inputs(files, data));
  inputs.watched = watched;
  if (!sharing.cuts)
    return exec::PartsExecutor::create_on(ranks, files.program, inputs, context.threads, sharing.bounds,
                                          sharing.experts);
  return exec::PartsExecutor::create_stage(ranks, files.program, inputs, context.threads, *sharing.cuts,
                                           sharing.bounds);
}

Result<std::int64_t> memory_of_rank(const TaskFiles& files, const FieldRows& data, int threads, int rank,
                                    const Sharing& sharing) {
  DGX_TRY(const exec::StepInputs inputs, step_inputs(files, data));
  if (!sharing.cuts)
    return exec::PartsExecutor::bytes_of_rank(files.program, inputs, threads, rank, sharing.bounds,
                                              sharing.experts);
  return exec::PartsExecutor::bytes_of_stage(files.program, inputs, threads, rank, sharing.ranks,
                                             *sharing.cuts, sharing.bounds);
}

Status choose_instruction_set(const std::optional<std::string>& name) {
  if (!name) return {};
  for (const auto set : {kernels::cpu::InstructionSet::kScalar, kernels::cpu::InstructionSet::kAvx2,
                         kernels::cpu::InstructionSet::kAvx512, kernels::cpu::InstructionSet::kNeon}) {
    if (kernels::cpu::name_of(set) == *name) return kernels::cpu::force_instruction_set(set);
  }
  return usage_error("unknown instruction set " + *name, "use scalar, avx2, avx512 or neon");
}

}  // namespace dgx::jobs
