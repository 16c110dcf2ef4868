#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "dgx/core/result.h"
#include "dgx/core/tensor.h"
#include "dgx/lowering/ends.h"
#include "dgx/program/model_archive.h"

namespace dgx::lowering {

/// One training (or evaluation) pass of a model as libtorch dispatched it, in plain data: what lib/torch
/// records and lower.h turns into primitives. Tensors are numbered; every number is defined once, by
/// `tensors` or by one call.

using TensorId = std::int32_t;

struct AtenTensor {
  DType dtype = DType::kF32;
  Shape shape;
  bool boolean = false;  ///< torch.bool, held as u8 0 or 1 (~x is 1-x, + is or)
};

/// An argument of a call.
///
/// monostate: None, or a generator. Optional tensors and lists of tensors use nullopt for undefined. A Scalar
/// is bool, int64 or double, and so is a tensor argument that stands for a host number (`x * 0.5` reaches
/// aten::mul.Tensor with `other` a double). A dtype is its name: "float32", "float64", "int64", "bool", …; a
/// layout "strided"; a memory format "contiguous", "preserve" or "channels_last"; a device "cpu".
using AtenArgument = std::variant<std::monostate, bool, std::int64_t, double, std::string,
                                  std::vector<std::int64_t>, std::vector<double>, std::vector<bool>,
                                  std::optional<TensorId>, std::vector<std::optional<TensorId>>>;

/// One call. Calls are functional: none changes an argument. native_batch_norm, which in libtorch writes its
/// running statistics silently, has two results more in that case: the new running mean and variance. Views
/// are calls like others (view, t, permute, …), never their _copy forms unless the model asked for one.
struct AtenCall {
  std::string name;                         ///< "aten::addmm", without the overload
  std::string overload;                     ///< "", "Tensor", "dim_IntList", …
  std::vector<std::string> argument_names;  ///< the schema's names, one per argument
  std::vector<AtenArgument> arguments;
  std::vector<std::optional<TensorId>> results;  ///< flattened; nullopt: undefined
  /// Place of the call: "forward", "forward (model.py:12)", "backward of GeluBackward0"; for messages.
  std::string place;
};

/// A parameter, buffer or literal tensor that existed before the pass.
struct AtenSource {
  enum class Kind { kParameter, kBuffer, kConstant };
  Kind kind = Kind::kParameter;
  std::string name;  ///< dotted module path, "layer1.weight"; constants: "constant.N"
  TensorId tensor = 0;
  Tensor value;  ///< its numbers at capture; not those of an evaluation's parameters and buffers
  /// Without numbers: what stands for the infinities that they have in training (match_sources()).
  std::optional<float> infinity = std::nullopt;

  [[nodiscard]] bool has_numbers() const { return !value.bytes().empty(); }
};

/// Another name of a parameter or buffer: tied weights are one source, by their first name.
struct TiedName {
  std::string name, first;
};

/// An argument of forward() that takes a field of the batch.
struct AtenInput {
  std::string field;    ///< "x", "y", "mask"
  TensorId tensor = 0;  ///< the field in the type that the argument takes
};

/// The place where a cut is (program::CutSpec): a call that copies a tensor, forward and backward.
struct AtenCut {
  TensorId activation = 0;  ///< what the block in front of it gives
  TensorId message = 0;     ///< its copy, with which the model goes on
  TensorId gradient = 0;    ///< the gradient of `message`
  TensorId returned = 0;    ///< its copy, with which the backward pass goes on
};

/// The result of one capture.
struct CapturedGraph {
  std::vector<AtenTensor> tensors;  ///< indexed by TensorId
  /// Sorted by kind, then name; tied weights are one, by their first name.
  std::vector<AtenSource> sources;
  std::vector<TiedName> tied;
  std::vector<AtenCall> calls;    ///< in order; only those whose results are needed
  std::vector<AtenInput> inputs;  ///< in the order of forward()'s arguments
  TensorId output = 0;            ///< the result of forward(), or the one of its results that was asked for
  /// Training: one number, which the model adds to the loss of its output; its gradient is 1.
  std::optional<TensorId> penalty;
  std::optional<AtenCut> cut;  ///< training, if the request has one
  /// Training: stands for d loss / d output, defined by the loss lowering.
  std::optional<TensorId> output_gradient;
  /// For training: the gradient of each parameter, by source index (parameters are the first sources);
  /// nullopt if the loss does not depend on it or it is frozen.
  std::vector<std::optional<TensorId>> gradients;
  /// The buffers that the pass replaces: source index, and the tensor that becomes its value.
  std::vector<std::pair<std::size_t, TensorId>> buffer_updates;
  std::string warning;  ///< what the submitter should hear of the file, though it was captured; or empty

  /// The form of one of `sources`, whose tensor must be in `tensors`.
  [[nodiscard]] const AtenTensor& form(const AtenSource& source) const {
    return tensors[static_cast<std::size_t>(source.tensor)];
  }
};

/// A field of the dataset, as a batch of it meets a model.
struct BatchField {
  std::string name;
  Shape shape;                ///< of a batch, batch first
  DType dtype = DType::kF32;  ///< the type in which a model takes it whose file does not say
  bool boolean = false;       ///< torch.bool, with kU8
  bool asked = false;         ///< the user named this type: a file that says another is refused
};

struct CaptureRequest {
  std::string model;               ///< "mlp:784-256-128-10", or a file
  std::string program = {};        ///< of a file's programs, the one of this name; empty: the only one
  std::vector<BatchField> fields;  ///< the dataset's
  InputMap inputs = {};            ///< the fields of some arguments, as the user gave them
  bool loss_takes_y = true;        ///< the field y may be without an input
  std::string output = {};         ///< which of several results (ends.h); empty: the only one
  bool training = true;            ///< false: evaluation mode, forward only
  /// Built-in models, training: the block behind which they are cut, from 1 on; 0: none.
  std::int64_t cut_block = 0;
};

/// The interface of libdgx_torch.so; opened when a command needs libtorch (jobs/task/torch_module.h).
class CaptureBackend : public program::ModelReader {
 public:
  /// kMissing: no such file. kMalformed: neither an archive of torch.export nor a TorchScript file, or
  /// forward() failed (libtorch's message). kUsage: an op, dtype or shape that cannot be captured, by name
  /// and place.
  [[nodiscard]] virtual Result<CapturedGraph> capture(const CaptureRequest& request) = 0;
  /// libtorch's version, for example "2.11.0".
  [[nodiscard]] virtual std::string version() const = 0;
};

}  // namespace dgx::lowering
