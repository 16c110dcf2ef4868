#pragma once

#include <string>

#include "dgx/core/result.h"

namespace dgx::jobs {

/// Runs a shell command of the user's with the path of a file as its last argument, as --post asks: it hands
/// a signed statement to whoever keeps the ledger. What it prints goes to standard error.
///
/// kIo if it ends with another status than 0, is killed, or cannot be started.
[[nodiscard]] Status post(const std::string& command, const std::string& path);

}  // namespace dgx::jobs
