#pragma once

#include <optional>
#include <vector>

#include "dgx/program/classes.h"
#include "dgx/program/program.h"

namespace dgx::program {

/// A line that stands for an activation or a gradient behind a cut of the model (dgx-lowerings(7), "AQ-SGD"),
/// and is made of a code of few bits, of which each stage that reads it can make it (dgx-placement(7),
/// "Pipelines").
struct CutMessage {
  kernels::ValueIndex received{};
  /// The entry that keeps an activation, what it becomes, and the lines that read it. A gradient has none.
  std::optional<kernels::ValueIndex> entry, update;
  std::vector<kernels::ValueIndex> old;
};

/// Those of a step program, by the form of their lines, ascending.
[[nodiscard]] std::vector<CutMessage> cut_messages(const Program& program, const Classes& classes);

}  // namespace dgx::program
