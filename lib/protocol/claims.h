#pragma once

#include <optional>
#include <string>

#include "dgx/kernels/primitive.h"
#include "dgx/manifest/dispute.h"
#include "dgx/manifest/task.h"
#include "dgx/protocol/fold_levels.h"
#include "dgx/protocol/message.h"

namespace dgx::protocol {

/// Judges claims (dgx-dispute(7), "Moves and claims") from the evidence that they bring and the digests that
/// the defender is bound to.

struct Judgement {
  bool proven = false;
  std::string words;
  std::optional<manifest::JudgedScalar> scalar;
  std::optional<std::int64_t> element;  ///< if the evidence names one
};

/// The step in question, as the defender showed it.
struct Step {
  const manifest::Task& task;
  std::int64_t step = 0;
  Digest before, after;  ///< states
  Digest table;          ///< root of the value table
};

/// The line that `opened` opens in the task's program. kMalformed if it opens none, or its text is not a
/// line.
[[nodiscard]] Result<kernels::Primitive> open_line(const OpenedLine& opened, const manifest::Task& task);

/// True if the line is the input of an entry of the state.
[[nodiscard]] inline bool is_state_input(const kernels::Primitive& line) {
  return line.kind == kernels::Kind::kInput && line.source.kind == kernels::Source::Kind::kState;
}

/// The number stored at `offset` in a leaf's bytes; a NaN keeps its own bits.
[[nodiscard]] kernels::Number number_at(DType dtype, ByteView bytes, std::size_t offset);

/// True for a batch input whose numbers are the dataset's; false for the numbers of the samples themselves,
/// `batch i`, and any other line.
[[nodiscard]] bool reads_data(const manifest::Task& task, const kernels::Primitive& line);
/// The index, in the dataset's field, of an element of a batch input of step `step`. kMalformed if the line
/// is not a batch of a field of the task.
[[nodiscard]] Result<std::int64_t> dataset_element(const manifest::Task& task, std::int64_t step,
                                                   const kernels::Primitive& line, std::int64_t element);

/// Claim: input `value`, which the defender shows with `digest`, is not the entry of the state before the
/// step.
[[nodiscard]] Judgement judge_state_input(const Step& step, const StateInputClaim& claim, std::int64_t value,
                                          const Digest& digest);
/// Claim: an entry of the state after the step is wrong, out of order or missing. `shown` is entry `index` of
/// `count`; null if the claim is about what comes after the last one.
[[nodiscard]] Judgement judge_entry(const Step& step, const EntryClaim& claim, const EntryPost* shown,
                                    std::int64_t index, std::int64_t count);
/// Claim: an element of an input that is no state is not the number that the task and its dataset give.
[[nodiscard]] Judgement judge_input(const Step& step, const kernels::Primitive& line, std::int64_t element,
                                    const kernels::Number& claimed, const InputClaim& claim);
/// Claim: an element of a map is not what its operands give.
[[nodiscard]] Judgement judge_element(const Step& step, const kernels::Primitive& line,
                                      kernels::ValueIndex value, std::int64_t element,
                                      const kernels::Number& claimed, const OperationClaim& claim);
/// Claim: a running result of a fold is not what the one before it and the position's operands give.
[[nodiscard]] Judgement judge_position(const Step& step, const kernels::Primitive& line,
                                       kernels::ValueIndex value, std::int64_t element,
                                       const FoldLevels::Position& position, const OperationClaim& claim);
/// Claim: the state after the step has a number that is not finite.
[[nodiscard]] Judgement judge_non_finite(const Step& step, const NonFiniteClaim& claim);

}  // namespace dgx::protocol
