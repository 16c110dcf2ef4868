#pragma once

#include <string>

#include "dgx/core/result.h"
#include "input_file.h"
#include "table.h"

namespace dgx::bundle {

/// Runs dgx-h5 to describe the dataset at `path` of a container, which may crash it. kMalformed if the
/// container did so; kInternal if dgx-h5 could not be started or breaks the message format; kInterrupted if
/// something else ended it.
[[nodiscard]] Result<Table> ask_child(const InputFile& container, const std::string& path);

}  // namespace dgx::bundle
