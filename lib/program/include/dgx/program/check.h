#pragma once

#include <set>
#include <string>
#include <string_view>

#include "dgx/core/result.h"
#include "dgx/program/program.h"

namespace dgx::program {

/// Most leaves of 1 KiB that one element of a map, or one term of a fold, may open on any way through its
/// selects, and most such ways (dgx-program(5), "Leaves").
inline constexpr int kMaxLeaves = 6;
inline constexpr std::size_t kMaxWays = 128;
/// Most parts, between slashes, of a state entry's name.
inline constexpr std::size_t kMaxNameParts = 8;
/// Most bytes of all values together, and most scalar operations of one step: a program beyond these is
/// refused before anything is allocated.
inline constexpr std::int64_t kMaxValueBytes = std::int64_t{1} << 45;
inline constexpr std::int64_t kMaxOperations = std::int64_t{1} << 62;

enum class ProgramRole {
  kTraining,  ///< a step: exactly one `state step` (i64 []) and `state loss` (f32 []); every state input has
              ///< a `next`
  kEvaluation,  ///< the forward pass: no `next`; the last value is f32 [batch], each sample's loss, or f32
                ///< [], a whole batch's
  kPiece,  ///< a part of a step (dgx-placement(7), "Local programs"): a state input may also be `value/N` or
           ///< `carry/N`, none needs a `next`, and leaves are not counted
};

/// Proves what every user of a program relies on: nobody who evaluates, compiles or prices a checked program
/// can be led outside a tensor, into an endless loop or to an unexpected type (dgx-program(5), "What a reader
/// proves"):
/// - values are defined before they are used; shapes, views and iteration shapes have equal counts; nothing
/// is empty or overflows;
/// - every step has operands of the types its operation takes (dgx-numerics(7)), and the last one gives the
/// line's type;
/// - an access without fill is inside for every index, by interval arithmetic; `$j` (alone in its coordinate,
/// one level, an integer value) and `/d` have a fill;
/// - a dot has two plain accesses, besides the indices that they name; every access and step is used;
/// - at most kMaxLeaves leaves, those of a chain's `init` too; `init` has no fold index, `when` is an
/// integer;
/// - inputs: sources and schedule names from the closed lists, at most one input for each state entry, names
/// that a bundle can hold, a `next` of the same type and shape, and for `step` a `next` that adds one.
/// kMalformed, naming line and field. Cost: linear in the text.
[[nodiscard]] Status check_program(const Program& program, ProgramRole role = ProgramRole::kTraining);

/// Checks a state entry's name: printable ASCII without spaces, at most kMaxNameBytes, in parts for each of
/// which a bundle has a group (dgx-bundle(5), "Names"). kMalformed.
[[nodiscard]] Status check_entry_name(std::string_view name);

/// Checks that none of these names is that of a group which another one needs, as "a" beside "a/b".
/// kMalformed.
[[nodiscard]] Status check_entry_groups(const std::set<std::string>& names);

}  // namespace dgx::program
