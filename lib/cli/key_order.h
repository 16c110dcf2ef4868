#pragma once

#include <string_view>
#include <vector>

#include "dgx/core/json_output.h"

namespace dgx::cli {

/// The members of an object in the order in which text tells them: what it is, who, about what, what is said,
/// numbers, digests. JSON has them in the order of their names.
[[nodiscard]] std::vector<const json::Output::Object::value_type*> in_told_order(
    const json::Output::Object& object);

}  // namespace dgx::cli
