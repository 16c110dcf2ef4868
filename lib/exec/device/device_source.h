#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace dgx::exec {

/// An address that a generated kernel is given.
struct KernelArgument {
  enum class What : std::uint8_t {
    kValue,
    kFlag,     ///< set to 1 where the value is not finite
    kScratch,  ///< memory passed from one launch of an operation to the next
  };
  What what = What::kValue;
  kernels::ValueIndex value{};
  bool operator==(const KernelArgument&) const = default;
};

/// A generated kernel that does part of a step (kernels/cuda/generated.cuh defines the words of its text):
/// straight-line code over kernels/ref's formulas, with extents and strides written out. The text does not
/// say which values it is for, so that layers that are alike share one kernel.
struct DeviceKernel {
  std::string body;
  std::vector<KernelArgument> arguments;
  std::uint32_t threads = 0;  ///< per block
  std::int64_t blocks = 0;
};

/// Tuning parameters of the generated kernels.
struct KernelOptions {
  /// Least elements of maps whose threads make four neighbours each.
  std::int64_t least_wide = std::int64_t{1} << 16;
};

/// Writes kernels for the operations of a plan: the generator.
///
/// Each kind of operation has its class in a device_source….cc, which decides how threads share the elements
/// and in which order a thread reads, computes and writes; the text itself comes from the pieces of
/// device_text.h. Loops names the indices and writes linear forms of them; ElementWriter writes a primitive's
/// steps as one constant per step, in the words of kernels/cuda/generated.cuh; a NumberReader, which is the
/// kernel's class itself, says how a number of a value is read: from memory, or from a constant made before.
/// KernelArguments collects the addresses on the way.
///
/// All extents and strides are literals in the text, since a program is trained for many steps, and compiling
/// it takes seconds. To find equal kernels by their text, nothing in it names a value.
class KernelWriter {
 public:
  /// Borrows `plan`, of which it needs `compiled` and `checked`: these values have a not-finite flag.
  explicit KernelWriter(const Plan& plan, const KernelOptions& options = {})
      : plan_(plan), options_(options) {}

  /// Fused maps, of whose members `stored` lie in memory. A thread reads everything before it writes
  /// anything: a member may lie where another one reads what the same thread writes.
  [[nodiscard]] DeviceKernel maps(const Maps& maps, std::span<const kernels::ValueIndex> stored) const;

  /// Rows, of whose members `stored` lie in memory.
  [[nodiscard]] DeviceKernel rows(const Rows& rows, std::span<const kernels::ValueIndex> stored) const;

  /// One kernel per level, to be run in order; all but the last leave their parts in the operation's scratch.
  [[nodiscard]] std::vector<DeviceKernel> fold(const TeamFold& fold) const;

  [[nodiscard]] DeviceKernel chain(const KeyedChain& chain) const;

  /// A thread per element.
  [[nodiscard]] DeviceKernel value(const Generic& generic) const;

 private:
  const Plan& plan_;
  KernelOptions options_;
};

/// The text of a step's kernels, with equal ones only once.
class KernelText {
 public:
  /// Adds a kernel, unless it is there, and returns its number.
  std::int32_t add(const DeviceKernel& kernel);
  [[nodiscard]] std::int32_t count() const { return static_cast<std::int32_t>(kernels_.size()); }
  /// The whole text. Elementary functions are computed as in the definition, or by pairs of floats
  /// (kernels/function_pairs.h).
  [[nodiscard]] std::string text(bool functions_by_pairs) const;

 private:
  std::vector<std::string> kernels_;  ///< each without its name, which begins the definition
};

}  // namespace dgx::exec
