#pragma once

#include <string>

#include "dgx/bundle/run.h"

namespace dgx::bundle {

[[nodiscard]] std::string index_path(const std::string& folder);

/// Replaces the index as a whole; durable when it returns.
[[nodiscard]] Status write_index(const std::string& folder, const RunIndex& index);

/// kMissing if the folder has no index; kMalformed if it contradicts itself.
[[nodiscard]] Result<RunIndex> read_index(const std::string& folder);

}  // namespace dgx::bundle
