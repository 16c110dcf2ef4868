#pragma once

#include <functional>
#include <vector>

#include "dgx/program/pieces.h"

namespace dgx::exec {

/// Lines of a local program that need no more gathers than those of the phases before.
struct Phase {
  program::Piece piece;  ///< what it reads of earlier phases are inputs `state made/N`
  kernels::ByValue<kernels::ValueIndex> origin;  ///< of each of its lines the local program's
};

/// Divides a local program where ranks wait: phase n has the lines whose number in program::waits_of() is n,
/// in their order, but for folds in `last`, which stand behind the others of their phase, as in
/// program::folds_behind_gathers(). There are as many phases for all ranks, so one may have no line.
[[nodiscard]] std::vector<Phase> phases_of(const program::Piece& local,
                                           const kernels::ByValue<std::size_t>& waits,
                                           const std::vector<kernels::ValueIndex>& last);

/// The phase that makes these lines of a local program, and of what they need those for which `is_free`.
[[nodiscard]] Phase phase_making(const program::Piece& local, const std::vector<kernels::ValueIndex>& lines,
                                 const std::function<bool(kernels::ValueIndex line)>& is_free);

}  // namespace dgx::exec
