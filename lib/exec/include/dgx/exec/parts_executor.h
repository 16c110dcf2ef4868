#pragma once

#include <memory>
#include <vector>

#include "dgx/exchange/exchange.h"
#include "dgx/exec/executor.h"

namespace dgx::exec {

/// Runs a checked step program on the CPU, its batch cut into parts that are made one after another
/// (dgx-placement(7), "Parts"): with ExactExecutor's bits, and less memory, as the activations of one part
/// alone are there at a time. What is carried from part to part lies in memory: the value itself, and more
/// words only where a part ends within a block or group of a dot.
///
/// trace() is an ExactExecutor's, made when first needed, with the memory that takes.
class PartsExecutor final : public StepExecutor {
 public:
  /// kUsage: `parts` is below 1 or above the batch's samples, or a line of the body needs a value of all of
  /// them (its number is in the message), or the parts differ so that there would be too many programs, or
  /// the memory is not there, that of plans included (nothing has been allocated but some of the plans), or
  /// the program reads no batch, or no line of it can be cut, or a part's would exceed a cap; else as
  /// ExactExecutor::create().
  [[nodiscard]] static Result<std::unique_ptr<PartsExecutor>> create(
      std::shared_ptr<const program::Program> program, const StepInputs& inputs, int threads,
      std::int64_t parts);
  /// One part on each rank, all made at the same time (dgx-placement(7), "Ranks"): all ranks must create it
  /// for the same program and inputs, and take the same steps together. Whatever the body gathers is
  /// exchanged, so no line is in the way. Each rank holds the whole state. kUsage also if this rank's share
  /// of the machine's memory is too small; the errors of step() are also those of `ranks`, which must outlive
  /// the executor.
  [[nodiscard]] static Result<std::unique_ptr<PartsExecutor>> create_on(
      exchange::Exchange& ranks, std::shared_ptr<const program::Program> program, const StepInputs& inputs,
      int threads);
  ~PartsExecutor() override;

  [[nodiscard]] Status load(const State& state) override;
  [[nodiscard]] Status step() override;
  [[nodiscard]] std::int64_t position() const override;
  [[nodiscard]] Result<State> state() const override;
  [[nodiscard]] Result<merkle::StateDigests> digests(int threads) const override;
  [[nodiscard]] Result<PendingState> snapshot(const LeaveOut& leave_out) override;
  [[nodiscard]] float loss() const override;
  [[nodiscard]] Status trace(const program::ValueVisitor& visit) override;
  [[nodiscard]] Status trace(const Fault& fault, const program::ValueVisitor& visit) override;
  [[nodiscard]] std::span<const float> watched() const override;
  /// Samples of each part.
  [[nodiscard]] std::vector<std::int64_t> samples_of_parts() const;
  [[nodiscard]] int threads() const;
  /// Seconds that all steps so far have waited for messages; 0 without ranks.
  [[nodiscard]] double waited_seconds() const;
  /// Without the plans.
  [[nodiscard]] std::int64_t planned_bytes() const override;
  /// The plans of all different local programs, and the tail's.
  [[nodiscard]] std::string explain() const override;
  /// Times parts and tail: profile() has their operations, one after the other as in explain().
  [[nodiscard]] Status start_profile() override;
  [[nodiscard]] StepProfile profile() const override;

 private:
  struct Impl;
  struct InTurn;
  struct ByRanks;
  explicit PartsExecutor(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dgx::exec
