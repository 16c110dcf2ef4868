#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "dgx/core/result.h"

namespace dgx::program {

/// Floats as text that loses nothing (dgx-program(5), "Numbers"): normalised hex without trailing zeros or
/// plus, `0x1.8p3`, `0x0p0`, `-0x0p0`, `inf`, `-inf`. Subnormals are normalised too: `0x1p-149`. A NaN has no
/// text: asserted.
[[nodiscard]] std::string hex_float(float value);
[[nodiscard]] std::string hex_float(double value);

/// Accepts exactly what hex_float writes; kMalformed otherwise.
[[nodiscard]] Result<float> parse_hex_float(std::string_view text);
[[nodiscard]] Result<double> parse_hex_double(std::string_view text);

}  // namespace dgx::program
