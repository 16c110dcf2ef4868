#pragma once

#include <string>

#include "dgx/manifest/task.h"

namespace dgx::jobs {

/// The options of dgx-submit in which a task differs from the one that a call would make, the first of them;
/// empty if the two say the same. Programs and initial state come after all that they follow from, so that
/// the cause is named.
[[nodiscard]] std::string first_difference(const manifest::Task& found, const manifest::Task& made);

}  // namespace dgx::jobs
