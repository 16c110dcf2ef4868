#pragma once

#include <optional>
#include <string>
#include <vector>

#include "case.h"
#include "dgx/kernels/cpu/dispatch.h"

namespace dgx::matrix {

/// Every value of a case by the definition, each NaN the one.
struct Reference {
  std::vector<Tensor> values;
  std::size_t first_line = 0;  ///< values before it are inputs
  std::string digest;          ///< of all values that are no inputs

  [[nodiscard]] std::optional<std::size_t> first_not_finite_of_last() const;
};

/// kernels/ref, element by element. kMalformed if check_program refuses the case.
[[nodiscard]] Result<Reference> reference_of(const Case& c, std::uint64_t seed);

/// A way to run a case. Every way must give the reference's bits.
struct Configuration {
  kernels::cpu::InstructionSet set = kernels::cpu::InstructionSet::kScalar;
  int threads = 1;
  std::string device = {};  ///< a device's module: steps are run there
};
[[nodiscard]] std::vector<Configuration> all_configurations();

/// Runs the case fused as an evaluation, fused as a training step whose state the last value becomes (beside the inputs, and in place
/// of input 0 where it may), and value by value. Returns what differs: case, seed, configuration, way, value, element and bits; empty
/// if nothing does. A last value that is not finite must stop the steps, by the right name and element.
[[nodiscard]] std::string differences(const Case& c, std::uint64_t seed, const Reference& reference, const Configuration& configuration);

/// Scalar operations of the whole case, roughly.
[[nodiscard]] std::int64_t work_of(const program::Program& program);

}  // namespace dgx::matrix
