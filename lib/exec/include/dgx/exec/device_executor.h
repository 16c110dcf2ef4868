#pragma once

#include <memory>

#include "dgx/exec/executor.h"
#include "dgx/kernels/cuda/device.h"

namespace dgx::exec {

/// Runs a checked step program on a device, with ExactExecutor's bits. The state stays there from step to step; a step is one recording of all
/// its kernels, replayed. The host gathers the rows of the next batch while the device computes, and reads the loss and
/// whether all is finite.
///
/// A device has no trace(): values are shown by an ExactExecutor, made when it is first asked for, which takes the step on the CPU. Where
/// ExactExecutor refuses or stops, this stops with the same words; what a device adds is in device.h: its errors are kInternal,
/// and after one nothing but a new executor helps.
class DeviceExecutor final : public StepExecutor {
 public:
  /// kMalformed: fields or shapes of `inputs` that are not the program's; kUsage: a step's memory is more than the device has free, told with
  /// both numbers before any of it is taken. `threads` is what trace() may use.
  [[nodiscard]] static Result<std::unique_ptr<DeviceExecutor>> create(std::shared_ptr<const program::Program> program, const StepInputs& inputs,
                                                                      std::unique_ptr<kernels::cuda::Device> device, int threads);
  ~DeviceExecutor() override;

  [[nodiscard]] Status load(const State& state) override;
  [[nodiscard]] Status step() override;
  [[nodiscard]] std::int64_t position() const override;
  [[nodiscard]] Result<State> state() const override;
  /// Copied on the device at once, and to the host while steps run: takes, when first called, as much memory of the device as the state. Where
  /// that is not free, the state is copied to the host at once.
  [[nodiscard]] Result<PendingState> snapshot() override;
  [[nodiscard]] float loss() const override;
  [[nodiscard]] Status trace(const std::function<Status(std::int32_t, const TensorView&)>& visit) override;
  [[nodiscard]] Status trace(const Fault& fault, const std::function<Status(std::int32_t, const TensorView&)>& visit) override;
  [[nodiscard]] std::int64_t planned_bytes() const override;
  [[nodiscard]] std::string explain() const override;
  /// From now on a step's kernels are started one by one, and timed by the device's clock, which includes what it waits for the next to be started.
  [[nodiscard]] Status start_profile() override;
  [[nodiscard]] StepProfile profile() const override;

  [[nodiscard]] const kernels::cuda::DeviceInfo& device() const;

 private:
  struct Impl;
  explicit DeviceExecutor(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dgx::exec
