#include "row_faults.h"

#include <fmt/format.h>

#include "claims.h"
#include "dgx/merkle/digests.h"
#include "dgx/merkle/tree.h"
#include "dgx/protocol/scalar_text.h"

namespace dgx::protocol {
namespace {

using Shown = RowFault::Shown;

RowFault not_shown(std::string words) { return {Shown::kNot, std::move(words)}; }
RowFault is_shown(std::string words) { return {Shown::kFault, std::move(words)}; }

bool opens(const merkle::EntryOpening& entry, const Digest& state) {
  const auto digest = merkle::state_digest_of(entry);
  return digest.ok() && *digest == state;
}

/// Judges the fault that the start state's step counter is not the segment's first step.
RowFault wrong_step(const FaultPost& post, const Digest& state, std::int64_t first) {
  if (!opens(*post.entry, state) || post.entry->name != "step")
    return not_shown("the opened entry is not the start state's step");
  if (const Status status = merkle::check_opening(*post.tensor, post.entry->tensor); !status.ok())
    return not_shown(status.error().message);
  if (post.tensor->dtype != DType::kI64 || !post.tensor->shape.empty())
    return not_shown("the step is not an i64 []: that is another reason");
  const kernels::Number step = number_at(DType::kI64, post.tensor->data, 0);
  if (step.integer == first)
    return not_shown(fmt::format("the start state is at step {}, as it must be", first));
  return is_shown(
      fmt::format("the start state is at step {}, the segment begins at {}", step.integer, first));
}

/// Judges the fault that an entry has another type or shape than the line that reads it.
RowFault wrong_type(const FaultPost& post, const kernels::Primitive& line, const Digest& state) {
  if (!opens(*post.entry, state) || post.entry->name != line.source.name)
    return not_shown("the opened entry is not the line's");
  if (merkle::tensor_digest(post.dtype, post.shape, *post.root) != post.entry->tensor)
    return not_shown("type, shape and root are not the entry's");
  if (post.dtype == line.dtype && post.shape == line.shape)
    return not_shown("the entry has the line's type and shape");
  return is_shown(fmt::format("entry {} is {} {}, the program's is {} {}", post.entry->name,
                              dgx::name_of(post.dtype), to_string(post.shape), dgx::name_of(line.dtype),
                              to_string(line.shape)));
}

/// Judges neighbours: that an entry is missing between them or, without `name`, that they are in the wrong
/// order.
RowFault wrong_neighbours(const FaultPost& post, const std::string* name, const Digest& state) {
  if (post.before && !opens(*post.before, state))
    return not_shown("the entry before does not belong to the start state");
  if (post.after && !opens(*post.after, state))
    return not_shown("the entry after does not belong to the start state");
  const bool none = !post.before && !post.after && name != nullptr;
  if (none && state == merkle::state_digest(0, merkle::empty_root()))
    return is_shown("the start state has no entries");
  if (!post.before && (!post.after || post.after->index != 0))
    return not_shown("the entry before is not opened");
  if (!post.after && post.before->index + 1 != post.before->count)
    return not_shown("the entry after is not opened");
  if (post.before && post.after && post.before->index + 1 != post.after->index)
    return not_shown("the opened entries are not adjacent");
  if (name == nullptr) {
    if (!post.before || !post.after || post.before->name < post.after->name)
      return not_shown("the names ascend");
    return is_shown(fmt::format("entry {} does not come after {}", post.after->name, post.before->name));
  }
  if (post.before && post.before->name >= *name)
    return not_shown("the line's entry does not come after the one before");
  if (post.after && post.after->name <= *name)
    return not_shown("the line's entry does not come before the one after");
  return is_shown(fmt::format("the start state has no entry {}", *name));
}

RowFault wrong_state(const FaultPost& post, const Digest& state, const manifest::Task& task) {
  if (!post.line) {
    if (!post.entry) return wrong_neighbours(post, nullptr, state);
    if (!opens(*post.entry, state)) return not_shown("the opened entry does not belong to the start state");
    if (post.tensor) {
      const Judgement judgement = judge_non_finite({task, 0, {}, state, {}}, {*post.entry, *post.tensor});
      if (!judgement.proven) return not_shown(judgement.words);
      return is_shown(fmt::format("entry {} of the start state is not finite at element {}", post.entry->name,
                                  *judgement.element));
    }
    return {Shown::kForeign,
            fmt::format("entry {} of the start state is not the program's", post.entry->name)};
  }
  const auto line = open_line(*post.line, task);
  if (!line.ok()) return not_shown(line.error().message);
  if (!is_state_input(*line)) return not_shown("the line is not a state input");
  if (post.entry && post.root) return wrong_type(post, *line, state);
  return wrong_neighbours(post, &line->source.name, state);
}

RowFault not_finite(const FaultPost& post, std::int64_t first, std::int64_t end, const manifest::Task& task) {
  if (*post.step <= first || *post.step > end)
    return not_shown(fmt::format("step {} is not in the segment", *post.step));
  const Step step{task, *post.step - 1, {}, *post.digest, {}};
  const Judgement judgement = judge_non_finite(step, {*post.entry, *post.tensor});
  return {judgement.proven ? Shown::kState : Shown::kNot, judgement.words};
}

enum Field : unsigned {
  kStep = 1,
  kDigest = 2,
  kEntry = 4,
  kTensor = 8,
  kLine = 16,
  kRoot = 32,  ///< with type and shape
  kBefore = 64,
  kAfter = 128
};

unsigned fields_of(const FaultPost& post) {
  return (post.step ? kStep : 0U) | (post.digest ? kDigest : 0U) | (post.entry ? kEntry : 0U) |
         (post.tensor ? kTensor : 0U) | (post.line ? kLine : 0U) | (post.root ? kRoot : 0U) |
         (post.before ? kBefore : 0U) | (post.after ? kAfter : 0U);
}

}  // namespace

bool is_form_of(manifest::RowReason reason, const FaultPost& post) {
  const unsigned fields = fields_of(post);
  switch (reason) {
    case manifest::RowReason::kStep: return fields == (kEntry | kTensor);
    case manifest::RowReason::kState:
      return (fields & ~(kBefore | kAfter)) == kLine || fields == (kEntry | kLine | kRoot) ||
             fields == (kBefore | kAfter) || fields == (kEntry | kTensor) || fields == kEntry;
    case manifest::RowReason::kNonFinite: return fields == (kStep | kDigest | kEntry | kTensor);
    default: return false;
  }
}

RowFault judge_row_fault(manifest::RowReason reason, const FaultPost& post, const Digest& state,
                         std::int64_t first, std::int64_t end, const manifest::Task& task) {
  switch (reason) {
    case manifest::RowReason::kStep: return wrong_step(post, state, first);
    case manifest::RowReason::kState: return wrong_state(post, state, task);
    case manifest::RowReason::kNonFinite: return not_finite(post, first, end, task);
    default: return not_shown("the row's reason is a digest");
  }
}

}  // namespace dgx::protocol
