#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "dgx/core/result.h"
#include "dgx/program/classes.h"
#include "dgx/program/program.h"

namespace dgx::program {

/// Slices begin … end−1 of a batch.
struct SliceRange {
  std::int64_t begin = 0, end = 0;
};

/// A line of a piece: what it is of the step program's line `value`.
struct PieceLine {
  enum class As : std::uint8_t {
    kMade,    ///< the line itself: the part's slices, the part's share of a fold, or all of it
    kWhole,   ///< the input `state value/N`, its whole value
    kCarry,   ///< the input `state carry/N`, its running state, which becomes the line
    kSlices,  ///< the input `state value/N`, the part's slices of what another rank makes
  };
  kernels::ValueIndex value{};
  As as = As::kMade;
  bool operator==(const PieceLine&) const = default;
};

/// A program for some lines of a step (dgx-placement(7), "Local programs"), which check_program() accepts in
/// the role kPiece.
struct Piece {
  Program program;
  kernels::ByValue<PieceLine> origins;  ///< one for each of its lines
};

/// The local program of a part: the body for some slices. A line of class C has its carry before it, the
/// entry that it becomes. A chain begins there, unless the part is the first. A dot is over the part's
/// positions alone: whoever runs the piece must go on with its running state (kernels/dot_state.h), of which
/// the text says no more. Of a line that is at home on another rank than `rank` it has what lines of class S
/// read, as an input (dgx-placement(7), "Experts").
///
/// kUsage, naming the step program's line and the cap, if a line or the piece would exceed one of
/// dgx-program(5), or if the body has no line; kInternal unless the part is one of classes.slices.
[[nodiscard]] Result<Piece> local_program(const Program& program, const Classes& classes, SliceRange part,
                                          int rank = 0);

/// The tail: what is done once when all parts are. Its state inputs have a `next` as the program's; entries
/// of class S, which whoever runs the parts has divided, are none of them, nor are entries and lines that are
/// at home on another rank than `rank`. Errors as local_program(); kMalformed if it would have no line, as no
/// step program's has.
[[nodiscard]] Result<Piece> tail_program(const Program& program, const Classes& classes, int rank = 0);

/// The first gather of the body whose value depends on a state input: only parts that are made side by side
/// can gather it. nullopt if there is none: then head_program() has all that the body gathers, and parts can
/// be made one after another.
[[nodiscard]] std::optional<Gather> first_obstacle(const Program& program, const Classes& classes);

/// The head: the values that the body gathers, and all that they need, whole. Without lines if the body
/// gathers nothing. kInternal if there is an obstacle.
[[nodiscard]] Result<Piece> head_program(const Program& program, const Classes& classes);

/// The names of a piece's inputs that are no entries: "value/17", "carry/17".
[[nodiscard]] std::string value_name(kernels::ValueIndex value);
[[nodiscard]] std::string carry_name(kernels::ValueIndex value);

}  // namespace dgx::program
