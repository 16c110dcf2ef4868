#pragma once

#include <string_view>

namespace dgx {

/// The version of this release, "1.2.0".
[[nodiscard]] std::string_view version();

}  // namespace dgx
