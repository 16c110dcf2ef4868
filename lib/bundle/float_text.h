#pragma once

#include <string>
#include <string_view>

#include "dgx/core/result.h"

namespace dgx::bundle {

/// A finite binary32 in the text form of dgx-program(5): "0x1.8p3", "0x0p0", "-0x0p0", "0x1p-149".
[[nodiscard]] std::string float_text(float value);
/// Accepts only what float_text writes.
[[nodiscard]] Result<float> float_from_text(std::string_view text);

}  // namespace dgx::bundle
