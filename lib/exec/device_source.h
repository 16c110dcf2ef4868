#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plan.h"

namespace dgx::exec {

/// What a generated kernel is given the address of.
struct KernelArgument {
  enum class What : std::uint8_t {
    kValue,
    kFlag,     ///< that is set to 1 where the value is not finite
    kScratch,  ///< what one launch leaves for the next of its task
  };
  What what = What::kValue;
  kernels::ValueIndex value = 0;
  bool operator==(const KernelArgument&) const = default;
};

/// A kernel that does a part of a step (kernels/cuda/generated.cuh says what its text means): straight-line code over kernels/ref's formulas, with
/// extents and strides written out. Nothing in it says which values it is for: layers that are alike have one kernel.
struct DeviceKernel {
  std::string body;
  std::vector<KernelArgument> arguments;
  std::uint32_t threads = 0;  ///< of a block
  std::int64_t blocks = 0;
};

/// What is asked of kernels.
struct KernelOptions {
  std::int64_t least_wide = std::int64_t{1} << 16;  ///< elements of maps from which on a thread takes four neighbours, where they lie so
};

/// Writes kernels for the tasks of a plan.
class KernelWriter {
 public:
  /// Keeps the plan. `becomes_state` says by value: whether it has a flag.
  KernelWriter(const Plan& plan, std::vector<bool> becomes_state, const KernelOptions& options = {})
      : plan_(plan), becomes_state_(std::move(becomes_state)), options_(options) {}

  /// Fused maps: `members` in order, of which `stored` lie in memory. Everything is read before anything is written, as of cuda::ElementProgram.
  [[nodiscard]] DeviceKernel maps(std::span<const kernels::ValueIndex> members, std::span<const kernels::ValueIndex> stored) const;

  /// Any value alone; kernels one after another: folds_by_teams() with a level each, of which all but the last leave fold_parts() of at most 16 bytes, at
  /// most that many in all, in the task's scratch.
  [[nodiscard]] std::vector<DeviceKernel> value(kernels::ValueIndex value) const;

  /// Rows, of whose members `stored` lie in memory.
  [[nodiscard]] DeviceKernel rows(const RowsTask& task, std::span<const kernels::ValueIndex> stored) const;

 private:
  const Plan& plan_;
  std::vector<bool> becomes_state_;
  KernelOptions options_;
};

/// The text of a step's kernels, the same ones once.
class KernelText {
 public:
  /// The kernel's number.
  std::int32_t add(const DeviceKernel& kernel);
  [[nodiscard]] std::int32_t count() const { return static_cast<std::int32_t>(kernels_.size()); }
  /// Elementary functions as the definition computes them, or by pairs of floats (kernels/function_pairs.h).
  [[nodiscard]] std::string text(bool functions_by_pairs) const;

 private:
  std::vector<std::string> kernels_;  ///< behind their names
};

}  // namespace dgx::exec
