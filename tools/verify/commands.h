#pragma once

#include "dgx/cli/tool.h"

/// The commands of dgx-verify(1) that have files of their own, each added to the program by a function.
namespace dgx::tools {

void add_batch(cli::Tool& tool);

}  // namespace dgx::tools
