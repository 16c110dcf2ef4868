#pragma once

#include <optional>
#include <string>

#include "dgx/cli/tool.h"

/// The commands of dgx-verify(1) that have files of their own, each added to the program by a function.
namespace dgx::tools {

void add_batch(cli::Tool& tool);

/// Declares how the dataset is read, beside --data.
inline void declare_reading(cli::Command& command, std::optional<std::string>& cache, bool& insecure) {
  command.option("--cache", "DIR", cache,
                 "folder, or a store that others fill, with the unpacked fields of compressed datasets");
  command.flag("--insecure", insecure, "take plain http from other machines, too");
}

}  // namespace dgx::tools
