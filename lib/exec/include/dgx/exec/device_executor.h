#pragma once

#include <memory>

#include "dgx/exec/executor.h"
#include "dgx/kernels/cuda/device.h"

namespace dgx::exec {

/// Runs a checked step program on a device, with ExactExecutor's bits. The state stays on the device between
/// steps; a step replays one recording of all its kernels. The host gathers the rows of the next batch while
/// the device computes, and reads back the loss and whether all is finite.
///
/// A device has no trace(): an ExactExecutor, made when first needed, takes that step on the CPU and shows
/// its values. Where ExactExecutor refuses or stops, this does too, with the same message. Device errors
/// (device.h) are kInternal and sticky: after one, discard the executor.
class DeviceExecutor final : public StepExecutor {
 public:
  /// kMalformed: fields or shapes of `inputs` are not the program's; kInternal: a step needs more memory than
  /// the device has free (the message has both numbers). `threads` is what trace() may use.
  [[nodiscard]] static Result<std::unique_ptr<DeviceExecutor>> create(
      std::shared_ptr<const program::Program> program, const StepInputs& inputs,
      std::unique_ptr<kernels::cuda::Device> device, int threads);
  ~DeviceExecutor() override;

  [[nodiscard]] Status load(const State& state) override;
  [[nodiscard]] Status step() override;
  [[nodiscard]] std::int64_t position() const override;
  [[nodiscard]] Result<State> state() const override;
  /// Copies to the host what has to be hashed: a constant entry once.
  [[nodiscard]] Result<merkle::StateDigests> digests(int threads) const override;
  /// Copies the state on the device at once, and to the host while steps run; without the entries that no
  /// step changes if all of these are left out. The first call allocates as much device memory as the copy
  /// takes; if that is not free, or later too small, what is wanted is copied to the host at once.
  [[nodiscard]] Result<PendingState> snapshot(const LeaveOut& leave_out) override;
  [[nodiscard]] float loss() const override;
  [[nodiscard]] Status trace(const program::ValueVisitor& visit) override;
  [[nodiscard]] Status trace(const Fault& fault, const program::ValueVisitor& visit) override;
  [[nodiscard]] std::span<const float> watched() const override;
  [[nodiscard]] std::int64_t planned_bytes() const override;
  [[nodiscard]] std::string explain() const override;
  /// From now on a step's kernels are launched one by one and timed by the device's clock; a time includes
  /// the wait for the next launch.
  [[nodiscard]] Status start_profile() override;
  [[nodiscard]] StepProfile profile() const override;

  [[nodiscard]] const kernels::cuda::DeviceInfo& device() const;

 private:
  struct Impl;
  explicit DeviceExecutor(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dgx::exec
