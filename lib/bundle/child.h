#pragma once

#include <string>

#include "dgx/core/result.h"
#include "input_file.h"
#include "table.h"

namespace dgx::bundle {

/// Asks dgx-h5 about the dataset at `path` of a container, which may kill it. kMalformed if the container
/// did; kInternal if it could not be started or does not keep the rules; kInterrupted if somebody else ended
/// it.
[[nodiscard]] Result<Table> ask_child(const InputFile& container, const std::string& path);

}  // namespace dgx::bundle
