#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "dgx/core/result.h"
#include "dgx/program/classes.h"

namespace dgx::placement {

/// Bytes of the length that goes before a coded message (dgx-placement(7), "Codings").
inline constexpr std::int64_t kLengthBytes = 8;

/// The work of a step's ranks between two messages (dgx-placement(7), "Ranks"). Work is counted in
/// scalar operations, as in an estimate.
struct Stretch {
  double of_slices = 0;  ///< operations for all slices: a rank does its share
  double whole = 0;      ///< operations that every rank does
  /// The running state of a line of class C, which a rank waits for before the stretch and hands on behind
  /// it.
  struct Carry {
    std::int64_t bytes = 0;                 ///< of the line's value
    std::optional<std::int64_t> positions;  ///< of a dot: those of the fold; nullopt for a chain
    std::optional<double> density = {};     ///< of a sparse line: the share of its numbers that a slice adds
  };
  std::optional<Carry> carry = {};
  std::vector<double> at_home = {};  ///< by rank, operations of experts at home there; ranks behind have none

  /// The operations of a rank that has this share of the slices.
  [[nodiscard]] double operations(std::size_t rank, double share) const {
    return of_slices * share + whole + (rank < at_home.size() ? at_home[rank] : 0);
  }
};

/// Rows that ranks send each other because experts are at home on one of them.
struct HomeRows {
  int home = 0;
  enum class Way : std::uint8_t {
    kThere,  ///< each rank sends its slices to the home
    kBack,   ///< the home sends each rank that rank's slices
  } way = Way::kThere;
  std::int64_t bytes = 0;     ///< of whole values, whose rows all count
  std::int64_t messages = 0;  ///< from one rank to another
};

/// A step of data-parallel ranks as the work and the messages of one that has some of the slices: phases,
/// each of which ends with gathers, and what goes to experts' homes and back; then what the last rank, and
/// homes, give to all, gathers, and the tail.
struct StepWork {
  struct Phase {
    std::vector<Stretch> stretches;
    std::vector<std::int64_t> gathered = {};  ///< bytes of values, whole
    std::vector<HomeRows> moved = {};         ///< begun with the gathers; one for each home and way
    std::size_t behind = 0;                   ///< the last stretches: so many are made meanwhile
  };
  /// A value that an expert's home gives to all.
  struct Given {
    int home = 0;
    std::int64_t bytes = 0;
  };
  std::int64_t slices = 1;
  std::vector<Phase> phases;
  std::vector<std::int64_t> broadcast;  ///< bytes of values that the last rank has
  std::vector<Given> given = {};
  std::vector<std::int64_t> tail_gathered;  ///< bytes of values, whole
  Stretch tail = {};                        ///< without a carry
};

/// The work of a checked step program of these classes, where experts are at home as program::place_experts()
/// has placed them, if it has: the work is then for as many ranks. `density` is the share of their numbers
/// that the workers of dgc send, if the program is such a task's; 1 if that is not known.
[[nodiscard]] Result<StepWork> work_of(const program::Program& program, const program::Classes& classes,
                                       double density = 1);

/// Bytes of a running state between two parts, behind so many slices of all: of a dot 1 to 3 words, each as
/// large as the line's value, or as its numbers that differ from 0 where it goes coded (dgx-placement(7),
/// "Plans").
[[nodiscard]] std::int64_t carried_bytes(const Stretch::Carry& carry, std::int64_t slices,
                                         std::int64_t of_slices);

}  // namespace dgx::placement
