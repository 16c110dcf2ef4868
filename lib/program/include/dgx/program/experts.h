#pragma once

#include <vector>

#include "dgx/core/result.h"
#include "dgx/program/classes.h"
#include "dgx/program/program.h"

namespace dgx::program {

/// The experts of a program (dgx-placement(7), "Experts"), each of which one rank can have whole.
struct Experts {
  static constexpr int kNone = -1;

  struct Expert {
    std::size_t block = 0, number = 0;  ///< its block, and its place there, both from 0
  };
  std::vector<Expert> all;
  std::vector<std::size_t> of_block;  ///< how many experts each block has
  kernels::ByValue<int> of;           ///< of each line and entry its expert in `all`, or kNone

  /// The rank, of so many, that has an expert.
  [[nodiscard]] int home(const Expert& expert, int ranks) const;
};

/// Finds the experts of a program by the form of its lines, for any program. Lines of the tail among
/// `watched` are no expert's. Cost: linear in the text, but for logarithms.
[[nodiscard]] Experts find_experts(const Program& program, const Classes& classes,
                                   const std::vector<kernels::ValueIndex>& watched = {});

/// Gives each expert's lines and entries its home among `ranks`, where lines of the body become class W.
/// `classes` are those of classify(); entries are to be divided afterwards, so that none at home is. kUsage,
/// and nothing is changed, if the program has no expert.
[[nodiscard]] Status place_experts(const Program& program, int ranks,
                                   const std::vector<kernels::ValueIndex>& watched, Classes& classes);

/// The lines of the body at home on one rank that every rank's tail reads, or that become an entry of all, or
/// are `watched`; ascending.
[[nodiscard]] std::vector<kernels::ValueIndex> given_by_homes(
    const Program& program, const Classes& classes, const std::vector<kernels::ValueIndex>& watched);

}  // namespace dgx::program
