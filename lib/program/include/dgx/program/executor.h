#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "dgx/core/bytes.h"
#include "dgx/core/result.h"
#include "dgx/core/tensor.h"
#include "dgx/kernels/by_value.h"
#include "dgx/merkle/digests.h"

namespace dgx::program {

/// Is shown one value of a step. Its error ends the step.
using ValueVisitor = std::function<Status(kernels::ValueIndex value, const TensorView&)>;

/// The execution of a program's steps, one after another, as those who replay them see it. The exact executor
/// (dgx/exec) is one; tests use others, some of which lie.
class Executor {
 public:
  virtual ~Executor() = default;

  /// Replaces the state the next step starts from. kMalformed unless names, dtypes and shapes are the
  /// program's.
  [[nodiscard]] virtual Status load(const State& state) = 0;

  /// Runs one step. kMalformed, naming entry and element, if a state entry would become non-finite
  /// (dgx-numerics(7)). There is then no state until the next load(), since entries are updated in place.
  [[nodiscard]] virtual Status step() = 0;

  /// Takes `steps` steps, and calls `after` (may be empty) after each; ends with the first error of either.
  [[nodiscard]] Status advance(std::int64_t steps, const std::function<Status()>& after = {}) {
    for (std::int64_t taken = 0; taken < steps; ++taken) {
      DGX_CHECK(step());
      if (after) DGX_CHECK(after());
    }
    return {};
  }

  /// The number of steps that led to the current state.
  [[nodiscard]] virtual std::int64_t position() const = 0;

  /// A copy of the current state. Cost: its size. kInternal if it lies on a device that has failed.
  [[nodiscard]] virtual Result<State> state() const = 0;

  /// The digests of the current state, as merkle::state_digests() gives them. Errors of state(). An executor
  /// with the state in memory hashes it there; this default hashes a copy.
  [[nodiscard]] virtual Result<merkle::StateDigests> digests(int threads) const {
    DGX_TRY(const State now, state());
    return merkle::state_digests(now, threads);
  }

  /// The loss entry, without copying the state.
  [[nodiscard]] virtual float loss() const = 0;

  /// Runs one step as step() does, and shows every value of the program, in order, before it is dropped.
  /// Slower, since nothing is fused. Ends with the same state, else kInternal.
  [[nodiscard]] virtual Status trace(const ValueVisitor& visit) = 0;
};

}  // namespace dgx::program
