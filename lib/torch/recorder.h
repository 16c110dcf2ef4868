#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/util/intrusive_ptr.h>

#include <cstddef>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "call_values.h"
#include "dgx/lowering/aten.h"
#include "numberless.h"

namespace dgx::torch_bridge {

/// Thrown through libtorch to end a pass that cannot be captured; the recorder keeps the message, because the
/// TorchScript interpreter and the autograd engine wrap what they rethrow.
struct Refusal : std::exception {
  [[nodiscard]] const char* what() const noexcept override { return "capture refused"; }
};

/// The plain tensor that holds the numbers of `tensor` now; `tensor` itself if it is not wrapped for
/// functionalisation.
at::Tensor unwrapped(const at::Tensor& tensor);

/// The type that a program has for an element type; nullopt: none.
[[nodiscard]] std::optional<DType> dtype_of(at::ScalarType type);
/// A tensor's numbers, row-major, in the type that a program has for them; nothing of use if it has none.
[[nodiscard]] Tensor numbers_of(const at::Tensor& tensor);

/// The name of an element type as Python has it: "float32".
[[nodiscard]] std::string dtype_name(at::ScalarType type);

/// Records the calls that pass the dispatch key `Fake` while the recorder is alive, on the thread that made
/// it.
///
/// Functionalisation sits above that key, so in-place calls and views arrive here as calls that change
/// nothing and whose arguments are plain tensors. A tensor is identified by its address. Addresses must not
/// be used again, so the recorder holds a weak reference to each tensor: that keeps the address but lets the
/// numbers go, and a capture needs no more memory than the pass itself.
class Recorder {
 public:
  Recorder();
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /// The recorder of this pass, or null. Throws Refusal if the pass has moved to another thread.
  static Recorder* active();

  enum class Numbers { kThere, kMissing };
  /// Gives a number to a tensor that exists before the pass; of untouched zeros `numbers` says if they stand
  /// for others.
  lowering::TensorId define(const at::Tensor& tensor, Numbers numbers);
  /// Gives a number to a parameter, buffer or literal. Of a literal the numbers are copied; a parameter or
  /// buffer that is untouched zeros stands for others.
  lowering::TensorId define_source(lowering::AtenSource::Kind kind, std::string name,
                                   const at::Tensor& tensor);
  /// The number of `tensor`; a tensor never seen before is a literal.
  lowering::TensorId id_of(const at::Tensor& tensor);

  /// True if numbers in `value` depend on the input, the state or a random draw. Its tensors must be plain.
  [[nodiscard]] bool varies(const c10::IValue& value) const;

  /// Refuses, by throwing, a call whose result cannot be known at capture. Must be called before the call
  /// runs.
  void check(const c10::OperatorHandle& op, CallValues arguments);
  /// True if the results of a call depend on the input, the state or a random draw.
  [[nodiscard]] bool gives_varying(const c10::OperatorHandle& op, CallValues arguments) const;
  /// Puts the results of a call onto the stack in place of its arguments. One that differs from step to step
  /// may be told without running (numberless.h): true if its results lack their numbers. Any other runs,
  /// within the bounds of constant_memory.h, beyond which it is refused by throwing.
  [[nodiscard]] bool give_results(const c10::OperatorHandle& op, CallValues arguments,
                                  torch::jit::Stack& stack, const std::function<void()>& run);
  /// Records a call that has its results; `is_blank` is what give_results() returned.
  void record(const c10::OperatorHandle& op, CallValues arguments, CallValues results, bool is_blank);

  /// Returns the recorded graph, with `input`, `output` and the rest as the caller has set them in `roots`:
  /// drops what nothing needs, numbers tensors in order of appearance, sorts the sources.
  Result<lowering::CapturedGraph> finish(lowering::CapturedGraph roots);

  [[nodiscard]] const std::string& refusal() const { return refusal_; }
  [[nodiscard]] const std::string& hint() const { return hint_; }
  /// Not empty: the pass ended by a fault of this module, not of the model.
  [[nodiscard]] const std::string& fault() const { return fault_; }
  void set_index_bounds(IndexBounds bounds) { index_bounds_ = bounds; }
  /// "forward" or "backward": the first word of every place.
  void set_pass(std::string pass) { pass_ = std::move(pass); }
  /// The user's line of the calls to come, "net.py:9", where the file says it itself: for archives of
  /// torch.export. Empty: none.
  void set_line(std::string line) { line_ = std::move(line); }

 private:
  struct Known {
    lowering::AtenTensor tensor;
    std::string dtype;      ///< libtorch's name of the dtype
    bool supported = true;  ///< whether DType has it
    bool varies = false;    ///< whether its numbers depend on the input, the state or a random draw
    bool is_blank = false;  ///< whether the tensor lacks its numbers (numberless.h)
  };
  struct Nature {
    bool varies = false;
    bool is_blank = false;
  };

  [[noreturn]] void refuse(std::string message, std::string hint = {});
  [[nodiscard]] std::string place() const;
  [[nodiscard]] const lowering::TensorId* find(const at::Tensor& tensor) const;
  [[nodiscard]] bool is_blank(const at::Tensor& tensor) const;
  lowering::TensorId number(const at::Tensor& tensor, bool varies, bool is_blank);
  lowering::AtenArgument argument(const c10::IValue& value, const c10::Argument& formal);
  lowering::AtenArgument tensor_argument(const at::Tensor& tensor);
  void add_result(const at::Tensor& tensor, Nature nature, lowering::AtenCall& call, bool& is_new);

  std::thread::id thread_ = std::this_thread::get_id();
  std::string pass_ = "forward";
  std::string line_;
  std::string refusal_, hint_, fault_;
  std::size_t constant_bytes_ = 0;
  IndexBounds index_bounds_ = IndexBounds::kUnknown;
  std::vector<Known> known_;
  std::vector<lowering::AtenSource> sources_;
  std::vector<lowering::AtenCall> calls_;
  std::unordered_map<const c10::TensorImpl*, lowering::TensorId> ids_;
  std::vector<c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>> addresses_;
};

}  // namespace dgx::torch_bridge
