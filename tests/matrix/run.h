#pragma once

#include <optional>
#include <string>
#include <vector>

#include "case.h"
#include "dgx/kernels/cpu/dispatch.h"

namespace dgx::matrix {

/// Every value of a case by the definition, with every NaN replaced by the one.
struct Reference {
  kernels::ByValue<Tensor> values;
  kernels::ValueIndex first_line{};  ///< values before it are inputs
  std::string digest;                ///< of all values that are not inputs

  [[nodiscard]] std::optional<std::size_t> first_not_finite_of_last() const;
};

/// Computes the reference by kernels/ref, element by element. kMalformed if check_program refuses the case.
[[nodiscard]] Result<Reference> reference_of(const Case& c, std::uint64_t seed);

/// One way to run a case. All must give the reference's bits.
struct Configuration {
  kernels::cpu::InstructionSet set = kernels::cpu::InstructionSet::kScalar;
  int threads = 1;
  std::string device = {};  ///< module of the device that runs the steps; empty: the CPU
};
[[nodiscard]] std::vector<Configuration> all_configurations();

/// Runs the case fused as an evaluation; fused as a training step whose state gets the last value (in
/// addition to the inputs, and in place of input 0 if possible); value by value; and, for each first extent
/// of its inputs, as a step whose batch are the inputs of that extent, in parts, as far as such a step is
/// cut, and of those with two threads on ranks. Returns the difference: case, seed, configuration, way,
/// value, element and bits; empty if there is none. A last value that is not finite must stop the steps,
/// naming the right entry and element. Adds to `counts` the steps that were made in parts, and on ranks.
struct Counts {
  std::int64_t in_turn = 0, on_ranks = 0;
};
[[nodiscard]] std::string differences(const Case& c, std::uint64_t seed, const Reference& reference,
                                      const Configuration& configuration, Counts& counts);

/// Approximate number of scalar operations of the whole case.
[[nodiscard]] std::int64_t work_of(const program::Program& program);

}  // namespace dgx::matrix
