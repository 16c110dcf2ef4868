#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "dgx/core/result.h"
#include "dgx/core/tensor.h"
#include "dgx/lowering/aten.h"
#include "dgx/program/cut_spec.h"
#include "dgx/program/program.h"
#include "dgx/program/specs.h"

namespace dgx::lowering {

/// A field of the dataset: the dtype it is stored in, and one sample's shape.
struct DatasetField {
  DType dtype = DType::kF32;
  Shape sample_shape;
};

/// The parts of a training step around the captured model.
struct TrainingRecipe {
  std::map<std::string, DatasetField, std::less<>> fields;  ///< x, perhaps y, and others
  float scale = 1;                                          ///< the model sees fma(float(x), scale, shift)
  float shift = 0;
  std::int64_t batch = 1;
  program::LossSpec loss;
  program::OptimizerSpec optimizer;
  std::optional<double> clip_norm;  ///< bound of the gradients' global norm
  program::UpdateSpec update = {};
  /// The task's. Only plateau is in the program, whose parameters must be valid
  /// (program::schedule_parameters).
  program::ScheduleSpec schedule = {};
  std::optional<program::CutSpec> cut = {};
  std::int64_t samples = 0;  ///< of the dataset; a cut keeps a message of each
};

/// One training step as primitives: the captured forward and backward, the loss written from the model's
/// output and y, clipping and the optimiser (dgx-lowerings(7)). Dead calls are dropped before anything is
/// lowered, so that only needed ops need a lowering.
///
/// Inputs, in order: state entries by name, `batch NAME` by name, one `schedule` vector, constants, random
/// inputs. Entries: `model/NAME` for parameters, buffers and large constants; `optimizer/momentum/NAME`, or
/// `optimizer/exp_avg/NAME` and `optimizer/exp_avg_sq/NAME`, or, with a row for each worker,
/// `optimizer/velocity/NAME` and `optimizer/residual/NAME`; `optimizer/message/N` of a cut;
/// `optimizer/plateau/…` of that schedule; `step`
/// (i64 []), `loss` (f32 [], the mean loss of the step's batch). Cross entropy wants y u8 or i64 and an
/// output with a class_dimension; mse an output of y's shape, and y f32; output, which the model computes
/// itself, one number.
///
/// kUsage, naming the op and its place: an op, option, dtype or shape without an exact lowering, or a recipe
/// and graph that do not fit together, such as a group that takes no parameter, or a gradient that dgc's
/// workers cannot share. The result passes
/// program::check_program(…, kTraining); kInternal if not.
[[nodiscard]] Result<program::Program> lower_training_step(const CapturedGraph& graph,
                                                           const TrainingRecipe& recipe);

/// Fits the sources of a model in evaluation to those in training, whose state an evaluation reads: literals
/// that are entries (more than 64 numbers) get the names that literals of the same numbers have there,
/// because each pass counts its own; parameters and buffers without numbers, what stands for their
/// infinities. kUsage if training has no literal of such numbers.
[[nodiscard]] Status match_sources(const CapturedGraph& training, CapturedGraph& evaluation);

/// The forward pass in evaluation mode: state inputs `model/NAME` without `next`, `batch NAME`. The
/// last value is f32 [batch], each sample's own loss: the mean over its targets, without label smoothing and
/// class weights. For cross entropy the value before it is i64 [batch]: the number of the sample's targets
/// that are the largest output (the first on ties). If the loss ignores a class number, the value before that
/// is i64 [batch], the number of targets that count, and the loss is their sum. If the model computes its own
/// loss, the last value is that, f32 [], and it is the only one.
[[nodiscard]] Result<program::Program> lower_evaluation(const CapturedGraph& graph,
                                                        const TrainingRecipe& recipe);

/// The dimension of a model's output that holds the classes of cross entropy, by the rule of dgx-submit(1),
/// "Losses": `targets` is y's shape, batch first. nullopt if they do not fit.
[[nodiscard]] std::optional<std::size_t> class_dimension(const Shape& output, const Shape& targets);

/// program::initial_state() with the graph's own numbers (of a model file): every `model/NAME` is the
/// source NAME's value, which is not copied if the graph is moved. kMalformed if one is missing or of another
/// type or shape.
[[nodiscard]] Result<State> initial_state(const program::Program& program, CapturedGraph graph);

/// True if there is a lowering for the ATen op `name` ("aten::relu").
[[nodiscard]] bool has_lowering(std::string_view name);

}  // namespace dgx::lowering
