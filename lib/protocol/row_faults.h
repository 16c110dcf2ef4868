#pragma once

#include <string>

#include "dgx/manifest/task.h"
#include "dgx/manifest/verdict.h"
#include "dgx/protocol/message.h"

namespace dgx::protocol {

/// The judgement of a row's fault, for a row whose verifier could not replay (dgx-dispute(7), "Moves and
/// claims", fault).
struct RowFault {
  enum class Shown {
    kNot,      ///< the evidence does not show it
    kFault,    ///< the fault is there
    kForeign,  ///< an entry said not to be the program's: the challenger may show its line
    kState,    ///< a state that is not finite; the game then plays whether the segment leads to it
  };
  Shown shown = Shown::kNot;
  std::string words;
};

/// True if the post has exactly the fields of one of the reason's forms.
[[nodiscard]] bool is_form_of(manifest::RowReason reason, const FaultPost& post);

/// Judges a post, which must have a form of the reason. `state` is the segment's committed start state,
/// `first` and `end` its steps.
[[nodiscard]] RowFault judge_row_fault(manifest::RowReason reason, const FaultPost& post, const Digest& state,
                                       std::int64_t first, std::int64_t end, const manifest::Task& task);

}  // namespace dgx::protocol
