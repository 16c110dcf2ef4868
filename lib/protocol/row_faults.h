#pragma once

#include <string>

#include "dgx/manifest/task.h"
#include "dgx/manifest/verdict.h"
#include "dgx/protocol/say.h"

namespace dgx::protocol {

/// The judgement of a row's fault, where its verifier could not replay (dgx-dispute(7), "Moves and claims", fault).
struct RowFault {
  enum class Shown {
    kNot,      ///< the evidence does not show it
    kFault,    ///< it is there
    kForeign,  ///< an entry that is said not to be the program's: the challenger may show its line
    kState,    ///< a state that is not finite: whether the segment leads to it is played
  };
  Shown shown = Shown::kNot;
  std::string words;
};

/// Whether the post has the fields of one of the forms of this reason, and no others.
[[nodiscard]] bool is_form_of(manifest::RowReason reason, const FaultPost& post);

/// The post has a form of the reason. `state` is the segment's committed start state, `first` and `end` its
/// steps.
[[nodiscard]] RowFault judge_row_fault(manifest::RowReason reason, const FaultPost& post, const Digest& state,
                                       std::int64_t first, std::int64_t end, const manifest::Task& task);

}  // namespace dgx::protocol
