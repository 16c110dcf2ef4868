#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "call_values.h"

/// Large tensors without their numbers.
///
/// A pass is captured for its calls. Numbers that differ from step to step reach neither the program nor the
/// initial state: the recorder refuses every call that reads one. So a large tensor of this kind is zeros, on
/// pages that take no memory until somebody touches them, and a call whose results' form libtorch's kernels
/// for the meta device tell does not run. What is the same in every step is always computed.
///
/// A pass without numbers that fails for whatever reason, or in which a call depends on numbers that are not
/// there, counts for nothing: capture.cc captures again with AllNumbers.
namespace dgx::torch_bridge {

/// A tensor of more bytes is large.
inline constexpr std::size_t kSmallBytes = std::size_t{256} << 10;
[[nodiscard]] bool is_small(const at::Tensor& tensor);

/// While one is alive no tensor lacks its numbers, and every call runs. One at a time, on one thread.
class AllNumbers {
 public:
  AllNumbers();
  ~AllNumbers();
  AllNumbers(const AllNumbers&) = delete;
  AllNumbers& operator=(const AllNumbers&) = delete;
};

/// Zeros that take no memory before they are touched. The sizes and strides must be those of a tensor.
[[nodiscard]] at::Tensor untouched_zeros(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type);
/// The same, dense: for a small tensor ordinary zeros.
[[nodiscard]] at::Tensor zeros(at::IntArrayRef sizes, at::ScalarType type);
/// A tensor that a pass may have, and write into, in place of `numbers`: of the same form; a copy if small.
[[nodiscard]] at::Tensor stand_in_for(const at::Tensor& numbers);
/// True if `tensor` lies in memory of untouched_zeros().
[[nodiscard]] bool is_untouched(const at::Tensor& tensor);

/// The bounds of the numbers by which a model looks up others: kKept if it computes them so that they are
/// inside, as zeros in their place would be.
enum class IndexBounds { kUnknown, kKept };

/// A call whose results differ from step to step.
class VaryingCall {
 public:
  /// `is_blank` says of an argument whether it lacks its numbers; `indices`, whether numbers by which others
  /// are looked up may be outside.
  VaryingCall(const c10::OperatorHandle& op, CallValues arguments,
              const std::function<bool(const at::Tensor&)>& is_blank, IndexBounds indices)
      : op_(op),
        arguments_(arguments),
        has_blank_(any_tensor(arguments, is_blank)),
        is_blank_(is_blank),
        index_bounds_(indices) {}

  struct Outcome {
    bool is_blank = false;     ///< the results lack their numbers
    bool is_in_doubt = false;  ///< the results depend on numbers that are not there, and mean nothing
    std::string fault;         ///< if not empty: a kernel is not as numberless.cc has it
  };
  /// Puts the results onto `stack`, which ends with the arguments, in their place: `run` does that, unless a
  /// tensor of the call is large and its results' form can be told. Throws what `run` throws.
  [[nodiscard]] Outcome give_results(torch::jit::Stack& stack, const std::function<void()>& run) const;

 private:
  struct Index {
    at::Tensor numbers;
    std::int64_t size = 0;   ///< of the dimension in which they look up
    std::int64_t least = 0;  ///< the first that fits: −size if negative ones count from the end
  };
  [[nodiscard]] std::vector<Index> indices() const;
  [[nodiscard]] bool must_run(const torch::jit::Stack& told) const;

  const c10::OperatorHandle& op_;
  CallValues arguments_;
  bool has_blank_;
  std::function<bool(const at::Tensor&)> is_blank_;
  IndexBounds index_bounds_;
};

}  // namespace dgx::torch_bridge
