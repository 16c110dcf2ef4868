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

/// Divides a local program where parts gather: phase n has the lines that wait for n gathers one after
/// another, in their order. A gather is from a line that makes a part's slices of a value to the input that
/// is the whole value.
[[nodiscard]] std::vector<Phase> phases_of(const program::Piece& local);

/// The phase that makes these lines of a local program, and of what they need those for which `is_free`.
[[nodiscard]] Phase phase_making(const program::Piece& local, const std::vector<kernels::ValueIndex>& lines,
                                 const std::function<bool(kernels::ValueIndex line)>& is_free);

}  // namespace dgx::exec
